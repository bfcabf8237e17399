"""A cluster's shadow: follows its hosts and hears what is reported of them.

Active health checks and runtime overrides are the live detector's alone.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from outlier import ErrorMatcher, HostMonitor
from outlier.reporting import report_connected, report_overflow, report_reset, report_timeout
from proxy.cluster.response_report import report_in_full
from proxy.cluster.shadow_detector import ShadowDetector
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.config.cluster_config import ShadowSettings
from proxy.upstream.host import Host

if TYPE_CHECKING:
    from proxy.cluster.cluster import Cluster
    from proxy.cluster.environment import Environment


class Shadow:
    """The detector on trial beside one cluster."""

    def __init__(self, settings: ShadowSettings, cluster: "Cluster", environment: "Environment") -> None:
        self.settings = settings
        self.trial = ShadowDetector(
            settings.detection,
            settings.panic_threshold,
            cluster_name=cluster.name,
            time_source=environment.time_source,
            random=environment.random,
            release=environment.release,
            on_event=environment.on_shadow_event,
        )
        self._error_matcher = ErrorMatcher.for_statuses(settings.error_codes) if settings.error_codes else None
        self._cluster = cluster
        self._now_ms: Callable[[], int] = environment.time_source.monotonic_ms
        self._monitors: dict[Host, HostMonitor] = {}
        self._driver = environment.drive_sweeps(self.trial.detector, environment.loop)
        cluster.priority_set.add_listener(self._on_hosts)
        self._on_hosts(0)

    def close(self) -> None:
        """Hear no more."""
        self._cluster.priority_set.remove_listener(self._on_hosts)
        self._driver.stop()
        self.trial.detector.close()
        for host in self._monitors:
            host.shadow = None

    # What the router tells of an attempt; the same events as it tells the live monitor.

    def connected(self, host: Host) -> None:
        """A connection is ready."""
        monitor = self._monitors[host]
        if not self.trial.misses(monitor, self._now_ms()):
            report_connected(monitor)

    def responded(self, host: Host, request: RequestHead, head: ResponseHead) -> None:
        """The response head is there; the shadow's own error codes count."""
        matcher = self._error_matcher
        failed = head.status >= 500 if matcher is None else matcher.matches(head.status, lambda _name: None)
        if monitor := self._reported(host, failed=failed):
            report_in_full(monitor, request, head, matcher)

    def reset(self, host: Host) -> None:
        """The attempt failed below HTTP."""
        if monitor := self._reported(host, failed=True):
            report_reset(monitor)

    def timed_out(self, host: Host, *, responding: bool) -> None:
        """Its time is over."""
        if monitor := self._reported(host, failed=True):
            report_timeout(monitor, responding=responding)

    def overflowed(self, host: Host) -> None:
        """A circuit breaker refused it."""
        report_overflow(self._monitors[host])

    def _reported(self, host: Host, *, failed: bool) -> HostMonitor | None:
        """Return the host's monitor, or count the attempt and return None when it would not have been made."""
        monitor = self._monitors[host]
        if self.trial.misses(monitor, self._now_ms()):
            self.trial.count_miss(failed=failed)
            return None
        return monitor

    def _on_hosts(self, _priority: int) -> None:
        """Follow the membership; hosts that stay keep what the trial knows of them."""
        hosts = self._cluster.hosts
        if len(hosts) == len(self._monitors) and all(host in self._monitors for host in hosts):
            return
        present = set(hosts)
        for host in [host for host in self._monitors if host not in present]:
            self.trial.detector.remove_host(self._monitors.pop(host))
            host.shadow = None
        for host in hosts:
            if host not in self._monitors:
                self._monitors[host] = self.trial.detector.add_host(host.address)
                host.shadow = self
        self.trial.refresh()


def follow_shadow(shadow: Shadow | None, cluster: "Cluster", environment: "Environment") -> Shadow | None:
    """Return the shadow that the cluster's configuration asks for: the present one, another, or none."""
    settings = cluster.config.shadow
    if shadow is not None and shadow.settings == settings:
        return shadow
    if shadow is not None:
        shadow.close()
    return None if settings is None else Shadow(settings, cluster, environment)
