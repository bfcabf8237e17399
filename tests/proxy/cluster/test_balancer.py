"""How a cluster runs its balancer: hash tables beside the traffic, hosts that requests name, gauges."""

import pytest

from outlier import OutlierDetection
from proxy.cluster.cluster_metrics import cluster_metrics
from proxy.config.cluster_config import ClusterType, LbPolicy, LoadBalancerConfig
from proxy.load_balancer.original_destination import CLEANUP_INTERVAL_MS
from tests.proxy.cluster.environment import ClusterUnderTest, config
from tests.proxy.load_balancer.cluster import Context

MAGLEV = LoadBalancerConfig(policy=LbPolicy.MAGLEV)
ADDRESSES = [f"10.0.0.{number}:80" for number in range(8)]


def passthrough():
    return ClusterUnderTest(
        config(
            type=ClusterType.ORIGINAL_DST,
            load_balancer=LoadBalancerConfig(policy=LbPolicy.CLUSTER_PROVIDED),
            outlier_detection=OutlierDetection(max_ejection_percent=100),
        )
    )


def choose(subject, address):
    return subject.cluster.load_balancer.choose_host(Context(destination=address))


def test_a_large_table_is_built_in_turns_of_the_loop():
    subject = ClusterUnderTest(config(*ADDRESSES, load_balancer=MAGLEV))

    assert subject.cluster.load_balancer.building
    turns = 0
    while subject.loop.soon:
        subject.loop.soon.pop(0)()
        turns += 1

    assert turns > 1
    assert not subject.cluster.load_balancer.building


async def test_a_cluster_is_initialized_once_its_table_is_built():
    subject = ClusterUnderTest(config(*ADDRESSES, load_balancer=MAGLEV))
    waiting = subject.cluster.wait_initialized()

    waiting.send(None)
    subject.loop.run_soon()
    with pytest.raises(StopIteration):
        waiting.send(None)


@pytest.mark.parametrize("end", ["remove", "close"])
def test_nothing_more_is_built_for_a_cluster_that_has_gone(end):
    subject = ClusterUnderTest(config(*ADDRESSES, load_balancer=MAGLEV))

    getattr(subject.cluster, end)()
    subject.loop.run_soon()

    assert subject.cluster.load_balancer.gauges == {}
    assert not subject.cluster.load_balancer.building


async def test_nobody_waits_for_the_table_of_a_cluster_that_has_gone():
    subject = ClusterUnderTest(config(*ADDRESSES, load_balancer=MAGLEV))
    waiting = subject.cluster.wait_initialized()

    waiting.send(None)
    subject.cluster.remove()
    with pytest.raises(StopIteration):
        waiting.send(None)


def test_the_balancers_gauges_are_statistics_of_the_cluster():
    subject = ClusterUnderTest(config(*ADDRESSES, load_balancer=MAGLEV))
    subject.loop.run_soon()

    values = {metric.name: metric.value for metric in cluster_metrics(subject.cluster)}

    prefix = f"cluster.{subject.cluster.name}.maglev_lb."
    gauges = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
    assert sorted(gauges) == ["max_entries_per_host", "min_entries_per_host"]
    assert 65_537 // 8 - 1 <= gauges["min_entries_per_host"] <= gauges["max_entries_per_host"] <= 65_537 // 8 + 2


def test_a_host_that_a_request_names_is_whole():
    subject = passthrough()

    host = choose(subject, "10.9.9.9:80")

    assert subject.hosts == (host,)
    assert host.pool is not None
    assert host.monitor in subject.cluster.detector.hosts


def test_a_host_that_nobody_names_any_more_goes_with_the_second_cleanup():
    subject = passthrough()
    host = choose(subject, "10.9.9.9:80")

    subject.loop.advance(CLEANUP_INTERVAL_MS)
    assert subject.hosts == (host,)
    subject.loop.advance(CLEANUP_INTERVAL_MS - 1)
    assert subject.hosts == (host,)
    subject.loop.advance(1)

    assert subject.hosts == ()
    assert subject.cluster.detector.hosts == ()


def test_a_host_with_a_connection_stays():
    subject = passthrough()
    host = choose(subject, "10.9.9.9:80")
    host.cx_active = 1

    subject.loop.advance(5 * CLEANUP_INTERVAL_MS)

    assert subject.hosts == (host,)


def test_the_cleanup_ends_with_the_policy():
    subject = passthrough()

    subject.update(type=ClusterType.STATIC, load_balancer=MAGLEV, outlier_detection=None)
    subject.loop.advance(CLEANUP_INTERVAL_MS)

    assert subject.loop.timers == []
