"""What every balancing policy shares: the loads of the priorities, and the count of picks made in panic.

Choosing among hosts belongs to the policies. Knows no sockets and no clock.
Ports `LoadBalancerBase` (Envoy, source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

import abc
from typing import Protocol

from outlier.sources import RandomGenerator
from proxy.config.cluster_config import LoadBalancerConfig
from proxy.load_balancer.explanation import Choice, Explanation, PriorityExplanation
from proxy.load_balancer.priority_load import (
    LevelCounts,
    PriorityLoads,
    panic_reason,
    panic_threshold_percent,
    priority_loads,
)
from proxy.load_balancer.retry_priority import PreviousPriorities
from proxy.upstream.host import Host
from proxy.upstream.priority_set import HostSet, PrioritySet


class LoadBalancerStats(Protocol):
    """The statistics of the cluster that a balancer counts or reads, under Envoy's names.

    `lb_healthy_panic` counts picks in a panicking priority, those that find or are given no host included. The gauge
    `upstream_rq_active` is kept by the data plane; bounded load reads it.
    """

    lb_healthy_panic: int
    upstream_rq_active: int


class LoadBalancerContext(Protocol):
    """One pick as the balancer sees it. None may be passed instead when there is no hash, predicate or destination."""

    @property
    def hash(self) -> int | None:
        """Hash of the request, 0..2^64-1; None lets ring hash and maglev draw one."""

    @property
    def host_selection_retry_count(self) -> int:
        """How often a refused host may be picked anew; 0 takes the first pick whatever it is."""

    @property
    def retry_priority(self) -> PreviousPriorities | None:
        """The priorities that the request has tried, if retries are to avoid them; ring hash and maglev do not ask."""

    @property
    def destination(self) -> str | None:
        """The `ip:port` that the client meant to connect to, None if unknown; only original destination asks."""

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

    @property
    def gauges(self) -> dict[str, int]:
        """Envoy's gauges of the policy, named as they follow `cluster.<name>.`; most policies have none."""
        return {}

    def explain(self, context: LoadBalancerContext | None = None) -> Explanation:
        """Return how a pick would be made now; nothing is counted, drawn or moved on by asking.

        Args:
            context: A request; only its hash or its destination is looked at.
        """
        number = context.hash if context is not None else None
        host = self._host_of(number) if number is not None else None
        return Explanation(
            policy=self._config.policy.value,
            panic_threshold=self._panic_threshold,
            overprovisioning_factor=self._config.overprovisioning_factor,
            priorities=tuple(self._explain_priority(hosts) for hosts in self._priority_set.host_sets),
            choices=tuple(self._choices(context)),
            hash=number,
            host=host.address if host is not None else None,
        )

    @abc.abstractmethod
    def _choices(self, context: LoadBalancerContext | None) -> list[Choice]:
        """Return the lists that picks are made from."""

    def _host_of(self, number: int) -> Host | None:
        """Return the host that a hash leads to, None where hashes do not count."""
        return None

    def _explain_priority(self, host_set: HostSet) -> PriorityExplanation:
        loads, priority = self.loads, host_set.priority
        return PriorityExplanation(
            priority=priority,
            hosts=len(host_set.hosts),
            healthy_hosts=len(host_set.healthy_hosts),
            degraded_hosts=len(host_set.degraded_hosts),
            excluded_hosts=len(host_set.excluded_hosts),
            health=loads.health[priority],
            degraded_health=loads.degraded_health[priority],
            load=loads.load[priority],
            degraded_load=loads.degraded_load[priority],
            panic=loads.panic[priority],
            reason=panic_reason(
                _counts(host_set), panic_threshold=self._panic_threshold, normalized_total=loads.normalized_total
            ),
        )

    @abc.abstractmethod
    def _refresh(self, priority: int) -> None:
        """Follow a change in the lists of one priority."""

    def _priority_loads(self) -> PriorityLoads:
        host_sets = self._priority_set.host_sets
        return priority_loads(
            [_counts(hosts) for hosts in host_sets],
            panic_threshold=self._panic_threshold,
            overprovisioning_factor=self._config.overprovisioning_factor,
            weights=[_weights(hosts) for hosts in host_sets] if self._config.weighted_priority_health else None,
        )


def _counts(host_set: HostSet) -> LevelCounts:
    return LevelCounts(
        len(host_set.hosts),
        len(host_set.healthy_hosts),
        len(host_set.degraded_hosts),
        len(host_set.excluded_hosts),
    )


def _weights(host_set: HostSet) -> LevelCounts:
    return LevelCounts(
        sum(host.weight for host in host_set.hosts),
        sum(host.weight for host in host_set.healthy_hosts),
        sum(host.weight for host in host_set.degraded_hosts),
        sum(host.weight for host in host_set.excluded_hosts),
    )
