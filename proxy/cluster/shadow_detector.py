"""A detector that ejects nobody: what it would have done, and what that would have changed.

A request to a host that is ejected here would have gone elsewhere, so its result is not reported: an ejected host is
silent, as it would have been. What would have become of the request elsewhere is not known; it is counted by how it
ended: *saved* if it failed, *diverted* if it succeeded and another host would have had to carry it, *lost* if it
succeeded and no host would have been left. In panic ejected hosts get requests all the same.
"""

from collections.abc import Callable

import attrs

from outlier import (
    Detection,
    Detector,
    EjectionEvent,
    EnvoyRelease,
    HostMonitor,
    OutlierDetection,
    RandomGenerator,
    TimeSource,
)
from outlier.traffic import Availability, availability


@attrs.define(kw_only=True)
class ShadowCounts:
    """What a rule would have changed; `most_ejected` is the most hosts that were out at the same moment."""

    saved: int = 0
    diverted: int = 0
    lost: int = 0
    ejections: int = 0
    most_ejected: int = 0


class ShadowDetector:
    """A cluster's detector on trial.

    Args:
        detection: Its settings.
        panic_threshold: In percent, 0-100.
        cluster_name: For events.
        time_source: Its clock.
        random: For enforcement and jitter.
        release: Whose detection.
        on_event: Called with each event; none of them has happened.
        on_detection: Called for each outlier found, those that the cap saves included.

    Whoever reports asks `misses` first.
    """

    def __init__(
        self,
        detection: OutlierDetection,
        panic_threshold: float,
        *,
        cluster_name: str,
        time_source: TimeSource,
        random: RandomGenerator,
        release: EnvoyRelease,
        on_event: Callable[[EjectionEvent], None],
        on_detection: Callable[[HostMonitor, Detection], None] | None = None,
    ) -> None:
        self.counts = ShadowCounts()
        self._panic_threshold = panic_threshold
        self._on_event = on_event
        self.detector = Detector(
            detection,
            cluster_name=cluster_name,
            time_source=time_source,
            random=random,
            release=release,
            on_change=lambda _monitor: self.refresh(),
            on_event=self._count_event,
            on_detection=on_detection,
        )
        self._available: Availability = availability((), 0)

    def refresh(self) -> None:
        """Take note of who is there and who is out; to be called after a change of the membership."""
        hosts = self.detector.hosts
        self._available = availability(hosts, self._panic_threshold)
        self.counts.most_ejected = max(self.counts.most_ejected, sum(monitor.ejected for monitor in hosts))

    def misses(self, monitor: HostMonitor, start_ms: int) -> bool:
        """Whether a request that began at `start_ms` would not have been sent to this host."""
        if not monitor.ejected or self._available.panic:
            return False
        assert monitor.last_ejection_ms is not None
        return monitor.last_ejection_ms <= start_ms

    def count_miss(self, *, failed: bool) -> None:
        """Count a request that would not have been sent where it was."""
        if failed:
            self.counts.saved += 1
        elif self._available.healthy or self._available.degraded:
            self.counts.diverted += 1
        else:
            self.counts.lost += 1

    def _count_event(self, event: EjectionEvent) -> None:
        if event.detection is not None:
            if event.detection.enforcement is not None and event.detection.enforcement.percent == 0:
                return  # a detector that is switched off; Envoy logs what it finds all the same
            self.counts.ejections += event.enforced
        self._on_event(event)
