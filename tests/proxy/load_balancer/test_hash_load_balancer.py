"""Ring hash and maglev over priorities, retries and health, and their tables being rebuilt beside the traffic."""

from collections import deque
from collections.abc import Callable

import pytest

from proxy.config.cluster_config import HealthStatus, LbPolicy
from tests.proxy.load_balancer.cluster import Cluster, Context, make_host

HASH_POLICIES = [LbPolicy.RING_HASH, LbPolicy.MAGLEV]
KEYS = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 400)]
PRIME = 1021


class Loop:
    """Deferred calls, run when a test says so."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()

    def defer(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def run(self) -> int:
        """Run everything, also what is deferred meanwhile, and return how many calls that took."""
        done = 0
        while self.calls:
            self.calls.popleft()()
            done += 1
        return done


def keyed(clients: Cluster) -> list[int | None]:
    return [clients.pick(Context(key)) for key in KEYS]


def many(cluster: Callable[..., Cluster], policy: LbPolicy, loop: Loop, hosts: int = 40) -> Cluster:
    """A cluster whose table takes several steps: a ring of 10,000 entries, or a table of 20,011."""
    return cluster(
        policy,
        weights=[1] * hosts,
        defer=loop.defer,
        ring_hash_minimum_size=10_000,
        maglev_table_size=20_011,
    )


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_a_key_stays_with_its_host(cluster, policy):
    clients = cluster(policy, weights=[1] * 5, maglev_table_size=PRIME)

    assert keyed(clients) == keyed(clients)
    assert set(keyed(clients)) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_a_request_without_a_hash_goes_anywhere(cluster, policy):
    clients = cluster(policy, weights=[1] * 3, maglev_table_size=PRIME)

    assert set(clients.picks(100)) == {0, 1, 2}


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_priority_is_sticky_by_the_residue_of_the_hash(cluster, policy):
    """Of four hosts in priority 0 one is healthy, which takes residues 0 to 34."""
    hosts = [*(make_host(number) for number in range(4)), make_host(4, priority=1)]
    clients = cluster(policy, hosts=hosts, maglev_table_size=PRIME)

    clients.eject(1, 2, 3)

    assert [clients.pick(Context(100 + residue)) for residue in (0, 34, 35, 99)] == [0, 0, 4, 4]


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_degraded_hosts_are_not_served(cluster, policy):
    hosts = [make_host(number, health_status=HealthStatus.DEGRADED) for number in range(3)]

    assert cluster(policy, hosts=hosts).picks(5) == [None] * 5


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_panic_uses_all_hosts_counts_a_pick_once_and_ignores_fail_traffic_on_panic(cluster, policy):
    clients = cluster(policy, weights=[1] * 4, maglev_table_size=PRIME, fail_traffic_on_panic=True)
    before = keyed(clients)
    refused = Context(1, refused=clients.hosts, host_selection_retry_count=3)

    clients.eject(0, 1, 2)

    assert keyed(clients) == before
    assert clients.stats.lb_healthy_panic == len(KEYS)
    clients.pick(refused)
    assert clients.stats.lb_healthy_panic == len(KEYS) + 1


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_a_refused_host_stands_when_attempts_run_out(cluster, policy):
    clients = cluster(policy, weights=[1], maglev_table_size=PRIME)

    assert clients.pick(Context(5, refused=clients.hosts, host_selection_retry_count=2)) == 0


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_a_large_table_is_built_in_steps_beside_the_traffic(cluster, policy):
    loop = Loop()
    clients = many(cluster, policy, loop)
    assert loop.run() > 3
    before = keyed(clients)

    clients.eject(7)
    assert clients.load_balancer.building
    during = keyed(clients)
    loop.run()

    assert not clients.load_balancer.building
    assert 7 in before
    assert 7 not in during
    assert [new for new, old in zip(during, before, strict=True) if old != 7] == [old for old in before if old != 7]


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_a_removed_host_is_not_picked_from_the_old_table(cluster, policy):
    loop = Loop()
    clients = many(cluster, policy, loop)
    loop.run()
    removed = clients.hosts[3]

    clients.priority_set.update_hosts([host for host in clients.hosts if host is not removed])

    assert clients.load_balancer.building
    assert 3 not in keyed(clients)


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_the_first_picks_wait_for_the_first_table(cluster, policy):
    loop = Loop()
    eager, lazy = many(cluster, policy, loop), many(cluster, policy, Loop())
    loop.run()

    assert keyed(lazy) == keyed(eager)
    assert not lazy.load_balancer.building


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_changes_during_a_build_are_followed_by_another_build(cluster, policy):
    loop = Loop()
    clients, expected = many(cluster, policy, loop), many(cluster, policy, Loop())
    loop.run()
    clients.eject(1)
    loop.calls.popleft()()
    clients.eject(2)
    clients.uneject(1)
    loop.run()
    expected.eject(2)

    assert keyed(clients) == keyed(expected)


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_an_unchanged_list_keeps_its_table(cluster, policy):
    loop = Loop()
    clients = many(cluster, policy, loop)
    loop.run()

    clients.priority_set.refresh_health(0)

    assert not clients.load_balancer.building


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_hosts_that_all_return_after_none_was_left_are_picked(cluster, policy):
    loop = Loop()
    clients = many(cluster, policy, loop)
    loop.run()
    before = keyed(clients)
    everyone = range(len(clients.hosts))
    clients.priority_set.update_hosts([])
    assert clients.pick(Context(1)) is None

    clients.priority_set.update_hosts(clients.hosts)

    assert [number in everyone for number in keyed(clients)] == [True] * len(KEYS)
    assert keyed(clients) == before


@pytest.mark.parametrize("policy", HASH_POLICIES)
def test_a_closed_balancer_stops_building_and_following(cluster, policy):
    loop = Loop()
    clients = many(cluster, policy, loop)

    clients.load_balancer.close()
    clients.eject(1)

    assert loop.run() == 1


def test_a_small_ring_is_built_at_once(cluster):
    loop = Loop()
    clients = cluster(LbPolicy.RING_HASH, weights=[1] * 5, defer=loop.defer)

    clients.eject(2)

    assert not loop.calls


def test_gauges_of_a_ring_and_a_table(cluster):
    ring = cluster(LbPolicy.RING_HASH, weights=[1] * 3).load_balancer
    table = cluster(LbPolicy.MAGLEV, weights=[1] * 3, maglev_table_size=PRIME).load_balancer
    single = cluster(LbPolicy.MAGLEV, weights=[1]).load_balancer

    assert ring.gauges == {
        "ring_hash_lb.size": 1026,
        "ring_hash_lb.min_hashes_per_host": 342,
        "ring_hash_lb.max_hashes_per_host": 342,
    }
    assert table.gauges == {"maglev_lb.min_entries_per_host": 340, "maglev_lb.max_entries_per_host": 341}
    assert single.gauges == {"maglev_lb.min_entries_per_host": 1, "maglev_lb.max_entries_per_host": 1}
