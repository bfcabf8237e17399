"""What round robin, least request and random share: which list of hosts a pick is made from.

A pick falls to a priority by chance and the loads; to all its hosts in panic, to its healthy or its degraded ones
otherwise, or to those of one locality under locality weighting. The choice is a look into a table of 100 shares, made
anew when lists change. Ports `ZoneAwareLoadBalancerBase::hostSourceToUse` and `EdfLoadBalancerBase` (Envoy,
source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

import abc
import enum
from collections import Counter
from collections.abc import Callable

from outlier.sources import RandomGenerator
from proxy.config.cluster_config import LoadBalancerConfig, Locality
from proxy.load_balancer.explanation import Choice
from proxy.load_balancer.host_source import HostSource, LocalitySource
from proxy.load_balancer.load_balancer import LoadBalancer, LoadBalancerContext, LoadBalancerStats
from proxy.load_balancer.locality import effective_locality_weight
from proxy.load_balancer.priority_load import choose_priority
from proxy.upstream.host import Host
from proxy.upstream.priority_set import LocalityHosts, PrioritySet


class HostList(enum.Enum):
    """Which hosts of a priority or locality."""

    ALL = "all"
    HEALTHY = "healthy"
    DEGRADED = "degraded"


class ListLoadBalancer(LoadBalancer):
    """Picks from a list of the priority that a random number falls to."""

    def __init__(
        self, config: LoadBalancerConfig, priority_set: PrioritySet, random: RandomGenerator, stats: LoadBalancerStats
    ) -> None:
        super().__init__(config, priority_set, random, stats)
        self._draw = random.random
        self._lists: dict[tuple[int, HostList, Locality | None], HostSource] = {}
        self._locality_sources: dict[tuple[int, HostList], LocalitySource] = {}
        self._sole_source: HostSource | None = None
        self._shares: tuple[HostSource, ...] = ()
        for host_set in priority_set.host_sets:
            self._rebuild(host_set.priority)
        self._assign()

    def choose_host(self, context: LoadBalancerContext | None = None) -> Host | None:
        """Return the next host of the policy; a refused one is replaced by a new pick while the context allows."""
        if context is None:
            return self._choose_once()
        for _ in range(context.host_selection_retry_count):
            host = self._choose_for(context)
            if host is None or not context.should_select_another_host(host):
                return host
        return self._choose_for(context)

    def _choose_for(self, context: LoadBalancerContext) -> Host | None:
        """Choose once, among the priorities that are left to the request."""
        if context.retry_priority is None:
            return self._choose_once()
        number = self._draw()
        priority, degraded = choose_priority(context.retry_priority.adjust(self.loads), number)
        source = self._source_for(priority, degraded=degraded)
        source.prepare()
        return self._pick(source, number)

    def _choose_once(self) -> Host | None:
        number = 0
        source = self._sole_source
        if source is None:
            number = self._draw()
            source = self._shares[number % 100]
        return self._pick(source, number)

    def _pick(self, source: HostSource, number: int) -> Host | None:
        if source.panic:
            self._stats.lb_healthy_panic += 1
        return source.pick(number)

    @abc.abstractmethod
    def _new_source(self, *, panic: bool) -> HostSource:
        """Return an empty source of the policy."""

    def _refresh(self, priority: int) -> None:
        self.loads = self._priority_loads()
        self._rebuild(priority)
        self._assign()

    def _rebuild(self, priority: int) -> None:
        """Give the sources of one priority their new lists."""
        hosts = self._priority_set.host_sets[priority]
        self._source(priority, HostList.ALL).reset(() if self._config.fail_traffic_on_panic else hosts.hosts)
        self._source(priority, HostList.HEALTHY).reset(hosts.healthy_hosts)
        self._source(priority, HostList.DEGRADED).reset(hosts.degraded_hosts)
        if self._config.locality_weighted:
            seed = self._random.random()
            self._rebuild_localities(priority, HostList.HEALTHY, lambda locality: locality.healthy_hosts, seed)
            self._rebuild_localities(priority, HostList.DEGRADED, lambda locality: locality.degraded_hosts, seed)

    def _rebuild_localities(
        self, priority: int, which: HostList, eligible: Callable[[LocalityHosts], tuple[Host, ...]], seed: int
    ) -> None:
        localities: list[tuple[HostSource, float]] = []
        for group in self._priority_set.host_sets[priority].localities:
            hosts = eligible(group)
            weight = effective_locality_weight(
                self._config.locality_weights.get((priority, group.locality), 0),
                hosts=len(group.hosts),
                excluded=len(group.excluded_hosts),
                eligible=len(hosts),
                overprovisioning_factor=self._config.overprovisioning_factor,
            )
            if weight > 0:
                source = self._source(priority, which, group.locality)
                source.reset(hosts)
                localities.append((source, weight))
        if localities:
            self._locality_sources[priority, which] = LocalitySource(localities, seed)
        else:
            self._locality_sources.pop((priority, which), None)

    def _source(self, priority: int, which: HostList, locality: Locality | None = None) -> HostSource:
        key = (priority, which, locality)
        source = self._lists.get(key)
        if source is None:
            source = self._lists[key] = self._new_source(panic=which is HostList.ALL)
        return source

    def _source_for(self, priority: int, *, degraded: bool) -> HostSource:
        """Return the source of a pick that has fallen to the healthy or the degraded hosts of a priority."""
        which = self._list_for(priority, degraded=degraded)
        return self._locality_sources.get((priority, which)) or self._source(priority, which)

    def _list_for(self, priority: int, *, degraded: bool) -> HostList:
        if self.loads.panic[priority]:
            return HostList.ALL
        return HostList.DEGRADED if degraded else HostList.HEALTHY

    def _assign(self) -> None:
        """Lay the loads out as 100 shares, which the residues of random numbers fall to."""
        chosen = [choose_priority(self.loads, number) for number in range(100)]
        self._shares = tuple(self._source_for(priority, degraded=degraded) for priority, degraded in chosen)
        used = set(self._shares)
        for source in used:
            source.prepare()
        self._sole_source = self._shares[0] if len(used) == 1 else None

    def _choices(self, context: LoadBalancerContext | None) -> list[Choice]:
        fallen = Counter(choose_priority(self.loads, number) for number in range(100))
        return [
            Choice(
                share=share,
                priority=priority,
                which=self._list_for(priority, degraded=degraded).value,
                hosts=tuple(host.address for host in self._source_for(priority, degraded=degraded).hosts),
                method=self._source_for(priority, degraded=degraded).describe(),
            )
            for (priority, degraded), share in fallen.items()
        ]
