"""What detectors under new rules would have done with the traffic of a log.

One detector on trial a cluster (`proxy.cluster.shadow_detector` says what it counts), in the time that the log tells.
"""

from collections.abc import Callable, Iterable, Mapping

import attrs

from outlier import (
    Detection,
    EjectionEvent,
    EnvoyRelease,
    HostMonitor,
    Outcome,
    SeededRandom,
    SimulatedTime,
    describe_detection,
    describe_unejection,
)
from proxy.cluster.shadow_detector import ShadowCounts, ShadowDetector
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


@attrs.define
class RequestCounts:
    """Requests in the log, and those of them with an error that is not the client's."""

    requests: int = 0
    failed: int = 0


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
        self._counts: dict[str, RequestCounts] = {name: RequestCounts() for name in hosts}
        self._running = {
            name: _RunningCluster(name, cluster, hosts[name], self._time, tell, release, seed)
            for name, cluster in clusters.items()
            if cluster.detection is not None
        }
        self._find_due()

    def outcome(self, name: str) -> tuple[RequestCounts, ShadowCounts | None]:
        """Return the requests of a cluster, and what the rules would have changed; None without detection."""
        cluster = self._running.get(name)
        return self._counts[name], None if cluster is None else cluster.trial.counts

    def request(self, request: LoggedRequest) -> None:
        """Take the next line of the log; a line that is older than the one before counts as of the same moment."""
        if request.end_ms > self._now_ms:
            if request.end_ms >= self._due_ms:
                self._sweep(request.end_ms)
            self._now_ms = request.end_ms
            self._time.set_ms(request.end_ms)
        counts = self._counts[request.cluster]
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
    """One cluster: its detector on trial, and its hosts."""

    def __init__(
        self,
        name: str,
        cluster: ReplayedCluster,
        hosts: Iterable[str],
        time: SimulatedTime,
        tell: Callable[[ReplayMoment], None],
        release: EnvoyRelease,
        seed: int,
    ) -> None:
        assert cluster.detection is not None
        self._name = name
        self._error_codes = cluster.error_codes
        self._time = time
        self._tell = tell
        self.trial = ShadowDetector(
            cluster.detection,
            cluster.panic_threshold,
            cluster_name=name,
            time_source=time,
            random=SeededRandom(seed),
            release=release,
            on_event=self._on_event,
            on_detection=self._on_detection,
        )
        self.detector = self.trial.detector
        self._monitors = {host: self.detector.add_host(host) for host in dict.fromkeys([*cluster.hosts, *hosts])}
        self.trial.refresh()

    def request(self, request: LoggedRequest, *, failed: bool) -> None:
        assert request.host is not None
        monitor = self._monitors[request.host]
        if monitor.ejected and self.trial.misses(monitor, request.start_ms):
            self.trial.count_miss(failed=failed)
        else:
            request.report(monitor, self._error_codes)

    def _on_detection(self, monitor: HostMonitor, detection: Detection) -> None:
        if detection.outcome is Outcome.OVERFLOW:  # the one outcome without an event
            self._say(monitor, "not ejected", describe_detection(detection))

    def _on_event(self, event: EjectionEvent) -> None:
        if event.detection is not None:
            what = "ejected" if event.enforced else "not ejected"
            self._say(event.monitor, what, describe_detection(event.detection))
        elif event.unejection is not None:
            self._say(event.monitor, "unejected", describe_unejection(event.unejection))

    def _say(self, monitor: HostMonitor, what: str, reason: str) -> None:
        self._tell(ReplayMoment(self._time.monotonic_ms(), self._name, monitor.address, what, reason))
