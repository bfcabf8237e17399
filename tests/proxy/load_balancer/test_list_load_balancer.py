"""Which list a pick is made from: priorities, localities, refused hosts."""

import pytest

from outlier.sources import ListedRandom
from proxy.config.cluster_config import LbPolicy, Locality
from tests.proxy.load_balancer.cluster import Cluster, Context, make_host

LIST_POLICIES = [LbPolicy.ROUND_ROBIN, LbPolicy.LEAST_REQUEST, LbPolicy.RANDOM]
ZONES = [Locality(zone="a"), Locality(zone="b")]


def zoned(cluster, *, weights: tuple[int, int]) -> Cluster:
    """Two hosts in each of two zones."""
    hosts = [make_host(number, locality=ZONES[number // 2]) for number in range(4)]
    locality_weights = {(0, zone): weight for zone, weight in zip(ZONES, weights, strict=True)}
    clients: Cluster = cluster(hosts=hosts, locality_weighted=True, locality_weights=locality_weights)
    return clients


@pytest.mark.parametrize("policy", LIST_POLICIES)
def test_the_next_priority_serves_when_the_first_is_down(cluster, policy):
    clients = cluster(policy, hosts=[make_host(0), make_host(1, priority=1)])
    assert clients.picks(3) == [0, 0, 0]

    clients.eject(0)

    assert clients.picks(3) == [1, 1, 1]


@pytest.mark.parametrize("policy", LIST_POLICIES)
def test_a_refused_host_is_picked_anew_until_retries_run_out(cluster, policy):
    clients = cluster(policy, weights=[1, 1, 1], seed=3)

    assert clients.pick(Context(refused=clients.hosts[:2], host_selection_retry_count=50)) == 2
    assert clients.pick(Context(refused=clients.hosts, host_selection_retry_count=2)) in (0, 1, 2)


def test_each_pick_for_a_refused_host_counts_in_panic(cluster):
    """The first pick and two more."""
    clients = cluster(weights=[1, 1, 1, 1])
    clients.eject(0, 1, 2)

    clients.pick(Context(refused=clients.hosts, host_selection_retry_count=2))

    assert clients.stats.lb_healthy_panic == 3


def test_the_last_pick_stands_though_it_would_be_refused(cluster):
    clients = cluster(weights=[1, 1, 1], random=ListedRandom([0]))

    assert clients.pick(Context(refused=clients.hosts, host_selection_retry_count=1)) == 1


@pytest.mark.parametrize(("weighted", "load"), [(False, (70, 30)), (True, (93, 7))])
def test_weighted_priority_health_counts_weights(cluster, weighted, load):
    """Half of the hosts with two thirds of the weight are left in priority 0."""
    hosts = [make_host(0, weight=2), make_host(1, weight=1), make_host(2, priority=1)]
    clients = cluster(hosts=hosts, weighted_priority_health=weighted)

    clients.eject(1)

    assert clients.load_balancer.loads.load == load


def test_panic_bypasses_localities(cluster):
    clients = zoned(cluster, weights=(1, 0))
    assert set(clients.picks(8)) == {0, 1}

    clients.eject(0, 1, 2)

    assert set(clients.picks(8)) == {0, 1, 2, 3}


def test_localities_without_any_weight_are_one_list(cluster):
    assert set(zoned(cluster, weights=(0, 0)).picks(8)) == {0, 1, 2, 3}


def test_a_locality_keeps_its_weight_until_too_few_of_its_hosts_are_left(cluster):
    """One of two hosts is 50 %, times 1.4 is 70 % of the weight."""
    clients = zoned(cluster, weights=(1, 1))

    clients.eject(0)

    assert clients.counts(170) == pytest.approx([0, 70, 50, 50], abs=2)


@pytest.mark.parametrize("policy", LIST_POLICIES)
def test_a_closed_balancer_stops_following(cluster, policy):
    clients = cluster(policy, weights=[1])
    clients.load_balancer.close()

    clients.priority_set.update_hosts([])

    assert clients.pick() == 0
