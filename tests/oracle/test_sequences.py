"""Scripted sequences: the sidecar answers, ejects and counts as a real Envoy does."""

import asyncio

import pytest

from tests.oracle.comparison import transcripts
from tests.oracle.driver import Transcript
from tests.oracle.envoy import Envoy
from tests.oracle.scenario import Scenario
from tests.oracle.sequences import SEQUENCES
from tests.oracle.sidecar import Sidecar
from tests.oracle.verdict import differences

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("_envoy")]


@pytest.fixture(scope="module")
def compared(_envoy: None) -> dict[str, tuple[Transcript, Transcript]]:
    """Return both transcripts of every sequence; all run together, because most of their time is waiting."""
    envoy, sidecar = asyncio.run(transcripts(SEQUENCES, (Envoy, Sidecar)))
    names = (scenario.name for scenario in SEQUENCES)
    return dict(zip(names, zip(envoy, sidecar, strict=True), strict=True))


@pytest.mark.parametrize("scenario", SEQUENCES, ids=lambda scenario: scenario.name)
def test_sidecar_does_as_envoy(scenario: Scenario, compared: dict[str, tuple[Transcript, Transcript]]) -> None:
    expected, actual = compared[scenario.name]

    assert differences(scenario, expected, actual) == []
