"""Timers, results and events of a cluster's health checks, with probes that answer when the test says so."""

import json
from typing import Any, cast

import pytest

from outlier import ListedRandom, SimulatedTime
from proxy.config.cluster_config import Endpoint, Locality
from proxy.config.health_check import HealthCheck, HttpHealthCheck, TcpHealthCheck
from proxy.upstream.health_checker import Checked, HealthChecker
from proxy.upstream.health_checker_events import HealthCheckEvent
from proxy.upstream.health_checker_probe import CheckResult
from proxy.upstream.health_checker_session import EventKind, Failure, Incident
from proxy.upstream.host import Host
from tests.proxy.cluster.environment import ManualLoop

TCP = TcpHealthCheck()
PASS = CheckResult()
REFUSED = CheckResult(Failure.NETWORK)
UNWELL = CheckResult(Failure.ACTIVE, status=503)


class FakeProbe:
    def __init__(self, report):
        self.report = report
        self.started = 0
        self.abandoned = 0

    def start(self):
        self.started += 1

    def abandon(self):
        self.abandoned += 1


class Subject:
    def __init__(self, *, hosts=1, check=TCP, random=(), **fields: Any) -> None:
        defaults = {
            "timeout_ms": 1_000,
            "interval_ms": 5_000,
            "no_traffic_interval_ms": 60_000,
            "unhealthy_threshold": 2,
            "healthy_threshold": 2,
        }
        self.loop = ManualLoop()
        self.time = SimulatedTime()
        self.traffic = True
        self.checked: list[Checked] = []
        self.events: list[HealthCheckEvent] = []
        self.probes: list[FakeProbe] = []
        self.checker = HealthChecker(
            HealthCheck(check=check, **(defaults | fields)),
            cluster_name="c",
            loop=cast("Any", self.loop),
            time_source=self.time,
            random=ListedRandom(random),
            has_traffic=lambda: self.traffic,
            on_check=self.checked.append,
            on_event=self.events.append,
            make_probe=self._make_probe,
        )
        self.hosts = [Host(Endpoint(address=f"10.0.0.{number}:80")) for number in range(hosts)]
        for host in self.hosts:
            self.checker.add_host(host)

    def _make_probe(self, host, settings, cluster_name, loop, report, connect):
        self.probes.append(FakeProbe(report))
        return self.probes[-1]

    @property
    def stats(self):
        return self.checker.stats


def test_the_first_check_begins_at_once():
    subject = Subject()

    assert (subject.probes[0].started, subject.stats.attempt) == (1, 1)


def test_the_first_check_waits_for_its_jitter():
    subject = Subject(initial_jitter_ms=100, random=[40])

    subject.loop.advance(39)
    assert subject.probes[0].started == 0
    subject.loop.advance(1)
    assert subject.probes[0].started == 1


def test_the_next_check_begins_an_interval_after_the_end_of_the_last():
    subject = Subject()
    subject.loop.advance(500)
    subject.probes[0].report(PASS)

    subject.loop.advance(4_999)
    assert subject.probes[0].started == 1
    subject.loop.advance(1)
    assert subject.probes[0].started == 2


def test_checks_are_rare_until_there_is_traffic_and_stay_frequent_after_it():
    subject = Subject()
    subject.traffic = False
    subject.probes[0].report(PASS)
    subject.loop.advance(59_999)
    assert subject.probes[0].started == 1
    subject.loop.advance(1)
    subject.traffic = True
    subject.probes[0].report(PASS)
    subject.traffic = False  # the counter was set back
    subject.loop.advance(5_000)
    subject.probes[0].report(PASS)
    subject.loop.advance(5_000)

    assert subject.probes[0].started == 4


def test_a_check_that_takes_too_long_is_abandoned_and_has_failed():
    subject = Subject()

    subject.loop.advance(999)
    assert subject.checked == []
    subject.loop.advance(1)

    assert subject.probes[0].abandoned == 1
    assert subject.hosts[0].health_flags_text() == "/failed_active_hc/active_hc_timeout"
    subject.loop.advance(5_000)
    assert subject.probes[0].started == 2


def test_a_check_that_has_ended_does_not_time_out():
    subject = Subject()
    subject.probes[0].report(PASS)

    subject.loop.advance(4_000)

    assert (subject.probes[0].abandoned, subject.stats.failure) == (0, 0)


def test_a_failure_between_two_checks_counts_and_starts_the_interval_anew():
    """Envoy: a connection of TCP checks that the host closes meanwhile."""
    subject = Subject()
    subject.probes[0].report(PASS)
    subject.loop.advance(4_000)
    subject.probes[0].report(REFUSED)

    assert subject.stats.failure == 1
    subject.loop.advance(4_999)
    assert subject.probes[0].started == 1
    subject.loop.advance(1)
    assert subject.probes[0].started == 2


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([PASS], [(True, True, True)]),
        ([PASS, PASS], [(True, True, True), (True, False, False)]),
        ([REFUSED], [(False, True, False)]),
        ([PASS, REFUSED, REFUSED], [(True, True, True), (False, False, False), (False, True, False)]),
        (
            [PASS, UNWELL, PASS, PASS],
            [(True, True, True), (False, True, False), (True, False, False), (True, True, True)],
        ),
        (
            [PASS, CheckResult(degraded=True)],
            [(True, True, True), (True, True, False)],
        ),
    ],
    ids=["first", "steady", "first fails", "out", "back", "degraded"],
)
def test_the_cluster_hears_of_each_result(results, expected):
    subject = Subject()
    for result in results:
        subject.probes[0].report(result)

    assert [(checked.passed, checked.changed, checked.recovered) for checked in subject.checked] == expected


def test_a_removed_host_is_not_checked_and_not_counted():
    subject = Subject(hosts=2)
    for probe in subject.probes:
        probe.report(PASS)
    assert subject.stats.healthy == 2

    subject.checker.remove_host(subject.hosts[0])
    subject.loop.advance(10_000)

    assert subject.probes[0].abandoned == 1
    assert [probe.started for probe in subject.probes] == [1, 2]
    assert subject.stats.healthy == 1


def test_a_host_may_be_removed_by_its_own_result():
    subject = Subject()
    subject.checker.on_check = lambda checked: subject.checker.remove_host(checked.host)

    subject.probes[0].report(PASS)

    assert subject.loop.timers == []
    assert subject.stats.healthy == 0


def test_closing_leaves_no_timer_and_the_flags():
    subject = Subject(hosts=2)
    subject.probes[0].report(PASS)

    subject.checker.close()

    assert subject.loop.timers == []
    assert [host.health_flags_text() for host in subject.hosts] == ["healthy", "/failed_active_hc"]


def test_an_answer_to_a_request_takes_a_host_out_without_disturbing_the_checks():
    subject = Subject()
    subject.probes[0].report(PASS)

    subject.checker.set_unhealthy(subject.hosts[0])

    assert subject.hosts[0].health_flags_text() == "/failed_active_hc/excluded_via_immediate_hc_fail"
    assert (subject.stats.failure, subject.stats.passive_failure) == (1, 1)
    assert subject.checked[-1] == Checked(subject.hosts[0], passed=False, changed=True, recovered=False)
    subject.loop.advance(5_000)
    assert subject.probes[0].started == 2


def test_a_host_that_is_not_checked_cannot_be_taken_out():
    subject = Subject()
    stranger = Host(Endpoint(address="10.9.9.9:80"))

    subject.checker.set_unhealthy(stranger)
    subject.checker.remove_host(stranger)

    assert stranger.health_flags_text() == "healthy"


async def test_all_are_checked_when_each_host_has_had_a_result_or_has_gone():
    subject = Subject(hosts=3)
    waiting = subject.checker.wait_all_checked()

    waiting.send(None)
    subject.probes[0].report(PASS)
    subject.probes[1].report(REFUSED)
    subject.checker.remove_host(subject.hosts[2])
    with pytest.raises(StopIteration):
        waiting.send(None)


async def test_without_hosts_all_are_checked():
    await Subject(hosts=0).checker.wait_all_checked()


# Events: the lines are recorded from Envoy 1.40

HEAD = (
    '{"health_checker_type":"HTTP","host":{"socket_address":{"protocol":"TCP","address":"127.0.0.1",'
    '"port_value":23007,"resolver_name":"","ipv4_compat":false,"network_namespace_filepath":""}},"cluster_name":"flip",'
)
TAIL = '"locality":{"region":"r","zone":"z","sub_zone":""}'
TIME = '"timestamp":"2026-11-30T01:56:32.214Z",'
FIRST = '"first_check":true,"http_status_code":0'
TIME_MS = 1_796_003_792_214


@pytest.mark.parametrize(
    ("incident", "line"),
    [
        (
            Incident(EventKind.EJECT_UNHEALTHY, failure=Failure.ACTIVE, status=503),
            f'{HEAD}"eject_unhealthy_event":{{"failure_type":"ACTIVE","http_status_code":503}},{TIME}{TAIL}}}',
        ),
        (
            Incident(EventKind.ADD_HEALTHY, first_check=True),
            f'{HEAD}"add_healthy_event":{{"first_check":true}},{TIME}{TAIL}}}',
        ),
        (
            Incident(EventKind.FAILURE, True, Failure.NETWORK_TIMEOUT),
            f'{HEAD}{TIME}"health_check_failure_event":{{"failure_type":"NETWORK_TIMEOUT",{FIRST}}},{TAIL}}}',
        ),
        (Incident(EventKind.DEGRADED), f'{HEAD}{TIME}"degraded_healthy_host":{{}},{TAIL}}}'),
        (Incident(EventKind.NO_LONGER_DEGRADED), f'{HEAD}{TIME}"no_longer_degraded_host":{{}},{TAIL}}}'),
        (Incident(EventKind.SUCCESS), f'{HEAD}{TIME}{TAIL},"successful_health_check_event":{{}}}}'),
    ],
    ids=lambda value: value.kind.name.lower() if isinstance(value, Incident) else "",
)
def test_the_line_of_an_event_is_envoys(incident, line):
    event = HealthCheckEvent(
        checker_type="HTTP",
        address="127.0.0.1:23007",
        locality=Locality("r", "z"),
        cluster_name="flip",
        system_ms=TIME_MS,
        incident=incident,
    )

    assert event.to_json() == line


@pytest.mark.parametrize(("check", "name"), [(TcpHealthCheck(), "TCP"), (HttpHealthCheck(path="/"), "HTTP")])
def test_an_event_names_checker_host_and_cluster(check, name):
    subject = Subject(check=check)
    subject.probes[0].report(PASS)

    (event,) = subject.events
    assert (event.checker_type, event.address, event.cluster_name) == (name, "10.0.0.0:80", "c")
    assert event.system_ms == subject.time.system_ms()


def test_a_unix_socket_is_a_pipe():
    event = HealthCheckEvent(
        checker_type="TCP",
        address="unix:///run/a.sock",
        locality=Locality(),
        cluster_name="c",
        system_ms=0,
        incident=Incident(EventKind.SUCCESS),
    )

    assert json.loads(event.to_json())["host"] == {"pipe": {"path": "/run/a.sock", "mode": 0}}
