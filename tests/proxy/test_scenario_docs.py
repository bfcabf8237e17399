"""The scenarios that the documentation shows run, hold, and print what it says."""

import argparse
import re
from pathlib import Path

import pytest

from proxy import simulate_command

DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted((DOCS / "scenarios").glob("*.yaml"))


def simulate(capsys, *arguments):
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())
    code = simulate_command.run(parser.parse_args(["simulate", *map(str, arguments), "--check"]))
    return code, [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_documented_scenario_holds(capsys, file):
    code, lines = simulate(capsys, file)

    assert (code, [line for line in lines if line.startswith("unmet")]) == (0, [])


def test_first_example_prints_what_the_page_shows(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    page = (DOCS / "scenarios.md").read_text()
    example, shown = re.search(r"```yaml\n(.*?)```\n\n```\n\$ [^\n]*\n(.*?)```", page, re.DOTALL).groups()
    file = tmp_path / "one-of-three.yaml"
    file.write_text(example)

    assert simulate(capsys, file) == (0, [*shown.splitlines(), ""])


def test_first_example_is_the_file():
    page = (DOCS / "scenarios.md").read_text()

    assert (DOCS / "scenarios" / "one-of-three.yaml").read_text() in page
