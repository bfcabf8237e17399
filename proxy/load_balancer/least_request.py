"""The less busy of a few hosts drawn at random; by weight and load where weights differ.

Ports `LeastRequestLoadBalancer` (Envoy, source/extensions/load_balancing_policies/least_request/least_request_lb.cc).
"""

import operator
from collections.abc import Callable

from outlier.sources import RandomGenerator
from proxy.config.cluster_config import SelectionMethod
from proxy.load_balancer.host_source import ScheduledSource
from proxy.load_balancer.scheduled_load_balancer import ScheduledLoadBalancer
from proxy.upstream.host import Host

_RQ_ACTIVE = operator.attrgetter("rq_active")


class LeastRequestSource(ScheduledSource):
    """A list that draws some hosts, with replacement, and takes the first with the fewest active requests."""

    __slots__ = ("_choice_count", "_draw")

    def __init__(
        self,
        weight: Callable[[Host], float],
        in_slow_start: Callable[[], bool],
        seed: int,
        random: RandomGenerator,
        choice_count: int,
        *,
        panic: bool,
    ) -> None:
        super().__init__(weight, in_slow_start, seed, panic=panic)
        self._draw = random.random
        self._choice_count = choice_count

    def describe_equal(self) -> str:
        """Say how many hosts are drawn."""
        return f"least active requests of {self._choice_count} drawn at random"

    def pick_equal(self, hosts: tuple[Host, ...]) -> Host:
        """Return the least busy of the hosts drawn."""
        draw, count = self._draw, len(hosts)
        least = hosts[draw() % count]
        for _ in range(self._choice_count - 1):
            host = hosts[draw() % count]
            if host.rq_active < least.rq_active:
                least = host
        return least


class FullScanSource(ScheduledSource):
    """A list that looks at every host, and takes any of the least busy with the same chance; linear in the hosts."""

    __slots__ = ("_draw",)

    def __init__(
        self,
        weight: Callable[[Host], float],
        in_slow_start: Callable[[], bool],
        seed: int,
        random: RandomGenerator,
        *,
        panic: bool,
    ) -> None:
        super().__init__(weight, in_slow_start, seed, panic=panic)
        self._draw = random.random

    def describe_equal(self) -> str:
        """Say that all hosts are compared."""
        return "least active requests of all"

    def pick_equal(self, hosts: tuple[Host, ...]) -> Host:
        """Return one of the least busy hosts; Envoy draws once for each tie it meets, to the same effect."""
        least = min(map(_RQ_ACTIVE, hosts))
        tied = [host for host in hosts if host.rq_active == least]
        return tied[self._draw() % len(tied)]


class LeastRequest(ScheduledLoadBalancer):
    """Least request: by choices or a full scan while weights are equal, otherwise by a schedule that load slows down.

    The schedule weighs a host `weight / (active + 1) ** bias` at the moment it is put back, so the figure is as old as
    its last pick.
    """

    def _host_weight(self) -> Callable[[Host], float]:
        bias = self._config.least_request_active_request_bias
        if bias == 1.0:
            return lambda host: host.weight / (host.rq_active + 1)
        return lambda host: host.weight / float(host.rq_active + 1) ** bias

    def _new_scheduled_source(
        self, weight: Callable[[Host], float], in_slow_start: Callable[[], bool], *, panic: bool
    ) -> ScheduledSource:
        if self._config.least_request_selection_method is SelectionMethod.FULL_SCAN:
            return FullScanSource(weight, in_slow_start, self._seed, self._random, panic=panic)
        choice_count = self._config.least_request_choice_count
        return LeastRequestSource(weight, in_slow_start, self._seed, self._random, choice_count, panic=panic)
