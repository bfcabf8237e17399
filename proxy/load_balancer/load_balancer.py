"""What every balancing policy shares: the loads of the priorities, and the count of picks made in panic.

Choosing among hosts belongs to the policies. Knows no sockets and no clock.
Ports `LoadBalancerBase` (Envoy, source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

import abc
from typing import Protocol

import attrs

from outlier.sources import RandomGenerator
from proxy.config.cluster_config import LoadBalancerConfig
from proxy.load_balancer.priority_load import LevelCounts, PriorityLoads, panic_threshold_percent, priority_loads
from proxy.upstream.host import Host
from proxy.upstream.priority_set import HostSet, PrioritySet


@attrs.define
class LoadBalancerStats:
    """Envoy's statistics of a balancer, under its names, and the one gauge of the data plane that a balancer reads.

    `lb_healthy_panic` counts picks in a panicking priority, those that find or are given no host included.
    `upstream_rq_active` is the cluster's gauge, written by the data plane; only bounded load (`hash_balance_factor`)
    reads it.
    """

    lb_healthy_panic: int = 0
    upstream_rq_active: int = 0


class LoadBalancerContext(Protocol):
    """One pick as the balancer sees it; a pick without a hash and without retry predicates may pass None instead."""

    @property
    def hash(self) -> int | None:
        """Hash of the request, 0..2^64-1; None lets the hash policies draw one."""

    @property
    def host_selection_retry_count(self) -> int:
        """How often a refused host may be picked anew; 0 takes the first pick whatever it is."""

    def should_select_another_host(self, host: Host) -> bool:
        """Whether the pick is refused, as when an earlier attempt has tried this host."""


class LoadBalancer(abc.ABC):
    """Chooses a host of a cluster for each attempt of each request.

    `loads` is replaced as a whole after every change of membership or health.
    """

    def __init__(
        self, config: LoadBalancerConfig, priority_set: PrioritySet, random: RandomGenerator, stats: LoadBalancerStats
    ) -> None:
        self._config = config
        self._priority_set = priority_set
        self._random = random
        self._stats = stats
        self._panic_threshold = panic_threshold_percent(config.healthy_panic_threshold)
        self.loads = self._priority_loads()
        priority_set.add_listener(self._refresh)

    @abc.abstractmethod
    def choose_host(self, context: LoadBalancerContext | None = None) -> Host | None:
        """Return the host for one attempt, None when there is none to give: the request is answered 503, flag UH."""

    def close(self) -> None:
        """Stop following the priority set; another balancer takes over."""
        self._priority_set.remove_listener(self._refresh)

    @property
    def panic(self) -> tuple[bool, ...]:
        """Which priorities use all their hosts, healthy or not."""
        return self.loads.panic

    @abc.abstractmethod
    def _refresh(self, priority: int) -> None:
        """Follow a change in the lists of one priority."""

    def _priority_loads(self) -> PriorityLoads:
        host_sets = self._priority_set.host_sets
        return priority_loads(
            [
                LevelCounts(
                    len(hosts.hosts), len(hosts.healthy_hosts), len(hosts.degraded_hosts), len(hosts.excluded_hosts)
                )
                for hosts in host_sets
            ],
            panic_threshold=self._panic_threshold,
            overprovisioning_factor=self._config.overprovisioning_factor,
            weights=[_weights(hosts) for hosts in host_sets] if self._config.weighted_priority_health else None,
        )


def _weights(host_set: HostSet) -> LevelCounts:
    return LevelCounts(
        sum(host.weight for host in host_set.hosts),
        sum(host.weight for host in host_set.healthy_hosts),
        sum(host.weight for host in host_set.degraded_hosts),
        sum(host.weight for host in host_set.excluded_hosts),
    )
