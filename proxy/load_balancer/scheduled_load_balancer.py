"""What round robin and least request share: an EDF schedule while weights differ, and slow start.

Ports `EdfLoadBalancerBase` (Envoy, source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

import abc
from collections.abc import Callable

from outlier.sources import RandomGenerator, TimeSource
from proxy.config.cluster_config import LoadBalancerConfig
from proxy.load_balancer.host_source import ScheduledSource
from proxy.load_balancer.list_load_balancer import ListLoadBalancer
from proxy.load_balancer.load_balancer import LoadBalancerStats
from proxy.load_balancer.slow_start import SlowStartTracker
from proxy.upstream.host import Host
from proxy.upstream.priority_set import PrioritySet


class ScheduledLoadBalancer(ListLoadBalancer):
    """Picks by schedule where weights differ or grow, and by the policy's cheaper rule where they are equal.

    One seed is drawn for the life of the balancer: schedules restart from it at every change of their list.
    """

    def __init__(
        self,
        config: LoadBalancerConfig,
        priority_set: PrioritySet,
        random: RandomGenerator,
        time_source: TimeSource,
        stats: LoadBalancerStats,
    ) -> None:
        self._seed = random.random()
        self._slow_start = SlowStartTracker(config.slow_start, time_source) if config.slow_start else None
        super().__init__(config, priority_set, random, stats)

    def on_active_health_check_passed(self, host: Host) -> None:
        """Begin the slow start of a host that active health checking has just found healthy."""
        if self._slow_start is not None:
            self._slow_start.restart(host)

    @abc.abstractmethod
    def _host_weight(self) -> Callable[[Host], float]:
        """Return the function that weighs a host, slow start aside."""

    @abc.abstractmethod
    def _new_scheduled_source(
        self, weight: Callable[[Host], float], in_slow_start: Callable[[], bool], *, panic: bool
    ) -> ScheduledSource:
        """Return an empty source of the policy."""

    def _new_source(self, *, panic: bool) -> ScheduledSource:
        weight = self._host_weight()
        slow_start = self._slow_start
        if slow_start is None:
            return self._new_scheduled_source(weight, _never, panic=panic)
        return self._new_scheduled_source(
            lambda host: slow_start.scale(weight(host), host), slow_start.in_progress, panic=panic
        )

    def _rebuild(self, priority: int) -> None:
        if self._slow_start is not None:
            self._slow_start.keep(self._priority_set.hosts)
            self._slow_start.observe(self._priority_set.host_sets[priority].healthy_hosts)
        super()._rebuild(priority)


def _never() -> bool:
    return False
