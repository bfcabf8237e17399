"""Conversion and wire format at once: an Envoy fed by our source ejects as the sidecar does from the same files."""

import asyncio

import attrs
import pytest

from tests.oracle.comparison import Comparison, compare
from tests.oracle.fed_envoy import FedEnvoy
from tests.oracle.scenario import Scenario
from tests.oracle.sequences import SEQUENCES
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

CHANGE_DEADLINE_S = 60.0
# Envoy's own fields cannot be written in a DestinationRule.
RULES = [scenario for scenario in SEQUENCES if not scenario.overrides]


@pytest.fixture(scope="module")
def compared(_envoy: None) -> dict[str, Comparison]:
    return {done.scenario.name: done for done in compare(RULES, (FedEnvoy, Sidecar))}


@pytest.mark.parametrize("scenario", RULES, ids=lambda scenario: scenario.name)
def test_an_envoy_that_is_fed_does_as_the_sidecar(scenario: Scenario, compared: dict[str, Comparison]) -> None:
    assert compared[scenario.name].differences == []


@pytest.mark.usefixtures("_envoy")
def test_changes_reach_an_envoy_that_is_fed() -> None:
    """First the endpoints change, then the cluster itself, which Envoy takes only with its endpoints."""

    async def main() -> None:
        service = Service(host="moving.oracle.test", addresses=["127.0.0.1:1"], outlier_detection={})
        async with FedEnvoy([service]) as envoy:
            for changed, shown in (
                (attrs.evolve(service, addresses=["127.0.0.1:2"]), "127.0.0.1:2::health_flags"),
                (attrs.evolve(service, addresses=["127.0.0.1:2"], balancer="RANDOM"), '"lb_policy": "RANDOM"'),
            ):
                envoy.write([changed])
                page = "/clusters" if "::" in shown else "/config_dump"
                async with asyncio.timeout(CHANGE_DEADLINE_S):
                    while shown not in await envoy.get(page):  # noqa: ASYNC110 - another process's state
                        await asyncio.sleep(0.05)
            assert "127.0.0.1:2::health_flags" in await envoy.get("/clusters")

    asyncio.run(main())
