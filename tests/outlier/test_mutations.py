from pathlib import Path

import pytest

import outlier
from tests.outlier.faults import FAULTS


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault_quotes_code_that_stands_exactly_once(fault):
    """Whether the tests notice it, `python -m tests.outlier.mutations` tells."""
    text = (Path(outlier.__file__).parent / fault.file).read_text()

    assert text.count(fault.old) == 1
    assert fault.new != fault.old


def test_names_of_faults_are_unique():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
