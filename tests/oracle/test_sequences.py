"""Scripted sequences: the sidecar answers, ejects and counts as a real Envoy does."""

from collections.abc import Sequence

import pytest

from tests.oracle.comparison import Comparison, compare
from tests.oracle.direct_sequences import DIRECT_SEQUENCES
from tests.oracle.envoy import Envoy
from tests.oracle.scenario import Scenario
from tests.oracle.sequences import SEQUENCES
from tests.oracle.sidecar import Sidecar

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

Compared = dict[str, Comparison]


def _compare(sequences: Sequence[Scenario]) -> Compared:
    # All run together, because most of their time is waiting.
    return {done.scenario.name: done for done in compare(sequences, (Envoy, Sidecar))}


@pytest.fixture(scope="module")
def compared(_envoy: None) -> Compared:
    """Return the comparison of every sequence that a DestinationRule can express."""
    return _compare(SEQUENCES)


@pytest.fixture(scope="module")
def compared_directly(_envoy: None) -> Compared:
    """Return the comparison of every sequence that needs Envoy's own fields."""
    return _compare(DIRECT_SEQUENCES)


@pytest.mark.parametrize("scenario", SEQUENCES, ids=lambda scenario: scenario.name)
def test_sidecar_does_as_envoy(scenario: Scenario, compared: Compared) -> None:
    assert compared[scenario.name].differences == []


@pytest.mark.parametrize("scenario", DIRECT_SEQUENCES, ids=lambda scenario: scenario.name)
def test_sidecar_does_as_envoy_with_its_own_fields(scenario: Scenario, compared_directly: Compared) -> None:
    assert compared_directly[scenario.name].differences == []
