"""One host after the other, heavier hosts more often.

Ports `RoundRobinLoadBalancer` (Envoy, source/extensions/load_balancing_policies/round_robin/round_robin_lb.h).
"""

import operator
from collections.abc import Callable

from proxy.load_balancer.host_source import ScheduledSource
from proxy.load_balancer.scheduled_load_balancer import ScheduledLoadBalancer
from proxy.upstream.host import Host


class RoundRobinSource(ScheduledSource):
    """A list with an index that counts picks from the seed and is never reset, whatever becomes of the list.

    Envoy's index wraps at 2^64, which shifts the order once in as many picks; this one does not.
    """

    __slots__ = ("_index",)

    def __init__(
        self, weight: Callable[[Host], float], in_slow_start: Callable[[], bool], seed: int, *, panic: bool
    ) -> None:
        super().__init__(weight, in_slow_start, seed, panic=panic)
        self._index = seed

    def describe_equal(self) -> str:
        """Say that hosts take turns."""
        return "in turn"

    def pick_equal(self, hosts: tuple[Host, ...]) -> Host:
        """Return the host at the index."""
        index = self._index
        self._index = index + 1
        return hosts[index % len(hosts)]


class RoundRobin(ScheduledLoadBalancer):
    """Round robin: by index while weights are equal, by schedule otherwise."""

    def _host_weight(self) -> Callable[[Host], float]:
        return operator.attrgetter("weight")

    def _new_scheduled_source(
        self, weight: Callable[[Host], float], in_slow_start: Callable[[], bool], *, panic: bool
    ) -> RoundRobinSource:
        return RoundRobinSource(weight, in_slow_start, self._seed, panic=panic)
