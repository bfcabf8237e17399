"""The guard as a test, outside of the test suite: `python -m pytest -m guard benchmarks`."""

import pytest

from benchmarks import guard


@pytest.mark.guard
def test_nothing_got_dearer(capsys):
    assert guard.main([]) == 0, capsys.readouterr().out
