"""The scripted sequences: each shows one rule of outlier detection on real connections."""

from tests.oracle.scenario import (
    ABORT,
    REFUSE,
    AwaitSweep,
    AwaitUnejection,
    Load,
    Play,
    Probe,
    Rest,
    Scenario,
)

# An ejection lasts base..base + interval: with these the multiples of the base cannot be mistaken for each other, and
# a busy machine has half a second to spare.
_TIMED = {"interval_ms": 1_000, "base_ejection_time_ms": 1_500}


def _all_fail(hosts: int, behaviour: str, times: int) -> tuple[Play, ...]:
    return tuple(Play(host, (behaviour,) * times) for host in range(hosts))


SEQUENCES = (
    Scenario(
        name="five_500s_in_a_row_eject_and_four_do_not",
        hosts=3,
        rule={"maxEjectionPercent": 100},
        steps=(Play(0, ("500",) * 4), Probe(), Play(1, ("500",) * 5), Probe()),
    ),
    Scenario(
        name="a_success_starts_the_run_afresh",
        hosts=3,
        rule={"consecutive5xxErrors": 3, "maxEjectionPercent": 100},
        steps=(Play(0, ("500", "500", "200", "500", "404", "500", "500", "501")), Probe()),
    ),
    Scenario(
        name="gateway_errors_eject_before_5xx",
        hosts=3,
        rule={"consecutiveGatewayErrors": 2, "consecutive5xxErrors": 4, "maxEjectionPercent": 100},
        steps=(Play(0, ("502", "503")), Play(1, ("504", "500", "504", "500")), Probe()),
    ),
    Scenario(
        name="gateway_ejection_swallows_the_5xx_hit_of_the_same_answer",
        hosts=3,
        rule={"consecutiveGatewayErrors": 3, "consecutive5xxErrors": 3, "maxEjectionPercent": 100},
        steps=(Play(0, ("503",) * 3), Play(1, ("500", "503", "503", "503")), Probe()),
    ),
    Scenario(
        name="gateway_only_when_5xx_is_zero",
        hosts=3,
        rule={"consecutiveGatewayErrors": 2, "consecutive5xxErrors": 0, "maxEjectionPercent": 100},
        steps=(Play(0, ("500",) * 6), Play(0, ("503", "504")), Probe()),
    ),
    Scenario(
        name="unset_gateway_threshold_is_logged_but_not_enforced",
        hosts=3,
        rule={"consecutive5xxErrors": 20, "maxEjectionPercent": 100},
        steps=(Play(0, ("503",) * 11), Probe()),
    ),
    Scenario(
        name="both_thresholds_zero_detect_nothing",
        hosts=2,
        rule={"consecutive5xxErrors": 0, "consecutiveGatewayErrors": 0, "maxEjectionPercent": 100},
        steps=(Play(0, ("503",) * 8), Probe()),
    ),
    Scenario(
        name="empty_block_has_envoys_defaults_and_ten_percent_spares_few_hosts",
        hosts=3,
        rule={},
        steps=(Play(0, ("500",) * 11), Probe()),
    ),
    Scenario(
        name="ten_percent_of_ten_hosts_is_one",
        hosts=10,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 10},
        steps=(Play(4, ("500",)), Play(5, ("500", "500")), Probe()),
    ),
    Scenario(
        name="33_percent_of_three_hosts_is_none",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 33},
        steps=(*_all_fail(3, "500", 2), Probe()),
    ),
    Scenario(
        name="34_percent_of_three_hosts_is_one",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 34},
        steps=(*_all_fail(3, "500", 2), Probe()),
    ),
    Scenario(
        name="50_percent_of_four_hosts_is_two",
        hosts=4,
        rule={"consecutive5xxErrors": 2, "maxEjectionPercent": 50},
        steps=(*_all_fail(4, "502", 3), Probe()),
    ),
    Scenario(
        name="all_ejected_without_panic_leaves_nobody",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100, "minHealthPercent": 0},
        steps=(*_all_fail(3, "503", 1), Probe()),
    ),
    Scenario(
        name="below_half_healthy_panic_uses_everyone",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100, "minHealthPercent": 50},
        steps=(Play(0, ("503", "503")), Play(1, ("503", "503")), Probe(), Play(2, ("503",) * 3), Probe()),
    ),
    Scenario(
        name="exactly_half_healthy_is_no_panic",
        hosts=4,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100, "minHealthPercent": 50},
        steps=(Play(0, ("500",)), Play(1, ("500",)), Probe(), Play(2, ("500",)), Probe()),
    ),
    Scenario(
        name="the_only_host_needs_a_cap_of_100",
        hosts=1,
        rule={"consecutive5xxErrors": 2, "maxEjectionPercent": 99, "minHealthPercent": 50},
        steps=(Play(0, ("500",) * 4), Probe()),
    ),
    Scenario(
        name="resets_count_as_503",
        hosts=3,
        rule={"consecutive5xxErrors": 3, "consecutiveGatewayErrors": 3, "maxEjectionPercent": 100},
        steps=(Play(0, ("reset",) * 3), Play(1, ("fin", "reset", "fin")), Probe()),
    ),
    Scenario(
        name="refused_connects_count_as_503",
        hosts=3,
        rule={"consecutive5xxErrors": 4, "consecutiveGatewayErrors": 2, "maxEjectionPercent": 100},
        steps=(Play(1, (REFUSE,) * 2), Probe()),
    ),
    Scenario(
        name="answers_that_are_not_http_count_as_503",
        hosts=3,
        rule={"consecutive5xxErrors": 3, "maxEjectionPercent": 100},
        steps=(Play(2, ("garbage",) * 3), Probe()),
    ),
    Scenario(
        name="hangs_count_as_504_at_the_route_timeout",
        hosts=3,
        rule={"consecutive5xxErrors": 5, "consecutiveGatewayErrors": 3, "maxEjectionPercent": 100},
        steps=(Play(0, ("hang", "hang", "500", "hang", "hang", "hang")), Probe()),
    ),
    Scenario(
        name="a_cut_body_charges_a_503_after_the_200",
        hosts=3,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100},
        steps=(Play(0, ("cut",)), Probe()),
    ),
    Scenario(
        name="a_body_that_stalls_charges_nothing",
        hosts=2,
        rule={"consecutive5xxErrors": 1, "maxEjectionPercent": 100},
        steps=(Play(0, ("stall",)), Probe()),
    ),
    Scenario(
        name="a_client_that_leaves_charges_nothing_and_resets_nothing",
        hosts=3,
        rule={"consecutive5xxErrors": 3, "maxEjectionPercent": 100},
        steps=(Play(0, (ABORT, "500", "500", ABORT, ABORT, "500")), Probe()),
    ),
    Scenario(
        name="informational_answers_are_not_judged",
        hosts=3,
        rule={"consecutive5xxErrors": 2, "maxEjectionPercent": 100},
        steps=(Play(0, ("early-hints", "early-hints")), Probe()),
    ),
    Scenario(
        name="mixed_failures_are_one_run",
        hosts=3,
        rule={"consecutive5xxErrors": 5, "consecutiveGatewayErrors": 4, "maxEjectionPercent": 100},
        steps=(Play(0, ("500", "reset", "hang", "503", "500")), Probe()),
    ),
    Scenario(
        name="split_counts_refused_connects_as_local_origin",
        hosts=3,
        rule={
            "splitExternalLocalOriginErrors": True,
            "consecutiveLocalOriginFailures": 2,
            "consecutive5xxErrors": 2,
            "maxEjectionPercent": 100,
        },
        steps=(Play(0, (REFUSE,) * 2), Play(1, ("503", REFUSE, "503")), Probe()),
    ),
    Scenario(
        name="split_never_ejects_for_one_timeout_at_a_time",
        hosts=3,
        rule={"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 2, "maxEjectionPercent": 100},
        steps=(Play(0, ("hang",) * 3), Play(0, ("reset",) * 5), Probe()),
    ),
    Scenario(
        name="split_with_a_threshold_of_one_ejects_for_a_reset",
        hosts=3,
        rule={
            "splitExternalLocalOriginErrors": True,
            "consecutiveLocalOriginFailures": 1,
            "consecutiveGatewayErrors": 2,
            "maxEjectionPercent": 100,
        },
        steps=(Play(0, ("reset",)), Play(1, ("503", "503")), Probe()),
    ),
    Scenario(
        name="ejection_time_grows_with_each_ejection_and_shrinks_with_good_conduct",
        hosts=2,
        rule={"consecutive5xxErrors": 2, "maxEjectionPercent": 50},
        steps=(
            Play(0, ("500", "500")),
            AwaitUnejection(),
            Play(0, ("500", "500")),
            AwaitUnejection(),
            Rest(3),
            Play(0, ("500", "500")),
            AwaitUnejection(),
            Probe(),
        ),
        **_TIMED,
    ),
    Scenario(
        name="unejection_clears_the_run",
        hosts=2,
        rule={"consecutive5xxErrors": 2, "minHealthPercent": 100, "maxEjectionPercent": 100},
        steps=(Play(0, ("500",) * 3), AwaitUnejection(), Play(0, ("500",)), Probe()),
        **_TIMED,
    ),
    Scenario(
        name="listed_status_codes_replace_the_5xx_rule",
        hosts=3,
        rule={
            "outlierDetectionHttpErrorCodes": [429, 503],
            "consecutive5xxErrors": 2,
            "consecutiveGatewayErrors": 2,
            "maxEjectionPercent": 100,
        },
        steps=(Play(0, ("500",) * 4), Play(0, ("429", "429")), Play(1, ("503", "429", "503")), Probe()),
    ),
    Scenario(
        name="success_rate_and_failure_percentage_are_detected_but_not_enforced",
        hosts=5,
        rule={"consecutive5xxErrors": 0, "consecutiveGatewayErrors": 1, "maxEjectionPercent": 100},
        steps=(Play(1, ("503",)), AwaitUnejection(), Load(110, (0, 100, 0, 0, 0)), AwaitSweep()),
        interval_ms=4_000,
        base_ejection_time_ms=500,
    ),
)
