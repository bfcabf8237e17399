"""Bounded load: a host at its limit is replaced by another, the same for the same hash."""

import itertools

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.cluster_config import Endpoint, LbPolicy
from proxy.load_balancer.bounded_load import _mersenne_twister, _shuffled
from proxy.upstream.host import Host
from tests.proxy.load_balancer.cluster import Cluster, Context

KEY = 1234567890123456789


def loaded(clients: Cluster, *active: int) -> Cluster:
    for host, requests in zip(clients.hosts, active, strict=True):
        host.rq_active = requests
    clients.stats.upstream_rq_active = sum(active)
    return clients


def test_random_numbers_are_those_of_the_standard_generator():
    """The C++ standard requires 4123659995 as the 10,000th number of a default-constructed `std::mt19937`."""
    twister = _mersenne_twister(5489)
    numbers = [twister() for _ in range(10_000)]

    assert numbers[0] == 3499211612
    assert numbers[-1] == 4123659995


@given(count=st.integers(1, 40), seed=st.integers(0, 2**64 - 1))
def test_every_host_comes_once_in_the_random_order(count, seed):
    assert sorted(_shuffled(count, seed)) == list(range(count))


def test_only_the_low_half_of_the_hash_seeds_the_order():
    assert list(_shuffled(9, 5)) == list(_shuffled(9, (3 << 32) + 5))


def test_a_host_within_its_share_is_kept(cluster):
    """Two hosts at 150 %: (2 + 1) * 1.5 = 4.5, so 5 slots in all and 3 for each."""
    clients = cluster(LbPolicy.RING_HASH, weights=[1, 1], hash_balance_factor=150)
    owner = clients.pick(Context(KEY))
    active = [0, 0]
    active[owner] = 3
    loaded(clients, *active)
    clients.stats.upstream_rq_active = 2

    assert clients.pick(Context(KEY)) == owner


def test_a_host_above_its_share_is_replaced(cluster):
    clients = cluster(LbPolicy.RING_HASH, weights=[1, 1], hash_balance_factor=150)
    owner = clients.pick(Context(KEY))
    active = [0, 0]
    active[owner] = 4
    loaded(clients, *active)
    clients.stats.upstream_rq_active = 2

    assert clients.pick(Context(KEY)) == 1 - owner


def test_the_same_hash_is_replaced_by_the_same_host(cluster):
    clients = cluster(LbPolicy.MAGLEV, weights=[1] * 6, hash_balance_factor=120, maglev_table_size=251)
    owner = clients.pick(Context(KEY))
    clients.hosts[owner].rq_active = 50
    clients.stats.upstream_rq_active = 50

    others = [clients.pick(Context(KEY)) for _ in range(5)]

    assert owner not in others
    assert len(set(others)) == 1


def test_the_least_overloaded_host_is_taken_when_all_are(cluster):
    clients = loaded(cluster(LbPolicy.RING_HASH, weights=[1] * 3, hash_balance_factor=100), 9, 7, 8)
    clients.stats.upstream_rq_active = 0

    assert [clients.pick(Context(KEY + number)) for number in range(5)] == [1] * 5


def test_requests_that_never_end_are_spread_as_recorded(cluster):
    """Recorded on Envoy 1.40: keys k0, k1, k2 in turn, no answer to any; without a bound all would go to host 2."""
    recorded = [2, 2, 2, 2, 0, 2, 2, 0, 2, 0, 2, 2, 0, 2, 1, 2, 2, 1, 2, 0, 2, 2, 0, 2]
    hosts = [Host(Endpoint(address=f"127.0.0.1:{23200 + n}", weight=weight)) for n, weight in enumerate((1, 1, 2))]
    clients = cluster(LbPolicy.RING_HASH, hosts=hosts, hash_balance_factor=120)
    picked = []
    for number in range(len(recorded)):
        host = clients.load_balancer.choose_host(Context(xxhash.xxh64_intdigest(b"k%d" % (number % 3))))
        host.rq_active += 1
        clients.stats.upstream_rq_active += 1
        picked.append(clients.number(host))

    assert picked == recorded


def test_a_share_is_at_least_one_request(cluster):
    clients = cluster(LbPolicy.RING_HASH, weights=[1, 1000], hash_balance_factor=100, ring_hash_minimum_size=16)
    owned_by_light = next(key for key in itertools.count(0, 2**50) if clients.pick(Context(key)) == 0)
    loaded(clients, 1, 0)

    assert clients.pick(Context(owned_by_light)) == 0
    loaded(clients, 2, 0)
    assert clients.pick(Context(owned_by_light)) == 1
