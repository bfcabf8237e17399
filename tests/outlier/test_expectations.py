"""Every kind of expectation fails when it should; that it holds when it should, the vectors show."""

import pytest

from outlier import Scenario, ScenarioError, simulate

EJECT_A = {"report": {"host": "a", "code": 503, "count": 5}}


def unmet(expect, *steps):
    data = {
        "hosts": ["a", "b"],
        "config": {"max_ejection_percent": 100},
        "steps": [*(steps or [EJECT_A]), {"expect": expect}],
    }
    return [(found.path, found.expected, found.actual) for found in simulate(Scenario.from_dict(data)).unmet]


@pytest.mark.parametrize(
    ("expect", "actual"),
    [
        ({"ejected": ["b"]}, ["a"]),
        ({"ejected": []}, ["a"]),
        ({"degraded": ["a"]}, []),
        ({"ejections_active": 0}, 1),
        ({"counters": {"ejections_total": 2}}, {"ejections_total": 1}),
        ({"num_ejections": {"a": 2}}, {"a": 1}),
        ({"backoff": {"b": 1}}, {"b": 0}),
        ({"jitter_ms": {"a": 1}}, {"a": 0}),
        ({"ever_unejected": {"a": True}}, {"a": False}),
        ({"timer_armed_ms": 1}, 10_000),
        ({"callbacks": []}, ["a"]),
        ({"success_rate": {"a": {"external": 0}}}, {"a": {"external": -1.0}}),
        (
            {"cluster_success_rate": {"local": {"average": 50, "threshold": -1}}},
            {"local": {"average": -1.0, "threshold": -1}},
        ),
        ({"panic": True}, False),
        ({"failed_requests_at_most": -1}, 0),
    ],
)
def test_expectation_that_does_not_hold_is_told(expect, actual):
    ((key, expected),) = expect.items()

    found = unmet(expect)
    assert [(path, value) for path, _, value in found] == [(f"steps[1].{key}", actual)]
    assert found[0][1] == (expected if key != "failed_requests_at_most" else "at most -1")


EVENTS = [
    {"action": "EJECT", "host": "a", "type": "CONSECUTIVE_GATEWAY_FAILURE", "enforced": False},
    {"action": "EJECT", "host": "a", "type": "CONSECUTIVE_5XX", "enforced": True},
]


def test_events_are_a_multiset_unless_strict():
    assert unmet({"events": EVENTS[::-1]}) == []
    assert len(unmet({"events": EVENTS[::-1], "events_order": "strict"})) == 1
    assert unmet({"events": EVENTS, "events_order": "strict"}) == []


def test_missing_or_wrong_event_is_told():
    assert len(unmet({"events": EVENTS[:1]})) == 1
    assert len(unmet({"events": [EVENTS[0], {**EVENTS[1], "enforced": False}]})) == 1
    assert len(unmet({"events": [EVENTS[0], {**EVENTS[1], "times": 2}]})) == 1


def test_events_start_afresh_with_each_check():
    assert unmet({"events": []}, EJECT_A, {"expect": {"events": EVENTS}}) == []


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ({"ejection": 1}, "no such expectation"),
        ({"backoff": {"c": 1}}, "'c' is unknown"),
        ({"counters": {"ejections": 1}}, "'ejections' is unknown"),
    ],
)
def test_expectation_that_means_nothing_is_refused(expect, message):
    with pytest.raises(ScenarioError, match=message):
        unmet(expect)


def test_unmet_expectation_reads_as_one_line():
    data = {"hosts": ["a"], "steps": [{"at_ms": 7, "expect": {"ejected": ["a"]}}]}

    assert str(simulate(Scenario.from_dict(data)).unmet[0]) == "steps[0].ejected at 7 ms: expected ['a'], got []"
