"""Random scenarios: a taste of `python -m tests.oracle`, which runs as many as one likes."""

import pytest

from tests.oracle.__main__ import main

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]


def test_twenty_random_scenarios_match(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seed", "ci", "--count", "20"])

    output = capsys.readouterr().out
    assert (status, output.splitlines()[-1]) == (0, "20 matching, 0 mismatching"), output
