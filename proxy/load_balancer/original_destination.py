"""The host that the request itself names (`PASSTHROUGH`, cluster type `ORIGINAL_DST`).

Hosts come into being with the first request to their address and leave when nobody uses them. Health does not matter:
there is no other host to choose. The sidecar's own requests name none, as an explicit proxy cannot know where its
client meant to connect: its clusters of this kind have no host.
Ports `OriginalDstCluster` (Envoy, source/extensions/clusters/original_dst/original_dst_cluster.cc).
"""

from collections.abc import Callable

from outlier.sources import RandomGenerator
from proxy.config.cluster_config import Endpoint, LoadBalancerConfig
from proxy.load_balancer.explanation import Choice
from proxy.load_balancer.load_balancer import LoadBalancer, LoadBalancerContext, LoadBalancerStats
from proxy.upstream.host import Host
from proxy.upstream.priority_set import PrioritySet

CLEANUP_INTERVAL_MS = 5_000  # Envoy's `cleanup_interval`: how often unused hosts are to be removed


class OriginalDestination(LoadBalancer):
    """Finds or makes the host of the address in the context.

    Args:
        config: As for every balancer; only `explain` looks at it.
        priority_set: The hosts made so far; new ones are added to it.
        random: Not used, as nothing is left to chance.
        stats: As for every balancer.
        new_host: Makes the host of an address.
    """

    def __init__(
        self,
        config: LoadBalancerConfig,
        priority_set: PrioritySet,
        random: RandomGenerator,
        stats: LoadBalancerStats,
        *,
        new_host: Callable[[Endpoint], Host],
    ) -> None:
        super().__init__(config, priority_set, random, stats)
        self._new_host = new_host
        self._by_address = {host.address: host for host in priority_set.hosts}
        self._picked: set[Host] = set()

    def choose_host(self, context: LoadBalancerContext | None = None) -> Host | None:
        """Return the host of the address that the request names, a new one if need be; None if it names none."""
        address = context.destination if context is not None else None
        if address is None:
            return None
        host = self._by_address.get(address)
        if host is None:
            host = self._new_host(Endpoint(address=address))
            self._priority_set.update_hosts((*self._priority_set.hosts, host))
        self._picked.add(host)
        return host

    def remove_unused(self) -> list[Host]:
        """Remove and return the hosts not picked since the last call and without a connection.

        Due every `CLEANUP_INTERVAL_MS`.
        """
        picked, self._picked = self._picked, set()
        kept = [host for host in self._priority_set.hosts if host in picked or host.cx_active]
        if len(kept) == len(self._priority_set.hosts):
            return []
        _, removed = self._priority_set.update_hosts(kept)
        return removed

    def _refresh(self, priority: int) -> None:
        self.loads = self._priority_loads()
        self._by_address = {host.address: host for host in self._priority_set.hosts}

    def _choices(self, context: LoadBalancerContext | None) -> list[Choice]:
        address = context.destination if context is not None else None
        return [
            Choice(
                share=100,
                priority=0,
                which="all",
                hosts=(address,) if address is not None else (),
                method="the address that the request names",
            )
        ]
