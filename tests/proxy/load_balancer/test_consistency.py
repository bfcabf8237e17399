"""How few keys change hosts when the hosts change, and that an unhealthy host gets traffic in panic only."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlier.sources import SeededRandom
from proxy.config.cluster_config import LbPolicy, LoadBalancerConfig
from proxy.load_balancer.hash_members import HashMembers, hash_key, hash_members
from proxy.load_balancer.ring_hash import Ring, build_ring
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.priority_set import HostSet
from tests.proxy.load_balancer.cluster import Cluster, Context, make_host

KEYS = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 300)]
_FLAGS = [
    None,
    HealthFlag.FAILED_OUTLIER_CHECK,
    HealthFlag.FAILED_ACTIVE_HC,
    HealthFlag.DEGRADED_EDS_HEALTH,
    HealthFlag.EDS_STATUS_DRAINING,
]


def keyed_cluster(policy: LbPolicy, hosts: int, **config: int) -> Cluster:
    members = [make_host(number) for number in range(hosts)]
    return Cluster(members, LoadBalancerConfig(policy=policy, healthy_panic_threshold=0, **config))


def keyed(clients: Cluster) -> list[int | None]:
    return [clients.pick(Context(key)) for key in KEYS]


@settings(max_examples=25)
@given(hosts=st.integers(2, 12), data=st.data())
def test_ring_of_fixed_entries_moves_only_the_keys_of_the_host_that_leaves(hosts, data):
    """With one entry a host, a smaller ring adds none."""
    clients = keyed_cluster(LbPolicy.RING_HASH, hosts, ring_hash_minimum_size=1)
    gone = data.draw(st.integers(0, hosts - 1))
    before = keyed(clients)

    clients.eject(gone)

    assert all(new == old for new, old in zip(keyed(clients), before, strict=True) if old != gone)
    assert gone not in keyed(clients)


def ring_of(hosts: Sequence[Host]) -> Ring:
    members: HashMembers = hash_members(HostSet(0, hosts), panic=False, locality_weights=None)
    keys = [hash_key(host, use_hostname=False) for host in members.hosts]
    builder = build_ring(members, keys)
    while True:
        try:
            next(builder)
        except StopIteration as end:
            ring: Ring = end.value
            return ring


@settings(max_examples=10, deadline=None)
@given(hosts=st.integers(3, 9), data=st.data())
def test_ring_that_grows_entries_moves_other_keys_only_to_new_entries(hosts, data):
    """Fewer hosts get more entries each, so that the ring keeps its size; Envoy moves keys for that too."""
    everyone = [make_host(number) for number in range(hosts)]
    gone = everyone[data.draw(st.integers(0, hosts - 1))]
    large, small = ring_of(everyone), ring_of([host for host in everyone if host is not gone])
    known = dict(large.entries())
    positions = [value for value, _ in small.entries()]

    for key in KEYS:
        old, new = large.host(key, 0), small.host(key, 0)
        if new is not old and old is not gone:
            landed = next((value for value in positions if value >= key), positions[0])
            assert landed not in known


@pytest.mark.parametrize("hosts", [3, 5, 8, 20])
def test_maglev_moves_hardly_any_other_key(hosts):
    """Turns shift a little when one host takes none; at 1,000 slots a host, under 1 % of the other keys move."""
    clients = keyed_cluster(LbPolicy.MAGLEV, hosts, maglev_table_size={3: 3_001, 5: 5_003, 8: 8_009, 20: 20_011}[hosts])
    keys = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 4_000)]
    before = [clients.pick(Context(key)) for key in keys]

    clients.eject(1)

    moved = [old for key, old in zip(keys, before, strict=True) if old != 1 and clients.pick(Context(key)) != old]
    assert len(moved) < 0.01 * len(keys)


@settings(max_examples=15)
@given(policy=st.sampled_from([LbPolicy.RING_HASH, LbPolicy.MAGLEV]), hosts=st.integers(2, 8), data=st.data())
def test_a_host_that_returns_gets_its_keys_back(policy, hosts, data):
    clients = keyed_cluster(policy, hosts, maglev_table_size=251)
    gone = data.draw(st.sets(st.integers(0, hosts - 1), min_size=1, max_size=hosts - 1))
    before = keyed(clients)

    clients.eject(*gone)
    clients.uneject(*gone)

    assert keyed(clients) == before


@settings(max_examples=60, deadline=None)
@given(
    policy=st.sampled_from([policy for policy in LbPolicy if policy is not LbPolicy.CLUSTER_PROVIDED]),
    hosts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(_FLAGS)), min_size=1, max_size=12),
    panic_threshold=st.sampled_from([0, 25, 50, 100]),
    seed=st.integers(0, 2**32),
)
def test_an_unhealthy_host_is_picked_in_panic_only(policy, hosts, panic_threshold, seed):
    members = []
    for number, (priority, weight, flag) in enumerate(hosts):
        host = make_host(number, priority=priority, weight=weight)
        if flag is not None:
            host.set_flag(flag)
        members.append(host)
    config = LoadBalancerConfig(policy=policy, healthy_panic_threshold=panic_threshold, maglev_table_size=251)
    clients = Cluster(members, config, SeededRandom(seed))

    for _ in range(30):
        panics = clients.stats.lb_healthy_panic
        host = clients.load_balancer.choose_host()
        if host is not None and host.unhealthy:
            assert clients.load_balancer.panic[host.priority]
            assert clients.stats.lb_healthy_panic == panics + 1
