"""Random: one number for priority and host."""

from outlier.sources import ListedRandom
from proxy.config.cluster_config import LbPolicy
from tests.proxy.load_balancer.cluster import make_host


def test_the_number_is_an_index(cluster):
    assert cluster(LbPolicy.RANDOM, weights=[1, 9, 9], random=ListedRandom([4, 3, 2])).picks(3) == [1, 0, 2]


def test_the_number_that_chose_the_priority_chooses_the_host(cluster):
    """Priority 0, with one healthy host of four, takes residues 0 to 34; priority 1 has two hosts."""
    hosts = [*(make_host(number) for number in range(4)), make_host(4, priority=1), make_host(5, priority=1)]
    clients = cluster(LbPolicy.RANDOM, hosts=hosts, random=ListedRandom([34, 35, 36]))

    clients.eject(1, 2, 3)

    assert clients.picks(3) == [0, 5, 4]


def test_an_empty_list_gives_no_host(cluster):
    clients = cluster(LbPolicy.RANDOM, weights=[1], healthy_panic_threshold=0)

    clients.eject(0)

    assert clients.pick() is None
