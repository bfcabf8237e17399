"""Retries that avoid the priorities tried before."""

import pytest

from proxy.config.cluster_config import LbPolicy
from proxy.load_balancer import PreviousPriorities
from proxy.load_balancer.priority_load import LevelCounts, PriorityLoads, priority_loads
from tests.proxy.load_balancer.cluster import Context, make_host


def loads(*levels: tuple[int, ...]) -> PriorityLoads:
    counts = [LevelCounts(*level) for level in levels]
    return priority_loads(counts, panic_threshold=50, overprovisioning_factor=140)


def attempted(update_frequency: int, *priorities: int) -> PreviousPriorities:
    previous = PreviousPriorities(update_frequency)
    for priority in priorities:
        previous.on_host_attempted(make_host(priority, priority=priority))
    return previous


@pytest.mark.parametrize(("attempts", "load"), [(0, (100, 0)), (1, (100, 0)), (2, (0, 100)), (3, (0, 100))])
def test_a_priority_is_left_out_when_attempts_reach_the_frequency(attempts, load):
    previous = PreviousPriorities(2)
    found = previous.adjust(loads((1, 1), (1, 1)))
    for _ in range(attempts):
        previous.on_host_attempted(make_host(0))
        found = previous.adjust(loads((1, 1), (1, 1)))

    assert found.load == load


def test_loads_are_shared_out_again_among_the_rest():
    """Priorities 1 and 2 can take 35 % each: half of what is left."""
    assert attempted(1, 0).adjust(loads((4, 3), (4, 1), (4, 1))).load == (0, 50, 50)


def test_what_truncation_leaves_goes_round_again():
    """35 of 105, capped at 100, is 35 each; the 30 left over are 35 of the first round's first."""
    found = attempted(1, 0).adjust(loads((1, 1), (4, 1), (4, 1), (4, 1)))

    assert found.load == (0, 35, 35, 30)
    assert attempted(1, 0).adjust(loads((1, 1), (5, 1), (5, 1), (5, 1))).load == (0, 34, 33, 33)


def test_degraded_hosts_of_the_rest_get_their_part():
    found = attempted(1, 0).adjust(loads((1, 1), (4, 1, 1)))

    assert (found.load, found.degraded_load) == ((0, 50), (0, 50))


def test_it_starts_over_when_every_priority_has_been_tried():
    previous = attempted(1, 0, 1)

    assert previous.adjust(loads((1, 1), (1, 1))).load == (100, 0)


def test_loads_stay_when_nobody_can_serve():
    given = loads((1, 0), (1, 0))

    assert attempted(1, 0).adjust(given) is given


@pytest.mark.parametrize(
    ("priorities", "update_frequency", "recorded"),
    [
        (2, 1, [0, 1, 0, 1, 0, 1, 0, 1, 0]),
        (2, 2, [0, 0, 1, 1, 0, 0, 1, 1, 0]),
        (2, 3, [0, 0, 0, 1, 1, 1, 0, 0, 0]),
        (3, 1, [0, 1, 2, 0, 1, 2, 0, 1, 2]),
        (3, 2, [0, 0, 1, 1, 2, 2, 0, 0, 1]),
        (3, 3, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
    ],
)
def test_attempts_of_one_request_walk_the_priorities(cluster, priorities, update_frequency, recorded):
    """Recorded on Envoy 1.40: one healthy host a priority, every attempt answered 503, eight retries."""
    clients = cluster(hosts=[make_host(priority, priority=priority) for priority in range(priorities)])
    previous = PreviousPriorities(update_frequency)
    walked = []
    for _ in recorded:
        host = clients.load_balancer.choose_host(Context(retry_priority=previous))
        previous.on_host_attempted(host)
        walked.append(host.priority)

    assert walked == recorded


@pytest.mark.parametrize("policy", [LbPolicy.ROUND_ROBIN, LbPolicy.LEAST_REQUEST, LbPolicy.RANDOM])
def test_a_balancer_follows_the_adjusted_loads(cluster, policy):
    clients = cluster(policy, hosts=[make_host(0), make_host(1, priority=1, weight=2), make_host(2, priority=1)])

    assert clients.pick(Context(retry_priority=attempted(1))) == 0
    assert clients.pick(Context(retry_priority=attempted(1, 0))) in (1, 2)
