"""The weight of a host that has just begun to serve.

Ports `EdfLoadBalancerBase::applySlowStartFactor` and `recalculateHostsInSlowStart` (Envoy,
source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

import math
import sys
from collections.abc import Iterable

from outlier.sources import TimeSource
from proxy.config.cluster_config import SlowStart
from proxy.upstream.host import Host


def slow_start_weight(weight: float, elapsed_ms: int, config: SlowStart) -> float:
    """Return the part of `weight` that a host has `elapsed_ms` after it began; all of it from `window_ms` on.

    Envoy's documentation counts at least one second as elapsed; its code, and this one, one millisecond. Always more
    than 0.

    >>> slow_start_weight(1, 2_000, SlowStart(window_ms=8_000))
    0.25
    """
    if elapsed_ms >= config.window_ms:
        return weight
    aggression = config.aggression
    if math.isnan(aggression) or aggression <= 0.0:
        aggression = 1.0
    progress = max(1, elapsed_ms) / config.window_ms
    # A tiny aggression underflows to 0, which Envoy would divide by.
    return weight * max(math.pow(progress, 1.0 / aggression), config.min_weight_percent / 100.0, sys.float_info.min)


class SlowStartTracker:
    """When each host of a cluster began to serve.

    Without active health checks that is when the balancer first saw it healthy; returning from an ejection is no new
    beginning.
    """

    def __init__(self, config: SlowStart, time_source: TimeSource) -> None:
        self._config = config
        self._time_source = time_source
        self._began_ms: dict[Host, int] = {}
        self._latest_ms = time_source.monotonic_ms()

    def observe(self, healthy_hosts: Iterable[Host]) -> None:
        """Start the window of each host not seen before."""
        now_ms = self._time_source.monotonic_ms()
        began_ms = self._began_ms
        for host in healthy_hosts:
            if host not in began_ms:
                began_ms[host] = self._latest_ms = now_ms

    def restart(self, host: Host) -> None:
        """Start the window anew: the host has passed active health checking after having failed it."""
        self._began_ms[host] = self._latest_ms = self._time_source.monotonic_ms()

    def keep(self, hosts: Iterable[Host]) -> None:
        """Forget all hosts but these."""
        self._began_ms = {host: self._began_ms[host] for host in hosts if host in self._began_ms}

    def in_progress(self) -> bool:
        """Whether the host that began last may still be in its window; Envoy counts the window's last moment in."""
        return self._time_source.monotonic_ms() - self._latest_ms <= self._config.window_ms

    def scale(self, weight: float, host: Host) -> float:
        """Return the part of `weight` that `host` has now; only a healthy host is scaled."""
        began_ms = self._began_ms.get(host)
        if began_ms is None:
            return weight
        elapsed_ms = self._time_source.monotonic_ms() - began_ms
        if elapsed_ms >= self._config.window_ms or not host.healthy:
            return weight
        return slow_start_weight(weight, elapsed_ms, self._config)
