"""Which priorities a retry may use after attempts in others have failed.

Ports `PreviousPrioritiesRetryPriority` (Envoy,
source/extensions/retry/priority/previous_priorities/previous_priorities.cc); Istio sends it for
`retryRemoteLocalities`, with an update frequency of 2.
"""

import attrs

from proxy.load_balancer.priority_load import PriorityLoads
from proxy.upstream.host import Host


class PreviousPriorities:
    """The priorities that one request has tried; loads are shared out again among the others.

    Args:
        update_frequency: How many attempts it takes until tried priorities are excluded, and until that is
            reconsidered; at least 1.
    """

    def __init__(self, update_frequency: int) -> None:
        self._update_frequency = update_frequency
        self._attempted: list[int] = []
        self._excluded: set[int] = set()
        self._shares: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def on_host_attempted(self, host: Host) -> None:
        """Note that the request has been sent to `host`."""
        self._attempted.append(host.priority)

    def adjust(self, loads: PriorityLoads) -> PriorityLoads:
        """Return the loads for the next pick; panic flags stay as they are."""
        attempts = len(self._attempted)
        if attempts >= self._update_frequency and attempts % self._update_frequency == 0:
            self._excluded.update(self._attempted)
            self._shares = self._share_out(loads)
        if attempts < self._update_frequency or self._shares is None:
            return loads
        return attrs.evolve(loads, load=self._shares[0], degraded_load=self._shares[1])

    def _share_out(self, loads: PriorityLoads) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the loads of the priorities left, of all when none is left, None when nobody can serve."""
        health, degraded_health = self._available(loads)
        total = min(100, sum(health) + sum(degraded_health))
        if total == 0:
            self._excluded.clear()
            self._attempted.clear()
            health, degraded_health = self._available(loads)
            total = min(100, sum(health) + sum(degraded_health))
        if total == 0:
            return None
        shares = [0] * len(health), [0] * len(health)
        left = 100
        while left:  # what truncation leaves goes round again, to the first available priority
            for share, availability in zip(shares, (health, degraded_health), strict=True):
                for priority, available in enumerate(availability):
                    part = min(left, available * 100 // total)
                    share[priority] += part
                    left -= part
        return tuple(shares[0]), tuple(shares[1])

    def _available(self, loads: PriorityLoads) -> tuple[list[int], list[int]]:
        excluded = self._excluded
        return (
            [0 if priority in excluded else health for priority, health in enumerate(loads.health)],
            [0 if priority in excluded else health for priority, health in enumerate(loads.degraded_health)],
        )
