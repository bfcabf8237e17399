"""How long a host stays out: the multiplier, its growth and decay, the cap, the jitter.

Reads and writes only the multipliers and the jitter of a host's monitor; that the host is out is `detector`'s business.
Ports the time arithmetic of `DetectorImpl::checkHostForUneject`, `ejectHost` and `onIntervalTimer` (Envoy,
source/common/upstream/outlier_detection_impl.cc).
"""

from collections.abc import Iterable

from outlier.host_monitor import HostMonitor
from outlier.releases import Behaviour
from outlier.runtime import Settings
from outlier.sources import RandomGenerator


class Backoff:
    """The times of one cluster's ejections and degraded marks, with the settings of the moment they are asked for."""

    __slots__ = ("_behaviour", "_random", "_settings")

    def __init__(self, settings: Settings, behaviour: Behaviour, random: RandomGenerator) -> None:
        self._settings = settings
        self._behaviour = behaviour
        self._random = random

    def ejection_time_ms(self, monitor: HostMonitor) -> int:
        """Return how long the host's present or last ejection has to last; the first sweep at or after that ends it."""
        if not self._behaviour.capped_backoff:
            return self._settings.value("base_ejection_time_ms") * monitor.num_ejections
        return self._capped_ms(monitor.backoff) + monitor.jitter_ms

    def degradation_time_ms(self, monitor: HostMonitor) -> int:
        """Return how long the host's present or last degraded mark has to last."""
        return self._capped_ms(monitor.degrade_backoff) + monitor.jitter_ms

    def _capped_ms(self, multiplier: int) -> int:
        """The cap may be below the base by a runtime override, and then wins."""
        base_ms = self._settings.value("base_ejection_time_ms")
        return min(base_ms * multiplier, self._settings.value("max_ejection_time_ms"))

    def on_ejection(self, monitor: HostMonitor) -> None:
        """Draw the jitter and raise the multiplier of a host that goes out."""
        self._draw_jitter(monitor)
        monitor.backoff = self._raised(monitor.backoff)

    def on_degradation(self, monitor: HostMonitor) -> None:
        """Draw the jitter, which an ejection shares, and raise the degraded mark's multiplier."""
        self._draw_jitter(monitor)
        monitor.degrade_backoff = self._raised(monitor.degrade_backoff)

    def _draw_jitter(self, monitor: HostMonitor) -> None:
        """Draw 0..bound milliseconds; a number is used up even when the bound is 0, as in Envoy."""
        if self._behaviour.jitter:
            bound_ms = self._settings.value("max_ejection_time_jitter_ms")
            monitor.jitter_ms = self._random.random() % (bound_ms + 1)

    def _raised(self, multiplier: int) -> int:
        """One more, until `multiplier * base` reaches `max + base`.

        That may pass `max / base` by one step, as in Envoy: the time stays capped, but recovery takes a sweep longer.
        """
        base_ms = self._settings.value("base_ejection_time_ms")
        max_ms = self._settings.value("max_ejection_time_ms")
        return multiplier + 1 if multiplier * base_ms < max_ms + base_ms else multiplier

    @property
    def decays_before_judging(self) -> bool:
        """Whether `decay_at_once` applies: 1.17 to 1.27."""
        return self._behaviour.capped_backoff and not self._behaviour.decay_needs_full_interval

    def decay_at_once(self, monitor: HostMonitor) -> None:
        """Lower the multiplier of a host that is in when a sweep begins.

        It comes ahead of the sweep's detectors, so a host which only they eject never backs off: a bug until 1.27.
        """
        if monitor.backoff > 0:
            monitor.backoff -= 1

    def decay(self, monitors: Iterable[HostMonitor], now_ms: int) -> None:
        """Lower the multipliers of hosts that have been back for a whole interval, as a sweep ends; since 1.28."""
        if not self._behaviour.decay_needs_full_interval:
            return
        interval_ms = self._settings.value("interval_ms")
        for monitor in monitors:
            if monitor.backoff and not monitor.ejected:
                returned_ms = monitor.last_unejection_ms
                if returned_ms is not None and now_ms - returned_ms >= interval_ms:
                    monitor.backoff -= 1
            if monitor.degrade_backoff and not monitor.degraded:
                returned_ms = monitor.last_undegraded_ms
                if returned_ms is not None and now_ms - returned_ms >= interval_ms:
                    monitor.degrade_backoff -= 1
