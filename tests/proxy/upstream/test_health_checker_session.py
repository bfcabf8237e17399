"""What results of checks make of a host: thresholds, flags, counters, events and intervals.

Expected values are Envoy's (HealthCheckerImplBase), most of them recorded from 1.40.
"""

import pytest

from outlier import ListedRandom
from proxy.config.cluster_config import Endpoint
from proxy.config.health_check import HealthCheck, TcpHealthCheck
from proxy.upstream.health_checker_session import (
    EventKind,
    Failure,
    HealthCheckSession,
    HealthCheckStats,
    Incident,
    Transition,
)
from proxy.upstream.host import HealthFlag, Host


class Subject:
    def __init__(self, random=(), **fields):
        defaults = {"timeout_ms": 1_000, "interval_ms": 5_000, "unhealthy_threshold": 2, "healthy_threshold": 2}
        self.stats = HealthCheckStats()
        self.incidents = []
        self.host = Host(Endpoint(address="10.0.0.1:80"))
        self.session = HealthCheckSession(
            self.host,
            HealthCheck(check=TcpHealthCheck(), **(defaults | fields)),
            self.stats,
            ListedRandom(random),
            self.incidents.append,
        )

    def succeed(self, *, degraded=False):
        return self.session.on_success(degraded=degraded)

    def fail(self, failure=Failure.NETWORK, **fields):
        return self.session.on_failure(failure, **fields)

    @property
    def flags(self):
        return self.host.health_flags_text()

    def told(self):
        kinds = [incident.kind for incident in self.incidents]
        self.incidents.clear()
        return kinds


@pytest.fixture
def healthy():
    subject = Subject()
    subject.succeed()
    subject.told()
    return subject


def test_a_host_is_out_until_a_check_has_passed():
    subject = Subject()

    assert subject.flags == "/failed_active_hc"
    assert subject.stats.healthy == 0


def test_the_first_check_alone_brings_a_host_in():
    subject = Subject(healthy_threshold=5)

    assert subject.succeed() is Transition.CHANGED
    assert subject.flags == "healthy"
    assert subject.stats.healthy == 1
    assert subject.incidents == [Incident(EventKind.ADD_HEALTHY, first_check=True)]


def test_a_failed_first_check_is_an_event_and_no_change():
    subject = Subject()

    assert subject.fail() is Transition.UNCHANGED
    assert subject.incidents == [Incident(EventKind.FAILURE, first_check=True, failure=Failure.NETWORK)]


@pytest.mark.parametrize("failure", [Failure.NETWORK, Failure.NETWORK_TIMEOUT])
def test_network_failures_take_a_host_out_at_the_threshold(healthy, failure):
    assert healthy.fail(failure) is Transition.CHANGE_PENDING
    assert healthy.flags == "healthy"
    assert healthy.fail(failure) is Transition.CHANGED
    assert healthy.host.has_flag(HealthFlag.FAILED_ACTIVE_HC)
    assert healthy.incidents == [Incident(EventKind.EJECT_UNHEALTHY, failure=failure)]


@pytest.mark.parametrize("failure", [Failure.ACTIVE, Failure.PASSIVE])
def test_an_answer_that_says_so_takes_a_host_out_at_once(healthy, failure):
    assert healthy.fail(failure, status=503) is Transition.CHANGED
    assert healthy.incidents == [Incident(EventKind.EJECT_UNHEALTHY, failure=failure, status=503)]


def test_a_retriable_answer_counts_towards_the_threshold(healthy):
    assert healthy.fail(Failure.ACTIVE, retriable=True) is Transition.CHANGE_PENDING
    assert healthy.fail(Failure.ACTIVE, retriable=True) is Transition.CHANGED


def test_a_pass_starts_the_count_of_failures_anew(healthy):
    healthy.fail()
    healthy.succeed()

    assert healthy.fail() is Transition.CHANGE_PENDING


def test_a_failure_starts_the_count_of_passes_anew(healthy):
    healthy.fail(Failure.ACTIVE)
    healthy.succeed()
    healthy.fail(Failure.ACTIVE)

    assert healthy.succeed() is Transition.CHANGE_PENDING
    assert healthy.succeed() is Transition.CHANGED
    assert healthy.flags == "healthy"


def test_a_host_comes_back_at_the_healthy_threshold(healthy):
    healthy.fail(Failure.ACTIVE)
    healthy.told()

    assert healthy.succeed() is Transition.CHANGE_PENDING
    assert healthy.told() == []
    assert healthy.succeed() is Transition.CHANGED
    assert healthy.incidents == [Incident(EventKind.ADD_HEALTHY, first_check=False)]


@pytest.mark.parametrize("name", ["healthy_threshold", "unhealthy_threshold"])
def test_a_threshold_of_0_is_never_reached(name):
    subject = Subject(**{name: 0})
    subject.succeed()
    if name == "healthy_threshold":
        subject.fail(Failure.ACTIVE)
        results = {subject.succeed() for _ in range(5)}
    else:
        results = {subject.fail() for _ in range(5)}

    assert results == {Transition.CHANGE_PENDING}


def test_a_timeout_is_flagged_only_while_the_host_is_out(healthy):
    healthy.fail(Failure.NETWORK_TIMEOUT)
    assert healthy.flags == "healthy"
    healthy.fail(Failure.NETWORK_TIMEOUT)
    assert healthy.flags == "/failed_active_hc/active_hc_timeout"
    healthy.fail(Failure.NETWORK)
    assert healthy.flags == "/failed_active_hc"


def test_the_first_check_may_be_a_timeout():
    subject = Subject()
    subject.fail(Failure.NETWORK_TIMEOUT)

    assert subject.flags == "/failed_active_hc/active_hc_timeout"


def test_the_return_of_a_host_clears_what_its_failure_set(healthy):
    healthy.fail(Failure.ACTIVE)
    healthy.host.set_flag(HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL)
    healthy.fail(Failure.NETWORK_TIMEOUT)
    healthy.succeed()
    assert healthy.flags == "/failed_active_hc/excluded_via_immediate_hc_fail/active_hc_timeout"
    healthy.succeed()

    assert healthy.flags == "healthy"


def test_a_degraded_host_is_in_and_said_to_be_degraded():
    subject = Subject()

    assert subject.succeed(degraded=True) is Transition.CHANGED
    assert subject.flags == "/degraded_active_hc"
    assert (subject.stats.healthy, subject.stats.degraded) == (1, 1)
    assert subject.told() == [EventKind.ADD_HEALTHY, EventKind.DEGRADED]

    assert subject.succeed(degraded=True) is Transition.UNCHANGED
    assert subject.succeed() is Transition.CHANGED
    assert subject.flags == "healthy"
    assert subject.told() == [EventKind.NO_LONGER_DEGRADED]


def test_the_gauge_of_degraded_hosts_does_not_come_down_when_one_recovers():
    """Recorded from Envoy 1.40."""
    subject = Subject()
    subject.succeed(degraded=True)
    subject.succeed()

    assert subject.stats.degraded == 1


def test_a_degraded_mark_on_the_way_back_does_not_hurry_the_return(healthy):
    healthy.fail(Failure.ACTIVE)
    healthy.told()

    assert healthy.succeed(degraded=True) is Transition.CHANGE_PENDING
    assert healthy.flags == "/failed_active_hc/degraded_active_hc"
    assert healthy.told() == [EventKind.DEGRADED]


def test_counters_tell_the_kinds_of_failure_apart(healthy):
    for failure in Failure:
        healthy.fail(failure)

    stats = healthy.stats
    assert (stats.success, stats.failure, stats.network_failure, stats.passive_failure) == (1, 4, 2, 1)
    assert stats.healthy == 0


def test_reset_counters_leaves_the_gauges():
    subject = Subject()
    subject.succeed(degraded=True)

    subject.stats.reset_counters()

    values = {name: (value, is_gauge) for name, value, is_gauge in subject.stats.items()}
    assert values == {
        "attempt": (0, False),
        "success": (0, False),
        "failure": (0, False),
        "passive_failure": (0, False),
        "network_failure": (0, False),
        "verify_cluster": (0, False),
        "healthy": (1, True),
        "degraded": (1, True),
    }


@pytest.mark.parametrize(("degraded", "failed"), [(False, False), (True, False), (True, True)])
def test_a_host_that_leaves_is_taken_off_the_gauges(degraded, failed):
    subject = Subject()
    subject.succeed(degraded=degraded)
    if failed:
        subject.fail(Failure.ACTIVE)

    subject.session.end()

    assert (subject.stats.healthy, subject.stats.degraded) == (0, 0)


def test_each_failure_is_an_event_if_asked_for():
    subject = Subject(always_log_health_check_failures=True)
    subject.succeed()
    subject.told()
    subject.fail()
    assert subject.told() == [EventKind.FAILURE]
    subject.fail(Failure.ACTIVE, status=404)

    assert subject.incidents == [
        Incident(EventKind.EJECT_UNHEALTHY, failure=Failure.ACTIVE, status=404),
        Incident(EventKind.FAILURE, failure=Failure.ACTIVE, status=404),
    ]


def test_each_pass_is_an_event_if_asked_for_but_for_the_one_that_brings_the_host_in():
    subject = Subject(always_log_health_check_success=True)
    subject.succeed()
    subject.succeed()

    assert subject.told() == [EventKind.ADD_HEALTHY, EventKind.SUCCESS]


def test_a_new_host_may_count_for_nothing_until_its_first_result():
    subject = Subject(ignore_new_hosts_until_first_hc=True)
    assert subject.flags == "/failed_active_hc/pending_active_hc"
    assert subject.host.excluded

    assert subject.fail() is Transition.CHANGED
    assert subject.flags == "/failed_active_hc"
    assert not subject.host.excluded


INTERVALS = {
    "interval_ms": 1,
    "unhealthy_interval_ms": 2,
    "unhealthy_edge_interval_ms": 3,
    "healthy_edge_interval_ms": 4,
    "no_traffic_interval_ms": 5,
    "no_traffic_healthy_interval_ms": 6,
}


@pytest.mark.parametrize(
    ("transition", "passed", "traffic", "expected"),
    [
        (Transition.UNCHANGED, True, True, 1),
        (Transition.CHANGED, True, True, 1),
        (Transition.CHANGE_PENDING, True, True, 4),
        (Transition.UNCHANGED, False, True, 2),
        (Transition.CHANGED, False, True, 2),
        (Transition.CHANGE_PENDING, False, True, 3),
        (Transition.UNCHANGED, True, False, 6),
        (Transition.CHANGED, True, False, 6),
        (Transition.CHANGE_PENDING, True, False, 5),
        (Transition.UNCHANGED, False, False, 5),
        (Transition.CHANGE_PENDING, False, False, 5),
    ],
)
def test_the_interval_follows_the_last_check(transition, passed, traffic, expected):
    session = Subject(**INTERVALS).session

    assert session.interval_ms(transition, passed=passed, traffic=traffic) == expected


def test_jitter_adds_up_to_its_bounds_and_not_more():
    # 10 % of 5 s is 500 ms: 499 and 0 are its ends; of 300 ms of jitter the ends are 299 and 0.
    subject = Subject(random=[499, 299, 500, 300], interval_jitter_percent=10, interval_jitter_ms=300)
    session = subject.session

    delays = [session.interval_ms(Transition.UNCHANGED, passed=True, traffic=True) for _ in range(2)]

    assert delays == [5_798, 5_000]


@pytest.mark.parametrize(("bound_ms", "drawn", "delay_ms"), [(0, 7, 0), (100, 99, 99), (100, 100, 1), (100, 101, 1)])
def test_the_first_check_waits_for_a_random_time_of_at_least_a_millisecond(bound_ms, drawn, delay_ms):
    subject = Subject(random=[drawn], initial_jitter_ms=bound_ms)

    assert subject.session.initial_delay_ms() == delay_ms
