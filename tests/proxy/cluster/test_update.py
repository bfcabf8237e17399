"""A new configuration for a running cluster: what a host that stays keeps, and what follows."""

import attrs
import pytest

from outlier import NULL_MONITOR, OutlierDetection
from proxy.config.cluster_config import ClusterType, Endpoint, LbPolicy, LoadBalancerConfig
from proxy.upstream.host import HealthFlag
from tests.proxy.cluster.environment import ClusterUnderTest, config

A, B, C = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"
DETECTION = OutlierDetection(max_ejection_percent=100, consecutive_5xx=5)
ROUND_ROBIN = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, healthy_panic_threshold=0)


@pytest.fixture
def subject():
    return ClusterUnderTest(config(A, B, outlier_detection=DETECTION, load_balancer=ROUND_ROBIN))


def picks(subject, count=6):
    return {host.address for host in (subject.cluster.load_balancer.choose_host() for _ in range(count)) if host}


@pytest.mark.parametrize(
    "changes",
    [
        {"outlier_detection": attrs.evolve(DETECTION, consecutive_5xx=3)},
        {"load_balancer": attrs.evolve(ROUND_ROBIN, policy=LbPolicy.RANDOM)},
        {"endpoints": tuple(Endpoint(address=address) for address in (C, B, A))},
        {"connect_timeout_ms": 1},
    ],
    ids=["detector", "balancer", "endpoints", "connections"],
)
def test_an_ejected_host_stays_ejected(subject, changes):
    host = subject.hosts[0]
    subject.eject(host)

    subject.update(**changes)

    assert host in subject.hosts
    assert host.health_flags_text() == "/failed_outlier_check"
    assert (host.monitor.num_ejections, host.monitor.backoff) == (1, 1)
    assert A not in picks(subject)


def test_new_detector_settings_hold_for_the_next_failure(subject):
    subject.update(outlier_detection=attrs.evolve(DETECTION, consecutive_5xx=1))
    subject.hosts[1].monitor.put_http_response_code(500)

    assert picks(subject) == {A}


def test_a_host_that_comes_back_after_a_removal_is_a_new_one(subject):
    host = subject.hosts[0]
    subject.eject(host)

    subject.update(endpoints=(Endpoint(address=B),))
    assert subject.cluster.detector.stats.ejections_active == 0
    subject.update(endpoints=(Endpoint(address=A), Endpoint(address=B)))

    assert subject.hosts[0] is not host
    assert subject.hosts[0].health_flags_text() == "healthy"
    assert subject.hosts[0].monitor.num_ejections == 0


def test_without_detection_ejected_hosts_return(subject):
    host = subject.hosts[0]
    subject.eject(host)

    subject.update(outlier_detection=None)

    assert subject.cluster.detector is None
    assert (host.monitor, host.health_flags_text()) == (NULL_MONITOR, "healthy")
    assert picks(subject) == {A, B}


def test_detection_that_is_added_starts_with_clean_records(subject):
    subject.eject(subject.hosts[0])
    subject.update(outlier_detection=None)

    subject.update(outlier_detection=DETECTION)

    assert [host.monitor.num_ejections for host in subject.hosts] == [0, 0]
    subject.eject(subject.hosts[1])
    assert picks(subject) == {A}


def test_a_changed_interval_begins_with_the_next_period(subject):
    subject.update(outlier_detection=attrs.evolve(DETECTION, interval_ms=1_000))
    sweep = subject.loop.timers[0]

    subject.loop.advance(9_999)
    assert subject.loop.timers == [sweep]
    subject.loop.advance(1)

    assert [timer.when_ms - subject.loop.now_ms for timer in subject.loop.timers] == [pytest.approx(1_000)]


def test_only_one_balancer_follows_the_hosts(subject):
    before = subject.cluster.load_balancer

    subject.update(load_balancer=attrs.evolve(ROUND_ROBIN, policy=LbPolicy.RANDOM))
    loads = before.loads
    subject.eject(subject.hosts[0])

    assert before.loads is loads
    assert picks(subject) == {B}


def test_a_removed_cluster_leaves_no_timer_and_can_still_be_closed(subject):
    subject.cluster.remove()
    assert subject.loop.timers == []

    subject.cluster.close()


def test_hosts_of_another_type_of_cluster_go(subject):
    subject.update(type=ClusterType.ORIGINAL_DST, endpoints=())

    assert subject.hosts == ()


def test_a_host_takes_new_attributes_and_keeps_its_health(subject):
    host = subject.hosts[0]
    subject.eject(host)

    subject.update(endpoints=(Endpoint(address=A, weight=3), Endpoint(address=B)))

    assert (host.weight, host.has_flag(HealthFlag.FAILED_OUTLIER_CHECK)) == (3, True)
