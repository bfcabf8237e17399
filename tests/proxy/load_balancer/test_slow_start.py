"""Slow start: who is in it, and what it does to the order; the weights are in tests/conformance."""

import pytest

from proxy.config.cluster_config import LbPolicy, SlowStart
from proxy.load_balancer.slow_start import SlowStartTracker, slow_start_weight
from tests.proxy.load_balancer.cluster import Cluster, make_host

WINDOW = SlowStart(window_ms=10_000)


def grown(clients: Cluster) -> Cluster:
    """Let the first hosts' windows pass, and add one more host."""
    clients.time.advance(60_000)
    clients.hosts.append(make_host(len(clients.hosts)))
    clients.priority_set.update_hosts(clients.hosts)
    return clients


@pytest.mark.parametrize("policy", [LbPolicy.ROUND_ROBIN, LbPolicy.LEAST_REQUEST])
def test_a_new_host_gets_a_tenth_of_the_weight_at_first(cluster, policy):
    clients = grown(cluster(policy, weights=[1], slow_start=WINDOW))

    assert clients.counts(110) == pytest.approx([100, 10], abs=1)


def test_a_host_gets_its_full_weight_after_the_window(cluster):
    clients = grown(cluster(weights=[1], slow_start=WINDOW))
    clients.time.advance(10_000)
    clients.picks(20)  # the new host's weight is as old as its last pick

    assert clients.counts(100) == [50, 50]


def test_return_from_ejection_does_not_start_a_window(cluster):
    clients = cluster(weights=[1, 1], slow_start=WINDOW)
    clients.time.advance(60_000)
    clients.eject(1)
    clients.uneject(1)

    assert clients.counts(100) == [50, 50]


def test_passing_active_health_checks_starts_the_window_anew(cluster):
    clients = cluster(weights=[1, 1], slow_start=WINDOW)
    clients.time.advance(60_000)
    clients.eject(1)
    clients.load_balancer.on_active_health_check_passed(clients.hosts[1])
    clients.uneject(1)

    assert clients.counts(110) == pytest.approx([100, 10], abs=1)


def test_a_window_begins_when_the_host_is_first_seen_healthy(cluster):
    hosts = [make_host(0), make_host(1)]
    clients = cluster(hosts=hosts, slow_start=WINDOW)
    clients.eject(1)
    unseen = SlowStartTracker(WINDOW, clients.time)
    unseen.observe(clients.priority_set.host_sets[0].healthy_hosts)
    clients.time.advance(60_000)
    clients.uneject(1)
    unseen.observe(clients.priority_set.host_sets[0].healthy_hosts)

    assert unseen.scale(1, hosts[0]) == 1
    assert unseen.scale(1, hosts[1]) == 0.1


@pytest.mark.parametrize(("after_ms", "in_progress"), [(9_999, True), (10_000, True), (10_001, False)])
def test_the_last_moment_of_the_window_is_in_it(cluster, after_ms, in_progress):
    clients = cluster(weights=[1, 1], slow_start=WINDOW)
    tracker = SlowStartTracker(WINDOW, clients.time)
    clients.time.advance(after_ms)

    assert tracker.in_progress() is in_progress


@pytest.mark.parametrize("aggression", [0.0, -1.0, float("nan")])
def test_a_senseless_aggression_counts_as_1(aggression):
    assert slow_start_weight(4, 5_000, SlowStart(window_ms=10_000, aggression=aggression)) == 2


def test_a_weight_never_vanishes():
    assert slow_start_weight(1, 0, SlowStart(window_ms=60_000, aggression=1e-6, min_weight_percent=0.0)) > 0
