"""What detectors under new rules would have done with the traffic of a log, and what that would have changed.

A request to a host that is ejected here would have gone elsewhere, so its result is not reported: an ejected host is
silent, as it would have been. What would have become of the request elsewhere is not known; it is counted by how it
ended here:

saved: it failed; diverted: it succeeded, and another host would have had to carry it; lost: it succeeded, and no host
would have been left. In panic ejected hosts get requests all the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from outlier import (
    Detection,
    Detector,
    EjectionEvent,
    EnvoyRelease,
    HostMonitor,
    Outcome,
    SeededRandom,
    SimulatedTime,
    describe_detection,
    describe_unejection,
)
from outlier.traffic import Availability, availability
from proxy.replay_log import LoggedRequest
from proxy.replay_rules import ReplayedCluster


@attrs.frozen
class ReplayMoment:
    """One line of the timeline: `at_ms` since the epoch, `what` happened to the host, and why."""

    at_ms: int
    cluster: str
    host: str
    what: str
    reason: str


@attrs.define(kw_only=True)
class ReplayCounts:
    """What the rules would have changed for a cluster; requests.

    Attributes:
        requests: In the log.
        failed: Of these, with an error that is not the client's.
        saved: Failed on a host that would have been ejected.
        diverted: Succeeded on a host that would have been ejected.
        lost: Succeeded, while no host would have been left.
        ejections: Enforced ones.
        most_ejected: Hosts out at the same moment, at most.
    """

    requests: int = 0
    failed: int = 0
    saved: int = 0
    diverted: int = 0
    lost: int = 0
    ejections: int = 0
    most_ejected: int = 0


class Replay:
    """Feeds requests to one detector a cluster.

    Args:
        clusters: What each cluster runs; requests of others are counted only.
        hosts: The hosts of each cluster in the log.
        start_ms: Time of the first request, since the epoch.
        tell: Called with each moment, in order of time.
        release: Whose detection.
        seed: Of its chance.
    """

    def __init__(
        self,
        clusters: Mapping[str, ReplayedCluster],
        hosts: Mapping[str, Iterable[str]],
        *,
        start_ms: int,
        tell: Callable[[ReplayMoment], None],
        release: EnvoyRelease = EnvoyRelease.V1_40,
        seed: int = 1,
    ) -> None:
        self._time = SimulatedTime(start_ms)
        self._now_ms = start_ms
        self.counts: dict[str, ReplayCounts] = {name: ReplayCounts() for name in hosts}
        self._running = {
            name: _RunningCluster(name, cluster, hosts[name], self._time, self.counts[name], tell, release, seed)
            for name, cluster in clusters.items()
            if cluster.detection is not None
        }
        self._find_due()

    @property
    def detected(self) -> Sequence[str]:
        """The clusters that have outlier detection under the rules."""
        return list(self._running)

    def request(self, request: LoggedRequest) -> None:
        """Take the next line of the log; a line that is older than the one before counts as of the same moment."""
        if request.end_ms > self._now_ms:
            if request.end_ms >= self._due_ms:
                self._sweep(request.end_ms)
            self._now_ms = request.end_ms
            self._time.set_ms(request.end_ms)
        counts = self.counts[request.cluster]
        counts.requests += 1
        failed = request.failed
        if failed:
            counts.failed += 1
        cluster = self._running.get(request.cluster)
        if cluster is not None and request.host is not None:
            cluster.request(request, failed=failed)

    def _sweep(self, until_ms: int) -> None:
        while self._due_ms <= until_ms:
            self._time.set_ms(self._due.detector.next_sweep_ms)
            self._due.detector.on_interval_timer()
            self._find_due()

    def _find_due(self) -> None:
        if self._running:
            self._due = min(self._running.values(), key=lambda cluster: cluster.detector.next_sweep_ms)
            self._due_ms: float = self._due.detector.next_sweep_ms
        else:
            self._due_ms = float("inf")


class _RunningCluster:
    """One cluster: its detector, and whom its balancer could choose."""

    def __init__(
        self,
        name: str,
        cluster: ReplayedCluster,
        hosts: Iterable[str],
        time: SimulatedTime,
        counts: ReplayCounts,
        tell: Callable[[ReplayMoment], None],
        release: EnvoyRelease,
        seed: int,
    ) -> None:
        assert cluster.detection is not None
        self._name = name
        self._cluster = cluster
        self._time = time
        self._counts = counts
        self._tell = tell
        self.detector = Detector(
            cluster.detection,
            cluster_name=name,
            time_source=time,
            random=SeededRandom(seed),
            release=release,
            on_change=self._on_change,
            on_event=self._on_event,
            on_detection=self._on_detection,
        )
        self._monitors = {host: self.detector.add_host(host) for host in dict.fromkeys([*cluster.hosts, *hosts])}
        self._available = self._availability()

    def request(self, request: LoggedRequest, *, failed: bool) -> None:
        assert request.host is not None
        monitor = self._monitors[request.host]
        if monitor.ejected and self._would_miss(monitor, request.start_ms):
            if failed:
                self._counts.saved += 1
            elif self._available.healthy or self._available.degraded:
                self._counts.diverted += 1
            else:
                self._counts.lost += 1
            return
        request.report(monitor, self._cluster.error_codes)

    def _would_miss(self, monitor: HostMonitor, start_ms: int) -> bool:
        """Whether the balancer would not have chosen this ejected host; it may have chosen it before the ejection."""
        assert monitor.last_ejection_ms is not None
        return monitor.last_ejection_ms <= start_ms and not self._available.panic

    def _availability(self) -> Availability:
        return availability(self.detector.hosts, int(self._cluster.panic_threshold))

    def _on_change(self, _monitor: HostMonitor) -> None:
        self._available = self._availability()
        ejected = sum(monitor.ejected for monitor in self.detector.hosts)
        self._counts.most_ejected = max(self._counts.most_ejected, ejected)

    def _on_detection(self, monitor: HostMonitor, detection: Detection) -> None:
        if detection.outcome is Outcome.OVERFLOW:  # the one outcome without an event
            self._say(monitor, "not ejected", describe_detection(detection))

    def _on_event(self, event: EjectionEvent) -> None:
        if event.detection is not None:
            if event.enforced:
                self._counts.ejections += 1
            self._say(
                event.monitor, "ejected" if event.enforced else "not ejected", describe_detection(event.detection)
            )
        elif event.unejection is not None:
            self._say(event.monitor, "unejected", describe_unejection(event.unejection))

    def _say(self, monitor: HostMonitor, what: str, reason: str) -> None:
        self._tell(ReplayMoment(self._time.monotonic_ms(), self._name, monitor.address, what, reason))
