"""A hash table that passes over hosts with more than their share of the active requests.

Ports `BoundedLoadHashingLoadBalancer` (Envoy,
source/extensions/load_balancing_policies/common/thread_aware_lb_impl.cc), after Mirrokni et al., "Consistent hashing
with bounded loads", and Chen et al., "Revisiting consistent hashing with bounded loads".
"""

import math
import random
from collections.abc import Callable, Iterator

from proxy.load_balancer.hash_members import HashMembers
from proxy.load_balancer.hash_table import HashTable
from proxy.load_balancer.load_balancer import LoadBalancerStats
from proxy.upstream.host import Host


class BoundedLoad:
    """`table`, but with a host at its limit replaced by another, the same for the same hash.

    Args:
        table: Table of all `members`.
        members: Hosts and shares.
        balance_factor: How far above its fair share of requests a host may be, in percent; more than 100 in Envoy.
        stats: Where the active requests of the whole cluster are read.
    """

    __slots__ = ("_balance_factor", "_members", "_shares", "_stats", "_table")

    def __init__(self, table: HashTable, members: HashMembers, balance_factor: int, stats: LoadBalancerStats) -> None:
        self._table = table
        self._members = members
        self._shares = dict(zip(members.hosts, members.weights, strict=True))
        self._balance_factor = balance_factor
        self._stats = stats

    @property
    def gauges(self) -> dict[str, int]:
        """The gauges of the table underneath."""
        return self._table.gauges

    def host(self, number: int, attempt: int) -> Host | None:
        """Return the host of the table, or if that is overloaded another in a random order."""
        host = self._table.host(number, attempt)
        if host is None:
            return None
        slots = ((self._stats.upstream_rq_active + 1) * self._balance_factor + 99) // 100
        overload = _overload(host, slots, self._shares[host])
        if overload <= 1.0:
            return host
        least, least_overload = host, overload
        hosts, weights = self._members.hosts, self._members.weights
        for index in _shuffled(len(hosts), number):
            other = hosts[index]
            if other is host:
                continue
            overload = _overload(other, slots, weights[index])
            if overload <= 1.0:
                return other
            if overload < least_overload:
                least, least_overload = other, overload
        return least


def _overload(host: Host, slots: int, share: float) -> float:
    return host.rq_active / max(1, math.ceil(slots * share))


def _shuffled(count: int, seed: int) -> Iterator[int]:
    """Yield 0..count-1 in the random order that Envoy derives from a seed, of which the low 32 bits count."""
    next_number = _mersenne_twister(seed)
    moved: dict[int, int] = {}
    for index in range(count):
        left = count - index
        width = (1 << 32) // left
        offset = next_number() // width
        while offset >= left:
            offset = next_number() // width
        chosen = index + offset
        yield moved.get(chosen, chosen)
        moved[chosen] = moved.get(index, index)


def _mersenne_twister(seed: int) -> Callable[[], int]:
    """Return the 32-bit numbers of C++'s `std::mt19937(seed)`.

    Python has the same generator but spreads a seed over its state in another way, so the state is set directly.
    """
    state = [seed & 0xFFFF_FFFF]
    for index in range(1, 624):
        previous = state[-1]
        state.append((1_812_433_253 * (previous ^ (previous >> 30)) + index) & 0xFFFF_FFFF)
    twister = random.Random()
    twister.setstate((3, (*state, 624), None))
    return lambda: twister.getrandbits(32)
