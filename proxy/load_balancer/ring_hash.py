"""A ring of hashes in which each host stands many times; a key belongs to the first host at or after it.

Ports `RingHashLoadBalancer::Ring` (Envoy, source/extensions/load_balancing_policies/ring_hash/ring_hash_lb.cc). Envoy
sorts the ring as a whole; here its hashes fall into buckets first, which are sorted one by one, so that a ring of
millions of entries can be built in steps.
"""

import bisect
import math
from array import array
from collections.abc import Sequence

import xxhash

from proxy.config.cluster_config import HashFunction
from proxy.load_balancer.hash_members import HashMembers
from proxy.load_balancer.hash_table import HashTableBuilder
from proxy.load_balancer.murmur_hash import murmur_hash_2
from proxy.upstream.host import Host

DEFAULT_MINIMUM_SIZE = 1024
DEFAULT_MAXIMUM_SIZE = 8 * 1024 * 1024

_STEP_ENTRIES = 2_500  # hashes made, or entries sorted, between two yields: about a millisecond
_BUCKET_ENTRIES = 512


class Ring:
    """A ring: `hashes` ascending, and for each the index into `hosts` of its owner."""

    __slots__ = ("_hashes", "_hosts", "_owners", "gauges")

    def __init__(
        self, hosts: tuple[Host, ...], hashes: "array[int]", owners: "array[int]", gauges: dict[str, int]
    ) -> None:
        self._hosts = hosts
        self._hashes = hashes
        self._owners = owners
        self.gauges = gauges

    def host(self, number: int, attempt: int) -> Host:
        """Return the owner of the first hash at or after `number`, or of the entry `attempt` places further."""
        hashes = self._hashes
        size = len(hashes)
        index = bisect.bisect_left(hashes, number) + attempt
        return self._hosts[self._owners[index if index < size else index % size]]

    def entries(self) -> list[tuple[int, Host]]:
        """Return all `(hash, host)` entries in order."""
        return [(value, self._hosts[owner]) for value, owner in zip(self._hashes, self._owners, strict=True)]


def build_ring(
    members: HashMembers,
    keys: Sequence[bytes],
    *,
    minimum_size: int = DEFAULT_MINIMUM_SIZE,
    maximum_size: int = DEFAULT_MAXIMUM_SIZE,
    hash_function: HashFunction = HashFunction.XX_HASH,
) -> HashTableBuilder:
    """Build the ring of `members`, at least one.

    The least heavy host gets a whole number of entries and the others in proportion, unless `maximum_size` limits the
    ring.

    Args:
        members: Hosts and shares.
        keys: Hash key of each host.
        minimum_size: Entries at least, before `maximum_size` is applied.
        maximum_size: Entries at most, but for rounding.
        hash_function: Hash of the entries; keys of requests are always xxHash64.
    """
    digest = murmur_hash_2 if hash_function is HashFunction.MURMUR_HASH_2 else xxhash.xxh64_intdigest
    least = min(members.weights)
    scale = min(math.ceil(least * minimum_size) / least, float(maximum_size))
    size = math.ceil(scale)
    buckets = size // _BUCKET_ENTRIES + 1
    bucket_hashes = [array("Q") for _ in range(buckets)]
    bucket_owners = [array("I") for _ in range(buckets)]

    fewest, most = size, 0
    current, target, left = 0, 0.0, _STEP_ENTRIES
    for owner, (key, weight) in enumerate(zip(keys, members.weights, strict=True)):
        target += scale * weight
        count = max(0, math.ceil(target) - current)
        current += count
        fewest, most = min(fewest, count), max(most, count)
        for number in range(count):
            value = digest(b"%b_%d" % (key, number))
            bucket = value * buckets >> 64
            bucket_hashes[bucket].append(value)
            bucket_owners[bucket].append(owner)
            left -= 1
            if not left:
                yield
                left = _STEP_ENTRIES

    hashes, owners = array("Q"), array("I")
    for bucket in range(buckets):
        values, of = bucket_hashes[bucket], bucket_owners[bucket]
        order = sorted(range(len(values)), key=values.__getitem__)
        hashes.extend(map(values.__getitem__, order))
        owners.extend(map(of.__getitem__, order))
        left -= len(values)
        if left <= 0:
            yield
            left = _STEP_ENTRIES

    gauges = {
        "ring_hash_lb.size": size,
        "ring_hash_lb.min_hashes_per_host": fewest,
        "ring_hash_lb.max_hashes_per_host": most,
    }
    return Ring(members.hosts, hashes, owners, gauges)
