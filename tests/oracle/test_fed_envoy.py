"""Conversion and wire format at once: an Envoy fed by our source ejects as the sidecar does from the same files."""

import asyncio

import pytest

from tests.oracle.comparison import transcripts
from tests.oracle.driver import Transcript
from tests.oracle.fed_envoy import FedEnvoy
from tests.oracle.scenario import Scenario
from tests.oracle.sequences import SEQUENCES
from tests.oracle.sidecar import Sidecar
from tests.oracle.verdict import differences

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("_envoy")]

# Envoy's own fields cannot be written in a DestinationRule.
RULES = [scenario for scenario in SEQUENCES if not scenario.overrides]


@pytest.fixture(scope="module")
def compared(_envoy: None) -> dict[str, tuple[Transcript, Transcript]]:
    envoy, sidecar = asyncio.run(transcripts(RULES, (FedEnvoy, Sidecar)))
    names = [scenario.name for scenario in RULES]
    return dict(zip(names, zip(envoy, sidecar, strict=True), strict=True))


@pytest.mark.parametrize("scenario", RULES, ids=lambda scenario: scenario.name)
def test_an_envoy_that_is_fed_does_as_the_sidecar(
    scenario: Scenario, compared: dict[str, tuple[Transcript, Transcript]]
) -> None:
    expected, actual = compared[scenario.name]

    assert differences(scenario, expected, actual) == []
