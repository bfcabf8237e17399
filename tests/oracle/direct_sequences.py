"""Scripted sequences over the detectors that no DestinationRule reaches: their fields are Envoy's own.

A sweep judges what happened since the last one, so each begins with an ejection and its end: a sweep.
"""

from collections.abc import Mapping
from typing import Any

from tests.oracle.scenario import AwaitSweep, AwaitUnejection, Load, Play, Probe, Scenario, Step

_GATEWAY_ONLY = {"consecutive5xxErrors": 0, "consecutiveGatewayErrors": 1, "maxEjectionPercent": 100}
_RATES = {
    "success_rate_minimum_hosts": 3,
    "success_rate_request_volume": 10,
    "failure_percentage_minimum_hosts": 3,
    "failure_percentage_request_volume": 10,
    "failure_percentage_threshold": 60,
}
_AT_A_SWEEP = (Play(0, ("503",)), AwaitUnejection())


def rates(
    name: str,
    *steps: Step,
    fields: Mapping[str, Any],
    rule: Mapping[str, Any] | None = None,
    hosts: int = 5,
) -> Scenario:
    """Return a scenario whose steps begin right after a sweep and have four seconds to the next."""
    return Scenario(
        name=name,
        hosts=hosts,
        rule=_GATEWAY_ONLY | dict(rule or {}),
        overrides=_RATES | fields,
        steps=(*_AT_A_SWEEP, *steps),
        interval_ms=4_000,
        base_ejection_time_ms=500,
    )


DIRECT_SEQUENCES = (
    rates(
        "success_rate_ejects_the_outlier",
        *(Load(20, (0, 20, 0, 0, 0)), AwaitSweep(), Probe(), AwaitUnejection(), Probe()),
        fields={"enforcing_success_rate": 100},
    ),
    rates(
        "success_rate_spares_two_that_mask_each_other",
        *(Load(20, (20, 20, 0, 0, 0)), AwaitSweep(), Probe()),
        fields={"enforcing_success_rate": 100},
    ),
    rates(
        "success_rate_factor_decides_who_is_an_outlier",
        *(Load(20, (20, 20, 0, 0, 0)), AwaitSweep(), Probe()),
        fields={"enforcing_success_rate": 100, "success_rate_stdev_factor": 1_000},
    ),
    rates(
        "a_host_with_too_few_requests_is_not_judged",
        *(Load(9, (9, 0, 0, 0, 0)), AwaitSweep(), Probe()),
        fields={"enforcing_success_rate": 100, "failure_percentage_request_volume": 9},
    ),
    rates(
        "failure_percentage_ejects_at_its_threshold_and_not_below",
        *(Load(20, (0, 11, 12, 20, 0)), AwaitSweep(), Probe()),
        fields={"enforcing_success_rate": 0, "enforcing_failure_percentage": 100},
    ),
    rates(
        "failure_percentage_needs_its_minimum_of_hosts",
        *(Load(20, (0, 20)), AwaitSweep(), Probe()),
        hosts=2,
        fields={"enforcing_failure_percentage": 100, "success_rate_minimum_hosts": 2},
    ),
    rates(
        "an_outlier_by_both_measures_is_ejected_twice_and_comes_back_once",
        *(Load(20, (0, 20, 0, 0, 0)), AwaitSweep()),
        fields={"enforcing_success_rate": 100, "enforcing_failure_percentage": 100},
    ),
    rates(
        "local_origin_has_rates_of_its_own_when_split",
        *(Load(20, (0, 0, 20, 0, 0), "reset"), AwaitSweep(), Probe()),
        rule={"splitExternalLocalOriginErrors": True},
        fields={
            "enforcing_local_origin_success_rate": 100,
            "consecutive_local_origin_failure": 0,
            "success_rate_stdev_factor": 1_000,
        },
    ),
    rates(
        "local_origin_failure_percentage_ejects_when_split",
        *(Load(20, (0, 0, 20, 0, 0), "fin"), AwaitSweep(), Probe()),
        rule={"splitExternalLocalOriginErrors": True},
        fields={
            "enforcing_local_origin_success_rate": 0,
            "enforcing_failure_percentage_local_origin": 100,
            "consecutive_local_origin_failure": 0,
            "failure_percentage_threshold": 50,
        },
    ),
    Scenario(
        name="one_host_is_always_ejected_when_asked_for",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 10},
        overrides={"always_eject_one_host": True},
        steps=(Play(0, ("500",)), Play(1, ("500", "500")), Probe()),
    ),
    Scenario(
        name="a_detection_that_is_not_enforced_is_logged",
        hosts=3,
        rule={"consecutive5xxErrors": 2, "maxEjectionPercent": 100},
        overrides={"enforcing_consecutive_5xx": 0},
        steps=(Play(0, ("500",) * 5), Probe()),
    ),
    Scenario(
        name="max_ejection_time_bounds_the_growth",
        hosts=2,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 50},
        overrides={"max_ejection_time": "1.5s"},
        steps=(Play(0, ("500",)), AwaitUnejection()) * 3,
        interval_ms=1_000,
        base_ejection_time_ms=1_500,
    ),
    Scenario(
        name="a_degraded_answer_marks_the_host_and_another_changes_nothing",
        hosts=4,  # three healthy ones of four take all the traffic; of three, two would leave 7 % to the degraded one
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100},
        overrides={"detect_degraded_hosts": True},
        steps=(Play(0, ("degraded", "degraded")), Probe()),
    ),
    Scenario(
        name="a_degraded_answer_means_nothing_unless_asked_for",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100},
        overrides={"detect_degraded_hosts": False},
        steps=(Play(0, ("degraded", "degraded")), Probe()),
    ),
)
