"""The hosts of a hash table, their keys, and the share of the table each of them gets.

Ports `normalizeWeights` and `HashingLoadBalancer::hashKey` (Envoy,
source/extensions/load_balancing_policies/common/thread_aware_lb_impl.cc).
"""

from collections.abc import Mapping

import attrs

from proxy.config.cluster_config import Locality
from proxy.upstream.host import Host
from proxy.upstream.priority_set import HostSet


@attrs.frozen
class HashMembers:
    """Hosts and their shares; `weights` sum to 1 unless there are no hosts."""

    hosts: tuple[Host, ...]
    weights: tuple[float, ...]


def hash_members(
    host_set: HostSet, *, panic: bool, locality_weights: Mapping[tuple[int, Locality], int] | None
) -> HashMembers:
    """Return the healthy hosts of a priority, or in panic all of them, by weight.

    Degraded hosts are left out: traffic that falls to them finds nobody, as in Envoy.

    Args:
        host_set: The priority.
        panic: Whether it panics.
        locality_weights: Weight by priority and locality, 0 if absent; None leaves localities out of account. They
            count in full, however few hosts of a locality can serve, unlike in `effective_locality_weight`.
    """
    if locality_weights is None:
        hosts = host_set.hosts if panic else host_set.healthy_hosts
        return HashMembers(hosts, tuple(_shares(hosts, 1.0)))
    weights = [locality_weights.get((host_set.priority, group.locality), 0) for group in host_set.localities]
    total = sum(weights)
    members: list[Host] = []
    shares: list[float] = []
    for group, weight in zip(host_set.localities, weights, strict=True):
        if weight:
            hosts = group.hosts if panic else group.healthy_hosts
            members += hosts
            shares += _shares(hosts, weight / total)
    return HashMembers(tuple(members), tuple(shares))


def hash_key(host: Host, *, use_hostname: bool) -> bytes:
    """Return what is hashed for a host: its own hash key if it has one, else its name or its address."""
    endpoint = host.endpoint
    hostname = endpoint.hostname if use_hostname else ""
    return (endpoint.hash_key or hostname or host.address).encode()


def _shares(hosts: tuple[Host, ...], locality_share: float) -> list[float]:
    weights = [host.weight for host in hosts]
    total = sum(weights)
    return [weight * locality_share / total for weight in weights]
