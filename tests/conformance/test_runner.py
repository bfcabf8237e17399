"""The runner itself: what it prints, counts and returns."""

import pytest

from tests.conformance.__main__ import main

WRONG = """
schema: 1
cases:
- id: {id}
  eras: [current]
  hosts: [h0]
  config: {{max_ejection_percent: 100}}
  steps:
  - report: {{host: h0, code: 500, count: {count}}}
    expect: {{ejected: [h0]}}
"""


def test_file_outside_its_folder_is_recognised_by_content(tmp_path, capsys):
    (tmp_path / "any.yaml").write_text(WRONG.format(id="five-eject", count=5))

    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_failing_case_is_named_with_expected_and_actual(tmp_path, capsys):
    (tmp_path / "any.yaml").write_text(WRONG.format(id="four-eject", count=4))

    assert main([str(tmp_path / "any.yaml")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAILED any.yaml four-eject[current]: steps[0].ejected at 0 ms")
    assert [line.strip() for line in lines[1:3]] == ["expected ['h0']", "actual   []"]
    assert lines[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize("name", ["missing.yaml", "."], ids=["no such file", "empty folder"])
def test_path_without_vectors_is_bad_usage(tmp_path, capsys, name):
    assert main([str(tmp_path / name)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_file_of_no_family_is_bad_usage(tmp_path, capsys):
    (tmp_path / "other.yaml").write_text("{}")

    assert main([str(tmp_path)]) == 2
    assert "no known family" in capsys.readouterr().err
