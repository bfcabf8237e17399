"""docs/operations.md says what the code does."""

import ast
import re
from pathlib import Path

from proxy.admin.application import ENDPOINTS
from proxy.admin.watch import Concern
from proxy.config.bootstrap import options
from proxy.logs import AREAS
from proxy.run_options import default_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def table(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading."""
    section = PAGE[PAGE.index(f"## {heading}\n") :]
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


def test_every_option_is_listed_with_its_default():
    listed = [tuple(row) for row in table("Options")]

    assert listed == [(option.flag, option.environment_variable, default_text(option)) for option in options()]


def test_every_endpoint_is_listed_with_its_method():
    listed = [(path, method) for path, method, _ in table("Admin endpoints")]

    assert listed == [
        (endpoint.path, "POST" if endpoint.changes_state else "")
        for endpoint in sorted(ENDPOINTS, key=lambda endpoint: endpoint.path)
    ]


def test_every_warning_is_listed():
    assert [name for name, _ in table("Warnings")] == [concern.value for concern in Concern]


def written_events() -> set[str]:
    """Every event in the code: what log calls say outright, and names of areas that no statistic has."""
    written = set()
    for path in (ROOT / "proxy").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).startswith(("log.", "write")):
                constants = ast.walk(node.args[0])
            else:
                constants = [node] if str(getattr(node, "value", "")).startswith("health.") else []
            written |= {
                constant.value
                for constant in constants
                if isinstance(constant, ast.Constant) and re.fullmatch(r"[a-z]+\.[a-z_]+", str(constant.value))
            }
    return written | {"library.logged"}


def test_every_log_event_is_listed():
    assert {name for name, *_ in table("Log")} == written_events()


def test_every_area_has_a_level():
    assert {event.partition(".")[0] for event in written_events()} == set(AREAS)
