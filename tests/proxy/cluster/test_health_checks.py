"""Active health checks of a running cluster: hosts in and out, slow start, ejections, statistics and logs."""

import json
from typing import Any

import attrs
import pytest
from structlog.testing import capture_logs

from outlier import OutlierDetection
from proxy.cluster.cluster_metrics import cluster_metrics
from proxy.cluster.health_check_events import HealthCheckEvents
from proxy.config.cluster_config import ClusterType, Endpoint, LbPolicy, LoadBalancerConfig, SlowStart
from proxy.config.health_check import HealthCheck, HealthCheckRule, HealthCheckRules, TcpHealthCheck
from proxy.log_file import LogFileError
from proxy.upstream.health_checker_probe import CheckResult
from proxy.upstream.health_checker_session import Failure
from proxy.upstream.host import Host
from tests.proxy.cluster.environment import ClusterUnderTest, config

A, B = "10.0.0.1:80", "10.0.0.2:80"
PASS = CheckResult()
UNWELL = CheckResult(Failure.ACTIVE, status=503)
CHECK = HealthCheck(
    check=TcpHealthCheck(), timeout_ms=1_000, interval_ms=5_000, unhealthy_threshold=2, healthy_threshold=1
)
ROUND_ROBIN = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, healthy_panic_threshold=0)


class Subject(ClusterUnderTest):
    """A cluster whose checks have the results that the test reports; no connection is opened."""

    def __init__(self, cluster_config, check=CHECK, events=None):
        self.reports: dict[str, Any] = {}
        rule = HealthCheckRule("*", None, check)
        fields = {} if events is None else {"health_check_events": events}
        super().__init__(cluster_config, health_checks=HealthCheckRules([rule]), **fields)

    def report(self, host: Host, result: CheckResult) -> None:
        """End the check of a host."""
        checker = self.cluster.health_checker
        assert checker is not None
        checker._checks[host]._finish(result)


def picks(subject, count=6):
    return {host.address for host in (subject.cluster.load_balancer.choose_host() for _ in range(count)) if host}


def values(subject):
    prefix = f"cluster.{subject.cluster.name}.health_check."
    return {
        metric.name.removeprefix(prefix): metric.value
        for metric in cluster_metrics(subject.cluster)
        if metric.name.startswith(prefix)
    }


def test_a_host_is_picked_once_a_check_has_passed():
    subject = Subject(config(A, B, load_balancer=ROUND_ROBIN))
    assert picks(subject) == set()

    subject.report(subject.hosts[0], PASS)

    assert picks(subject) == {A}


def test_a_host_that_fails_its_checks_goes_out_and_comes_back():
    subject = Subject(config(A, B, load_balancer=ROUND_ROBIN))
    for host in subject.hosts:
        subject.report(host, PASS)

    subject.report(subject.hosts[0], UNWELL)
    assert picks(subject) == {B}
    subject.report(subject.hosts[0], PASS)
    assert picks(subject) == {A, B}


def test_the_connections_of_a_host_that_goes_out_are_drained(monkeypatch):
    subject = Subject(config(A, load_balancer=ROUND_ROBIN))
    host = subject.hosts[0]
    drained = []
    monkeypatch.setattr("proxy.upstream.connection_pool.ConnectionPool.drain", lambda pool: drained.append(pool.host))
    subject.report(host, PASS)
    assert drained == []

    subject.report(host, UNWELL)
    subject.report(host, UNWELL)

    assert drained == [host]


def test_a_host_that_is_added_is_checked_and_one_that_is_removed_is_not():
    subject = Subject(config(A, load_balancer=ROUND_ROBIN))
    subject.report(subject.hosts[0], PASS)

    subject.update(endpoints=(Endpoint(address=B),))

    assert subject.hosts[0].health_flags_text() == "/failed_active_hc"
    assert values(subject)["healthy"] == 0
    assert len(subject.cluster.health_checker._checks) == 1


def test_a_host_that_stays_keeps_its_health():
    subject = Subject(config(A, load_balancer=ROUND_ROBIN))
    subject.report(subject.hosts[0], PASS)

    subject.update(endpoints=(Endpoint(address=A, weight=2), Endpoint(address=B)), connect_timeout_ms=1)

    assert [host.health_flags_text() for host in subject.hosts] == ["healthy", "/failed_active_hc"]


def test_hosts_that_requests_name_are_not_checked():
    passthrough = config(
        type=ClusterType.ORIGINAL_DST, load_balancer=LoadBalancerConfig(policy=LbPolicy.CLUSTER_PROVIDED)
    )
    subject = Subject(passthrough)

    host = subject.cluster._new_host(Endpoint(address=A))

    assert host.health_flags_text() == "healthy"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_passed_check_brings_an_ejected_host_back_if_it_may(allowed):
    detection = OutlierDetection(max_ejection_percent=100, successful_active_health_check_uneject_host=allowed)
    subject = Subject(config(A, B, load_balancer=ROUND_ROBIN, outlier_detection=detection))
    host = subject.hosts[0]
    subject.report(host, PASS)
    subject.eject(host)
    assert host.health_flags_text() == "/failed_outlier_check"

    subject.report(host, UNWELL)
    assert host.health_flags_text() == "/failed_active_hc/failed_outlier_check"
    subject.report(host, PASS)

    assert host.health_flags_text() == ("healthy" if allowed else "/failed_outlier_check")


def test_a_host_below_its_healthy_threshold_stays_ejected():
    detection = OutlierDetection(max_ejection_percent=100)
    cluster = config(A, B, load_balancer=ROUND_ROBIN, outlier_detection=detection)
    subject = Subject(cluster, attrs.evolve(CHECK, healthy_threshold=2))
    host = subject.hosts[0]
    subject.report(host, PASS)
    subject.eject(host)
    subject.report(host, UNWELL)

    subject.report(host, PASS)
    assert host.health_flags_text() == "/failed_active_hc/failed_outlier_check"
    subject.report(host, PASS)
    assert host.health_flags_text() == "healthy"


def test_a_host_that_comes_back_begins_its_slow_start():
    balancer = attrs.evolve(ROUND_ROBIN, slow_start=SlowStart(window_ms=10_000))
    subject = Subject(config(A, B, load_balancer=balancer))
    for host in subject.hosts:
        subject.report(host, PASS)
    subject.time.set_ms(20_000)
    subject.report(subject.hosts[0], UNWELL)
    subject.report(subject.hosts[0], PASS)

    served = [subject.cluster.load_balancer.choose_host().address for _ in range(110)]

    assert 5 <= served.count(A) <= 15  # a tenth of B's weight


def test_a_degraded_flip_is_no_new_slow_start():
    balancer = attrs.evolve(ROUND_ROBIN, slow_start=SlowStart(window_ms=10_000))
    subject = Subject(config(A, B, load_balancer=balancer))
    for host in subject.hosts:
        subject.report(host, PASS)
    subject.time.set_ms(20_000)
    subject.report(subject.hosts[0], CheckResult(degraded=True))
    subject.report(subject.hosts[0], PASS)

    served = [subject.cluster.load_balancer.choose_host().address for _ in range(10)]

    assert served.count(A) == 5


def test_the_checkers_statistics_are_the_clusters():
    subject = Subject(config(A, B, load_balancer=ROUND_ROBIN))
    subject.report(subject.hosts[0], PASS)
    subject.report(subject.hosts[1], UNWELL)

    assert values(subject) == {
        "attempt": 2,
        "success": 1,
        "failure": 1,
        "passive_failure": 0,
        "network_failure": 0,
        "verify_cluster": 0,
        "healthy": 1,
        "degraded": 0,
    }
    subject.cluster.reset_counters()
    assert (values(subject)["attempt"], values(subject)["healthy"]) == (0, 1)


def test_a_cluster_without_a_rule_has_no_such_statistics():
    assert values(ClusterUnderTest(config(A))) == {}


async def test_a_cluster_is_initialized_once_its_hosts_are_checked():
    subject = Subject(config(A, load_balancer=ROUND_ROBIN))
    waiting = subject.cluster.wait_initialized()

    waiting.send(None)
    subject.report(subject.hosts[0], UNWELL)
    with pytest.raises(StopIteration):
        waiting.send(None)


@pytest.mark.parametrize("end", ["remove", "close"])
def test_a_cluster_that_has_gone_checks_nobody(end):
    subject = Subject(config(A, B, load_balancer=ROUND_ROBIN))

    getattr(subject.cluster, end)()

    assert subject.loop.timers == []


def test_events_go_to_the_file_the_log_and_those_who_watch(tmp_path):
    path = tmp_path / "checks.jsonl"
    check = attrs.evolve(CHECK, event_log_path=path, always_log_health_check_failures=True)
    published = []
    events = HealthCheckEvents(
        [HealthCheckRule("a", None, check), HealthCheckRule("b", None, check)],
        lambda kind, **facts: published.append((kind, facts)),
    )
    subject = Subject(config(A, load_balancer=ROUND_ROBIN), check, events)
    with capture_logs() as logs:
        subject.report(subject.hosts[0], PASS)
        subject.report(subject.hosts[0], UNWELL)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = ("add_healthy_event", "eject_unhealthy_event", "health_check_failure_event")
    assert [kind for line in lines for kind in kinds if kind in line] == list(kinds)
    facts = {"cluster_name": subject.cluster.name, "upstream_url": A}
    assert logs == [
        {"event": "health.host_passed", "log_level": "info", **facts},
        {"event": "health.host_failed", "log_level": "warning", "failure_type": "ACTIVE", **facts},
        {"event": "health.check_failed", "log_level": "debug", "failure_type": "ACTIVE", **facts},
    ]
    assert published == [
        ("health", {"event": "add_healthy_event", **facts}),
        ("health", {"event": "eject_unhealthy_event", "failure_type": "ACTIVE", **facts}),
    ]
    assert len(events.files) == 1
    for file in events.files:
        file.close()


def test_a_host_that_fails_its_first_check_is_told_of():
    published = []
    events = HealthCheckEvents((), lambda kind, **facts: published.append((kind, facts)))
    subject = Subject(config(A, load_balancer=ROUND_ROBIN), events=events)
    with capture_logs() as logs:
        subject.report(subject.hosts[0], UNWELL)
        subject.report(subject.hosts[0], UNWELL)

    facts = {"cluster_name": subject.cluster.name, "upstream_url": A, "failure_type": "ACTIVE"}
    assert logs == [{"event": "health.host_failed", "log_level": "warning", **facts}]
    assert published == [("health", {"event": "health_check_failure_event", **facts})]


def test_a_file_that_cannot_be_opened_is_told_at_the_start(tmp_path):
    check = attrs.evolve(CHECK, event_log_path=tmp_path / "missing" / "checks.jsonl")

    with pytest.raises(LogFileError, match="cannot be opened for writing"):
        HealthCheckEvents([HealthCheckRule("*", None, check)])
