"""The active health checks of one cluster: a probe, a session and a timer for each host.

What a result means belongs to `health_checker_session`, what the cluster does about it to its callback.
Ports `HealthCheckerImplBase` (Envoy, source/extensions/health_checkers/common/health_checker_base_impl.cc).
"""

import asyncio
from collections.abc import Callable

import attrs

from outlier.sources import RandomGenerator, TimeSource
from proxy.config.health_check import HealthCheck, HttpHealthCheck
from proxy.upstream.connecting import Connect, connect
from proxy.upstream.health_checker_events import HealthCheckEvent
from proxy.upstream.health_checker_http import HttpProbe
from proxy.upstream.health_checker_probe import CheckResult, Probe, Report
from proxy.upstream.health_checker_session import Failure, HealthCheckSession, HealthCheckStats, Incident, Transition
from proxy.upstream.health_checker_tcp import TcpProbe
from proxy.upstream.host import HealthFlag, Host


@attrs.frozen
class Checked:
    """One result, taken.

    Attributes:
        host: Of whom.
        passed: Whether the check passed; bad news from elsewhere did not.
        changed: Whether the lists of the host's priority have to be made anew.
        recovered: Whether the host is back, having failed checks or never had one.
    """

    host: Host
    passed: bool
    changed: bool
    recovered: bool


MakeProbe = Callable[[Host, HealthCheck, str, asyncio.AbstractEventLoop, Report, Connect], Probe]


def make_probe(
    host: Host,
    settings: HealthCheck,
    cluster_name: str,
    loop: asyncio.AbstractEventLoop,
    report: Report,
    connect: Connect,
) -> Probe:
    """Return the probe of the protocol that `settings` ask for."""
    check, reuse_connection = settings.check, settings.reuse_connection
    if isinstance(check, HttpHealthCheck):
        return HttpProbe(
            host,
            check,
            authority=cluster_name,
            reuse_connection=reuse_connection,
            loop=loop,
            report=report,
            connect=connect,
        )
    return TcpProbe(host, check, reuse_connection=reuse_connection, loop=loop, report=report, connect=connect)


class HealthChecker:
    """Checks every host of a cluster, each in its own rhythm, from `add_host` to `remove_host`.

    Args:
        settings: The health check.
        cluster_name: For events, and the authority of HTTP checks that name none.
        loop: Runs the timers.
        time_source: Wall clock of the events.
        random: Draws jitter.
        has_traffic: Whether the cluster has had a connection; until it has, checks are rarer.
        on_check: Takes each result.
        on_event: Takes each event.
        connect: Opens the connections.
        make_probe: Makes what asks one host.

    Attributes:
        stats: Envoy's statistics of the checker.
    """

    def __init__(
        self,
        settings: HealthCheck,
        *,
        cluster_name: str,
        loop: asyncio.AbstractEventLoop,
        time_source: TimeSource,
        random: RandomGenerator,
        has_traffic: Callable[[], bool],
        on_check: Callable[[Checked], None],
        on_event: Callable[[HealthCheckEvent], None],
        connect: Connect = connect,
        make_probe: MakeProbe = make_probe,
    ) -> None:
        self.settings = settings
        self.cluster_name = cluster_name
        self.loop = loop
        self.random = random
        self.stats = HealthCheckStats()
        self.on_check = on_check
        self.connect = connect
        self.make_probe = make_probe
        self._time_source = time_source
        self._has_traffic = has_traffic
        self._had_traffic = False
        self._on_event = on_event
        self._checks: dict[Host, _HostCheck] = {}
        self._unchecked: set[Host] = set()
        self._all_checked = asyncio.Event()

    def add_host(self, host: Host) -> None:
        """Check a host from now on; it is marked as failed until a check has passed."""
        check = self._checks[host] = _HostCheck(self, host)
        self._unchecked.add(host)
        self._all_checked.clear()
        check.start()

    def remove_host(self, host: Host) -> None:
        """Check a host no more; nothing happens if it is not checked."""
        check = self._checks.pop(host, None)
        if check is not None:
            check.end()
            self.note_first_check(host)

    def close(self) -> None:
        """Check nobody any more; the hosts keep their flags."""
        for host in tuple(self._checks):
            self.remove_host(host)

    def set_unhealthy(self, host: Host) -> None:
        """Take a host out because its answer to a request says so (`x-envoy-immediate-health-check-fail`)."""
        check = self._checks.get(host)
        if check is not None:
            host.set_flag(HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL)
            check.take(CheckResult(Failure.PASSIVE))

    @property
    def all_checked(self) -> bool:
        """Whether each host has had a result."""
        return not self._unchecked

    async def wait_all_checked(self) -> None:
        """Return once each host has had a result."""
        if self._unchecked:
            await self._all_checked.wait()

    # Called by the checks of single hosts

    @property
    def traffic(self) -> bool:
        """Whether the cluster has ever had a connection, counters that were set back notwithstanding."""
        self._had_traffic = self._had_traffic or self._has_traffic()
        return self._had_traffic

    def note_first_check(self, host: Host) -> None:
        """A host has had its first result, or gets none any more."""
        self._unchecked.discard(host)
        if not self._unchecked:
            self._all_checked.set()

    def tell(self, host: Host, incident: Incident) -> None:
        """Make an event of an incident."""
        self._on_event(
            HealthCheckEvent(
                checker_type="HTTP" if isinstance(self.settings.check, HttpHealthCheck) else "TCP",
                address=host.address,
                locality=host.locality,
                cluster_name=self.cluster_name,
                system_ms=self._time_source.system_ms(),
                incident=incident,
            )
        )


class _HostCheck:
    """One host's checks: either one is under way, and the timer ends it, or the timer begins the next."""

    def __init__(self, checker: HealthChecker, host: Host) -> None:
        self._checker = checker
        self.session = HealthCheckSession(
            host,
            checker.settings,
            checker.stats,
            checker.random,
            lambda incident: checker.tell(host, incident),
        )
        self._probe = checker.make_probe(
            host, checker.settings, checker.cluster_name, checker.loop, self._finish, checker.connect
        )
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def start(self) -> None:
        """Begin the first check, at once if there is no jitter."""
        delay_ms = self.session.initial_delay_ms()
        if delay_ms:
            self._arm(delay_ms, self._begin)
        else:
            self._begin()

    def end(self) -> None:
        """Stop at once."""
        self._ended = True
        self._disarm()
        self._probe.abandon()
        self.session.end()

    def take(self, result: CheckResult) -> Transition:
        """Take a result and tell the cluster."""
        session, checker = self.session, self._checker
        host, first = session.host, session.first_check
        was_failed = host.has_flag(HealthFlag.FAILED_ACTIVE_HC)
        if result.failure is None:
            transition = session.on_success(degraded=result.degraded)
        else:
            transition = session.on_failure(result.failure, retriable=result.retriable, status=result.status)
        checker.on_check(
            Checked(
                host,
                passed=result.failure is None,
                # Envoy rebuilds all lists after the first round of checks.
                changed=first or transition is Transition.CHANGED,
                recovered=was_failed and not host.has_flag(HealthFlag.FAILED_ACTIVE_HC),
            )
        )
        if first:
            checker.note_first_check(host)
        return transition

    def _begin(self) -> None:
        checker = self._checker
        self._arm(checker.settings.timeout_ms, self._on_timeout)
        checker.stats.attempt += 1
        self._probe.start()

    def _on_timeout(self) -> None:
        self._probe.abandon()
        self._finish(CheckResult(Failure.NETWORK_TIMEOUT))

    def _finish(self, result: CheckResult) -> None:
        """Take the result of a check, and wait for the next."""
        self._disarm()
        transition = self.take(result)
        if not self._ended:
            passed = result.failure is None
            delay_ms = self.session.interval_ms(transition, passed=passed, traffic=self._checker.traffic)
            self._arm(delay_ms, self._begin)

    def _arm(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._timer = self._checker.loop.call_later(delay_ms / 1000, callback)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
