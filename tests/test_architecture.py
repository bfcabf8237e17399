"""The floors of the packages: who may import whom, and what the engine must not know."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# From the ground up. A module imports from floors below its own and from its own folder; folders and modules that
# share a floor do not import each other. A name stands for the folder or module of `proxy` that it names.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"allocator", "errors", "stats", "logs", "response_flags", "deadlines", "version", "codec", "turns"}),
    frozenset({"log_file", "event_stream"}),
    frozenset({"config"}),
    frozenset({"upstream", "mcp", "outlier_events"}),
    frozenset({"load_balancer"}),
    frozenset({"cluster"}),
    frozenset({"router"}),
    frozenset({"http", "push", "admin"}),
    frozenset({"server"}),
    frozenset({"testing"}),
    frozenset({"cli"}),
)

# What belongs to the command line but has a module of its own.
CLI_MODULES = frozenset(
    path.stem
    for path in (ROOT / "proxy").glob("*.py")
    if path.stem.endswith(("_command", "_options", "_plot")) or path.stem.startswith(("demo", "replay_"))
)

ENGINE_MAY_IMPORT = frozenset(
    {
        "abc",
        "attrs",
        "bisect",
        "collections",
        "datetime",
        "decimal",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "outlier",
        "re",
        "types",
        "typing",
    }
)


def modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports when it runs; imports for type checkers only do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """Return the folder or module of `proxy` that a dotted name lies in."""
    return name.split(".")[1] if "." in name else ""


def floor(name: str) -> int:
    if name in CLI_MODULES:
        name = "cli"
    for number, names in enumerate(FLOORS):
        if name in names:
            return number
    raise AssertionError(f"proxy.{name} has no floor")


def room_of(path: Path) -> str:
    relative = path.relative_to(ROOT / "proxy")
    return relative.parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules("proxy"), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_from_lower_floors_or_its_own_folder(path):
    own = room_of(path)
    if own == "__init__":
        return
    above = [
        name
        for name in imports(path)
        if name.startswith("proxy.")
        and room(name) != own
        and floor(room(name)) >= floor(own)
        and not (own in CLI_MODULES | {"cli"} and room(name) in CLI_MODULES)
    ]

    assert above == []


@pytest.mark.parametrize("path", modules("outlier"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_imports_no_clock_no_chance_no_io(path):
    foreign = {name.split(".")[0] for name in imports(path)} - ENGINE_MAY_IMPORT
    if path.name == "sources.py":
        foreign -= {"random"}  # the one place where a seed becomes numbers

    assert foreign == set()


def test_no_import_cycles():
    graph: dict[str, set[str]] = {}
    names = {}
    for package in ("outlier", "proxy"):
        for path in modules(package):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            names[dotted] = path
    for dotted, path in names.items():
        found = set()
        for name in imports(path):
            target = name if name in names else name.rpartition(".")[0]
            # A package's __init__ lists its modules for outsiders; inside the package it is nobody's dependency.
            if target in names and target != dotted and not dotted.startswith(target + "."):
                found.add(target)
        graph[dotted] = found

    def cycle_from(start: str) -> list[str] | None:
        stack: list[tuple[str, list[str]]] = [(start, [start])]
        seen = set()
        while stack:
            node, path = stack.pop()
            for following in graph[node]:
                if following == start:
                    return [*path, start]
                if following not in seen:
                    seen.add(following)
                    stack.append((following, [*path, following]))
        return None

    cycles = [cycle for dotted in graph if (cycle := cycle_from(dotted)) is not None]

    assert cycles == []


@pytest.mark.parametrize("package", ["outlier", "proxy"])
def test_a_file_over_400_lines_says_why_in_its_head(package):
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules(package)}
    unexplained = [path for path, text in texts.items() if len(text.splitlines()) > 400 and "400 lines" not in text]

    assert unexplained == []
