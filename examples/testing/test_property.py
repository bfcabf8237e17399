"""Properties of a rule over traffic that hypothesis makes up; see docs/property-test-your-rule.md."""

from pathlib import Path

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis.stateful import invariant

from proxy.testing import longest_ejection_ms, most_ejected, simulated
from proxy.testing.strategies import DetectorMachine, traffic

PODS = 6
RULE = {
    "host": "reviews",
    "trafficPolicy": {
        "outlierDetection": {
            "consecutive5xxErrors": 5,
            "interval": "10s",
            "baseEjectionTime": "30s",
            "maxEjectionPercent": 50,
        }
    },
}


@settings(max_examples=50, deadline=None)
@given(traffic=traffic(PODS))
def test_no_more_than_half_of_the_pods_are_ever_out(traffic):
    with simulated({**traffic, "destination_rule": RULE}, write_to="more-than-half.yaml") as simulation:
        assert most_ejected(simulation) <= PODS // 2


@settings(max_examples=50, deadline=None)
@given(traffic=traffic(PODS, seconds=900))
def test_a_pod_is_back_within_five_minutes_of_an_incident_of_fifteen(traffic):
    with simulated({**traffic, "destination_rule": RULE}, write_to="out-too-long.yaml") as simulation:
        assert longest_ejection_ms(simulation) <= 300_000


class HalfStays(DetectorMachine):
    """The first property again, for any history of answers, failures and time."""

    destination_rule = RULE
    host_count = PODS
    scenario_file = Path("half-stays.yaml")

    @invariant()
    def half_of_the_pods_stay(self):
        assert len(self.ejected) <= PODS // 2


TestHalfStays = HalfStays.TestCase
TestHalfStays.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
