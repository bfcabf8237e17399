import pytest

from outlier import EnvoyRelease, MomentKind, Scenario, ScenarioError, simulate, spans


def people(**data):
    return Scenario.from_dict(
        {
            "outlier_detection": {
                "consecutive_5xx": 3,
                "interval": "5s",
                "base_ejection_time": "10s",
                "max_ejection_percent": 50,
            },
            "duration": "1m",
            "rate": 20,
            "hosts": ["a", "b", "c"],
            "behaviours": ["b fails with 503 from 10s to 40s"],
            **data,
        }
    )


def timeline(simulation):
    return [(moment.at_ms, moment.kind.value, moment.host) for moment in simulation.timeline]


def test_failing_host_is_ejected_and_returns():
    found = simulate(people())

    assert timeline(found) == [
        (10_350, "ejected", "b"),
        (25_000, "unejected", "b"),
        (25_350, "ejected", "b"),
        (50_000, "unejected", "b"),
    ]
    assert [moment.reason for moment in found.timeline[:2]] == [
        "CONSECUTIVE_5XX (3 in a row, threshold 3), for 10 s",
        "ejected for 14.65 s, 10 s were due",
    ]
    assert (found.requests, found.failed_requests, found.end_ms) == (1201, 6, 60_000)
    assert found.stats["ejections_enforced_total"] == 2


def test_same_seed_same_run_and_other_seed_another():
    data = {"behaviours": ["b fails with 503 in 60 % of requests", "c times out in 50 % of requests"]}

    one, same, other = (timeline(simulate(people(seed=seed, **data))) for seed in (1, 1, 2))
    assert one == same != other


def test_releases_differ_by_the_limit():
    scenario = people(behaviours=["b fails with 503 from 10s", "c fails with 503 from 10s"], duration="20s")

    old = simulate(scenario, EnvoyRelease.V1_8)
    new = simulate(scenario, EnvoyRelease.V1_40)
    assert {moment.host for moment in old.timeline if moment.kind is MomentKind.EJECTED} == {"b", "c"}
    assert {moment.host for moment in new.timeline if moment.kind is MomentKind.EJECTED} == {"b"}
    saved = next(moment for moment in new.timeline if moment.kind is MomentKind.NOT_EJECTED)
    assert saved.reason.endswith(
        "but the cap forbids it: 3 hosts, 1 ejected, cap 50 %, one more ejection would make it 66.7 %"
    )


def test_panic_follows_the_ejection_that_caused_it():
    found = simulate(
        people(behaviours=["b fails with 503 from 10s", "c fails with 503 from 10s"], duration="20s"),
        EnvoyRelease.V1_8,
    )

    kinds = [(moment.kind, moment.host) for moment in found.timeline]
    assert kinds[1:3] == [(MomentKind.EJECTED, "c"), (MomentKind.PANIC, None)]
    assert found.timeline[2].reason == "2 of 3 hosts ejected"


def test_without_panic_requests_fail_when_nobody_is_left():
    found = simulate(
        people(
            outlier_detection={"consecutive_5xx": 1, "max_ejection_percent": 100},
            hosts=["a"],
            behaviours=["a fails with 500"],
            panic_threshold=0,
            duration="10s",
        )
    )

    assert (found.requests, found.failed_requests) == (201, 201)
    assert [moment.kind for moment in found.timeline] == [MomentKind.EJECTED]


def test_hosts_come_and_go():
    found = simulate(people(behaviours=["d is added at 5s", "a is removed at 10s"], duration="12s"))

    assert timeline(found) == [(5_000, "added", "d"), (10_000, "removed", "a")]


def test_removed_host_can_return_as_a_new_one():
    found = simulate(people(behaviours=["b fails with 503", "b is removed at 3s", "b is added at 4s"], duration="6s"))

    assert [(kind, host) for _, kind, host in timeline(found)] == [
        ("ejected", "b"),
        ("removed", "b"),
        ("added", "b"),
        ("ejected", "b"),
    ]


def test_degraded_mark_comes_and_goes():
    found = simulate(
        people(
            outlier_detection={"detect_degraded_hosts": True, "base_ejection_time": "10s", "interval": "5s"},
            behaviours=["b answers degraded to 3s"],
            duration="20s",
        )
    )

    assert [(kind, host) for _, kind, host in timeline(found)] == [("degraded", "b"), ("no longer degraded", "b")]


@pytest.mark.parametrize(
    ("expect", "held"),
    [
        ({"at": "10349ms", "ejected": []}, True),
        ({"at": "10349ms", "ejected": ["b"]}, False),
        ({"at": "10350ms", "ejected": ["b"]}, True),
        ({"at": "1m", "ejected": []}, True),
        ({"event": {"action": "EJECT", "host": "b"}, "between": ["10s", "11s"]}, True),
        ({"event": {"action": "EJECT", "host": "c"}, "between": ["10s", "11s"]}, False),
        ({"event": {"action": "EJECT", "host": "b"}, "between": ["11s", "20s"]}, False),
        ({"event": {"action": "EJECT", "host": "b", "times": 2}, "between": ["0s", "60s"]}, True),
        ({"event": {"action": "EJECT", "host": "b", "times": 1}, "between": ["0s", "60s"]}, False),
        ({"event": {"action": "UNEJECT", "times": 0}, "between": ["0s", "24999ms"]}, True),
        ({"at": "1m", "failed_requests_at_most": 6}, True),
        ({"at": "1m", "failed_requests_at_most": 5}, False),
        ({"at": "30s", "panic": False}, True),
    ],
)
def test_expectation_is_checked_after_everything_of_its_moment(expect, held):
    assert (simulate(people(expect=[expect])).unmet == []) is held


def test_expectation_after_the_end_is_refused():
    with pytest.raises(ScenarioError, match=r"expect\[0\]: is after the end"):
        people(expect=[{"at": "60001ms", "ejected": []}])


def test_runtime_overrides_hold_from_the_start():
    found = simulate(people(runtime={"enforcing_consecutive_5xx": 0}))

    assert {moment.kind for moment in found.timeline} == {MomentKind.NOT_EJECTED}


def test_spans_last_until_return_removal_or_the_end():
    found = simulate(
        people(
            behaviours=["b fails with 503 from 10s", "c fails with 503 from 10s", "c is removed at 14s"],
            duration="20s",
        ),
        EnvoyRelease.V1_8,
    )

    assert [(span.start_ms, span.end_ms, span.kind.value, span.host) for span in spans(found)] == [
        (10_350, 20_000, "ejected", "b"),
        (10_400, 14_000, "ejected", "c"),
        (10_400, 14_000, "panic", None),
    ]


@pytest.mark.parametrize(
    ("behaviours", "message"),
    [
        (["a is added at 1s"], "hosts: 'a' is there already at 1000 ms"),
        (["a is removed at 1s", "a is removed at 2s"], "hosts: 'a' is not there at 2000 ms"),
    ],
)
def test_impossible_membership_is_refused(behaviours, message):
    with pytest.raises(ScenarioError, match=message):
        simulate(people(behaviours=behaviours))


def test_step_that_names_an_absent_host_is_refused():
    scenario = Scenario.from_dict({"hosts": [], "steps": [{"report": {"host": "a", "code": 500}}]})

    with pytest.raises(ScenarioError, match=r"steps\[0\]: no host 'a' at this moment"):
        simulate(scenario)


def test_hour_of_traffic_in_virtual_time():
    found = simulate(people(duration="1h", rate=20, behaviours=["b fails with 503 in 30 % of requests"]))

    assert (found.requests, found.end_ms) == (72_001, 3_600_000)


def test_without_traffic_only_sweeps_happen():
    scenario = Scenario.from_dict({"duration": "1h", "rate": 0, "hosts": ["a"]})

    simulation = simulate(scenario)

    assert (simulation.requests, simulation.end_ms, simulation.timeline) == (0, 3_600_000, [])


def test_progress_is_told_in_order_from_the_start_about_a_hundred_times():
    told = []
    simulate(Scenario.from_dict({"duration": "100s", "rate": 100, "hosts": ["a"]}), on_progress=told.append)

    assert told[0] == 0
    assert told == sorted(told)
    assert 95 <= len(told) <= 101
