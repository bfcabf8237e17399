"""The harness itself: it must not pass what differs, nor convert rules its own way."""

import attrs
import pytest

from tests.oracle.driver import Entry, Transcript
from tests.oracle.envoy import outlier_detection
from tests.oracle.random_scenarios import random_scenario
from tests.oracle.scenario import Play, Scenario
from tests.oracle.subject import Event, HostView
from tests.oracle.verdict import differences
from tests.oracle.wire import take_body, take_head

SCENARIO = Scenario(
    name="any", hosts=2, rule={}, steps=(Play(0, ("500",)),), interval_ms=1_000, base_ejection_time_ms=1_500
)
HEALTHY = HostView(flags=(), success_rate=None, local_origin_success_rate=None)


def event(host: int, time_ms: int, action: str, *, num_ejections: int = 1) -> tuple[int, Event]:
    line = {
        "type": "CONSECUTIVE_5XX",
        "action": action,
        "num_ejections": num_ejections,
        "enforced": action == "EJECT",
    }
    return host, Event(time_ms, f"host-{host}", line)


def transcript(*events: tuple[int, Event]) -> Transcript:
    entry = Entry("play", ("500 ok",), (), {"outlier_detection.ejections_active": 1})
    return Transcript(
        entries=(entry,), events=events, hosts=(HEALTHY, HEALTHY), stat_names=frozenset({"outlier_detection.x"})
    )


def test_equal_transcripts_do_not_differ():
    assert differences(SCENARIO, transcript(), transcript()) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"entries": (Entry("play", ("503 ok",), (), {}),)}, "step 0 (play): answers"),
        ({"events": (event(1, 0, "EJECT"),)}, "event 0"),
        ({"hosts": (HEALTHY, attrs.evolve(HEALTHY, flags=("failed_outlier_check",)))}, "final state of host 1"),
        ({"stat_names": frozenset()}, "missing ['outlier_detection.x']"),
    ],
    ids=["answer", "event", "flag", "statistic"],
)
def test_each_kind_of_difference_is_told(change, told):
    found = differences(SCENARIO, transcript(), attrs.evolve(transcript(), **change))

    assert told in found[0]


def test_order_of_ejections_matters():
    first, second = event(0, 0, "EJECT"), event(1, 1, "EJECT")

    assert differences(SCENARIO, transcript(first, second), transcript(second, first))


def test_order_within_one_sweep_does_not_matter():
    ejections = event(0, 0, "EJECT"), event(1, 1, "EJECT")
    first, second = event(0, 2_000, "UNEJECT"), event(1, 2_000, "UNEJECT")

    assert not differences(SCENARIO, transcript(*ejections, first, second), transcript(*ejections, second, first))


@pytest.mark.parametrize(("lasted_ms", "same"), [(1_500, True), (2_900, True), (1_499, False), (3_000, False)])
def test_ejections_are_compared_by_multiples_of_the_base(lasted_ms, same):
    ejection = event(0, 0, "EJECT")

    found = differences(
        SCENARIO,
        transcript(ejection, event(0, 2_000, "UNEJECT")),
        transcript(ejection, event(0, lasted_ms, "UNEJECT")),
    )

    assert (found == []) is same


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, {"enforcing_success_rate": 0}),
        (
            {"consecutive5xxErrors": 0, "consecutiveGatewayErrors": 3, "maxEjectionPercent": 0},
            {
                "enforcing_success_rate": 0,
                "consecutive_5xx": 0,
                "enforcing_consecutive_5xx": 0,
                "consecutive_gateway_failure": 3,
                "enforcing_consecutive_gateway_failure": 100,
            },
        ),
        (
            {"interval": "250ms", "baseEjectionTime": "3s", "maxEjectionPercent": 34},
            {"enforcing_success_rate": 0, "interval": "0.25s", "base_ejection_time": "3s", "max_ejection_percent": 34},
        ),
        (
            {"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 0},
            {
                "enforcing_success_rate": 0,
                "split_external_local_origin_errors": True,
                "enforcing_local_origin_success_rate": 0,
            },
        ),
        (
            {"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 2},
            {
                "enforcing_success_rate": 0,
                "split_external_local_origin_errors": True,
                "enforcing_local_origin_success_rate": 0,
                "consecutive_local_origin_failure": 2,
                "enforcing_consecutive_local_origin_failure": 100,
            },
        ),
    ],
    ids=["empty", "thresholds", "durations", "split without count", "split"],
)
def test_envoy_gets_what_istio_sends(rule, message):
    assert outlier_detection(rule) == message


def test_one_seed_gives_one_scenario():
    assert random_scenario("a", 3) == random_scenario("a", 3)
    assert random_scenario("a", 3) != random_scenario("b", 3)


def test_chunked_body_is_decoded_with_its_trailers():
    head, rest = take_head(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\nnext"
    )

    assert take_body(head, rest) == (b"abc", ((b"X-Sum", b"1"),), b"next")


@pytest.mark.parametrize(
    "data", [b"", b"3", b"3\r\nab", b"3\r\nabc\r\n", b"3\r\nabc\r\n0\r\n", b"3\r\nabc\r\n0\r\nX: 1\r\n"]
)
def test_incomplete_chunked_body_waits_for_more(data):
    head, _ = take_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    assert take_body(head, data) is None
