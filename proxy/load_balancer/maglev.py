"""A table of prime size that hosts fill in turns, each by a permutation of its own; a key is looked up by its residue.

Ports `MaglevTable` (Envoy, source/extensions/load_balancing_policies/maglev/maglev_lb.cc), after Eisenbud et al.,
"Maglev: a fast and reliable software network load balancer", NSDI 2016.
"""

from array import array
from collections.abc import Sequence

import xxhash

from proxy.load_balancer.hash_members import HashMembers
from proxy.load_balancer.hash_table import HashTableBuilder
from proxy.upstream.host import Host

DEFAULT_TABLE_SIZE = 65_537

_STEP_PROBES = 8_000  # slots looked at between two yields: about a millisecond
_MASK = (1 << 64) - 1


class Maglev:
    """A table: for each residue the index into `hosts` of its owner."""

    __slots__ = ("_hosts", "_owners", "_size", "gauges")

    def __init__(self, hosts: tuple[Host, ...], owners: "array[int]", gauges: dict[str, int]) -> None:
        self._hosts = hosts
        self._owners = owners
        self._size = len(owners)
        self.gauges = gauges

    def host(self, number: int, attempt: int) -> Host:
        """Return the owner of the residue of `number`; an attempt above 0 flips most of its bits first."""
        if attempt:
            number ^= -attempt & _MASK
        return self._hosts[self._owners[number % self._size]]

    def entries(self) -> list[Host]:
        """Return the owner of every residue."""
        return [self._hosts[owner] for owner in self._owners]


def build_maglev(
    members: HashMembers, keys: Sequence[bytes], *, table_size: int = DEFAULT_TABLE_SIZE
) -> HashTableBuilder:
    """Build the table of `members`, at least one.

    Args:
        members: Hosts and shares; their order does not matter, keys are sorted.
        keys: Hash key of each host.
        table_size: A prime.
    """
    count = len(keys)
    if count == 1:
        # Envoy 1.40 keeps a table of one entry, and its gauges say so.
        return Maglev(members.hosts, array("I", [0]), _gauges([1]))
    order = sorted(range(count), key=keys.__getitem__)
    weights = [members.weights[index] for index in order]
    yield
    slots = [xxhash.xxh64_intdigest(keys[index]) % table_size for index in order]
    skips = [xxhash.xxh64_intdigest(keys[index], 1) % (table_size - 1) + 1 for index in order]
    targets = [0.0] * count
    filled = [0] * count
    largest = max(weights)
    yield

    free = count  # one past the last index, so the table can be filled in place
    owners = array("I", [free]) * table_size
    turn, left = 0, _STEP_PROBES
    empty = table_size
    while empty:
        turn += 1
        for entry in range(count):
            left -= 1
            if left <= 0:
                yield
                left = _STEP_PROBES
            if turn * weights[entry] < targets[entry]:
                continue
            targets[entry] += largest
            slot, skip = slots[entry], skips[entry]
            while owners[slot] != free:
                slot += skip
                if slot >= table_size:
                    slot -= table_size
                left -= 1
                if left <= 0:
                    yield
                    left = _STEP_PROBES
            owners[slot] = order[entry]
            filled[entry] += 1
            slot += skip
            slots[entry] = slot if slot < table_size else slot - table_size
            empty -= 1
            if not empty:
                break
    return Maglev(members.hosts, owners, _gauges(filled))


def _gauges(filled: Sequence[int]) -> dict[str, int]:
    return {"maglev_lb.min_entries_per_host": min(filled), "maglev_lb.max_entries_per_host": max(filled)}
