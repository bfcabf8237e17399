"""Round robin: by index while weights are equal, by EDF otherwise."""

import pytest

from outlier.sources import ListedRandom
from proxy.config.cluster_config import HealthStatus, LbPolicy
from tests.proxy.load_balancer.cluster import make_host


def test_equal_weights_take_turns_from_the_seed(cluster):
    assert cluster(weights=[1, 1, 1], random=ListedRandom([4])).picks(5) == [1, 2, 0, 1, 2]


def test_index_survives_ejection_and_return(cluster):
    """Recorded on Envoy: one counter over all changes, index modulo the length of the list of the moment."""
    clients = cluster(weights=[1, 1, 1], random=ListedRandom([1]))

    assert clients.picks(7) == [1, 2, 0, 1, 2, 0, 1]
    assert clients.picks(1) == [2]
    clients.eject(2)
    assert clients.picks(7) == [1, 0, 1, 0, 1, 0, 1]
    clients.uneject(2)
    assert clients.picks(7) == [1, 2, 0, 1, 2, 0, 1]


def test_schedule_restarts_from_the_seed_when_the_list_changes(cluster):
    clients = cluster(weights=[1, 2, 3], random=ListedRandom([5]))
    first = clients.picks(4)

    clients.eject(1)
    clients.uneject(1)

    assert clients.picks(4) == first


def test_prepicks_are_the_low_half_of_the_seed(cluster):
    high_half_set = (7 << 32) | 5

    assert cluster(weights=[5, 1, 1], random=ListedRandom([high_half_set])).picks(6) == [2, 0, 0, 0, 0, 0]


def test_panic_list_has_an_index_of_its_own(cluster):
    clients = cluster(weights=[1, 1, 1, 1], random=ListedRandom([0]))
    clients.picks(3)

    clients.eject(0, 1, 2)

    assert clients.picks(5) == [0, 1, 2, 3, 0]
    assert clients.stats.lb_healthy_panic == 5


def test_no_host_when_panic_is_off_and_all_are_ejected(cluster):
    clients = cluster(weights=[1, 1], healthy_panic_threshold=0)

    clients.eject(0, 1)

    assert clients.picks(2) == [None, None]
    assert clients.stats.lb_healthy_panic == 0


def test_fail_traffic_on_panic_gives_no_host_and_still_counts(cluster):
    clients = cluster(weights=[1, 1, 1, 1], fail_traffic_on_panic=True)

    clients.eject(0, 1, 2)

    assert clients.picks(3) == [None, None, None]
    assert clients.stats.lb_healthy_panic == 3


def test_empty_cluster_gives_no_host_and_counts_panic(cluster):
    clients = cluster(hosts=[make_host(0)])
    clients.priority_set.update_hosts([])

    assert clients.load_balancer.choose_host() is None
    assert clients.stats.lb_healthy_panic == 1


def test_new_host_joins_and_old_one_leaves(cluster):
    clients = cluster(weights=[1, 1], random=ListedRandom([0]))
    newcomer = make_host(7)

    added, removed = clients.priority_set.update_hosts([clients.hosts[1], newcomer])

    assert (added, removed) == ([newcomer], [clients.hosts[0]])
    assert {clients.load_balancer.choose_host() for _ in range(4)} == {clients.hosts[1], newcomer}


@pytest.mark.parametrize("policy", [LbPolicy.ROUND_ROBIN, LbPolicy.LEAST_REQUEST, LbPolicy.RANDOM])
def test_degraded_hosts_serve_what_healthy_ones_cannot(cluster, policy):
    """One of five healthy: 28 % of traffic, the degraded ones get the other 72 %."""
    hosts = [make_host(0), *(make_host(number, health_status=HealthStatus.DEGRADED) for number in range(1, 5))]

    counts = cluster(policy, hosts=hosts).counts(2000)

    assert sum(counts) == 2000
    assert counts[0] / 2000 == pytest.approx(0.28, abs=0.04)
    assert min(counts[1:]) > 250
