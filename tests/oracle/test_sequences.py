"""Scripted sequences: the sidecar answers, ejects and counts as a real Envoy does."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.oracle.comparison import transcripts
from tests.oracle.direct_sequences import DIRECT_SEQUENCES
from tests.oracle.driver import Transcript
from tests.oracle.envoy import Envoy
from tests.oracle.scenario import Scenario
from tests.oracle.sequences import SEQUENCES
from tests.oracle.sidecar import Sidecar
from tests.oracle.verdict import differences

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("_envoy")]

Compared = dict[str, tuple[Transcript, Transcript]]


def _compare(sequences: Sequence[Scenario]) -> Compared:
    # All run together, because most of their time is waiting.
    envoy, sidecar = asyncio.run(transcripts(sequences, (Envoy, Sidecar)))
    names = (scenario.name for scenario in sequences)
    return dict(zip(names, zip(envoy, sidecar, strict=True), strict=True))


@pytest.fixture(scope="module")
def compared(_envoy: None) -> Compared:
    """Return both transcripts of every sequence that a DestinationRule can express."""
    return _compare(SEQUENCES)


@pytest.fixture(scope="module")
def compared_directly(_envoy: None) -> Compared:
    """Return both transcripts of every sequence that needs Envoy's own fields."""
    return _compare(DIRECT_SEQUENCES)


@pytest.mark.parametrize("scenario", SEQUENCES, ids=lambda scenario: scenario.name)
def test_sidecar_does_as_envoy(scenario: Scenario, compared: Compared) -> None:
    expected, actual = compared[scenario.name]

    assert differences(scenario, expected, actual) == []


@pytest.mark.parametrize("scenario", DIRECT_SEQUENCES, ids=lambda scenario: scenario.name)
def test_sidecar_does_as_envoy_with_its_own_fields(scenario: Scenario, compared_directly: Compared) -> None:
    expected, actual = compared_directly[scenario.name]

    assert differences(scenario, expected, actual) == []
