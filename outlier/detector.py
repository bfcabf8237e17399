"""One cluster's outlier detector: who is ejected, for how long, and who comes back.

It holds the membership and takes all decisions, at once and in the caller's thread. It owns no timer: its driver calls
`on_interval_timer` every `interval_ms`. It does not log: each decision leaves as an `EjectionEvent`.
Over 400 lines, as every decision needs the same counters, members and clock: halves would pass them back and forth.
Ports `DetectorImpl` (Envoy, source/common/upstream/outlier_detection_impl.cc); the methods keep its names.
"""

from collections.abc import Callable

from outlier.backoff import Backoff
from outlier.config import OutlierDetection
from outlier.detection import (
    ConsecutiveEvidence,
    Detection,
    Evidence,
    Outcome,
    Unejection,
    UnejectionCause,
)
from outlier.ejection import (
    EJECTION_RULES,
    EjectionType,
    LimitCheck,
    Origin,
    check_limit,
)
from outlier.events import EjectionEvent, EventLog
from outlier.host_monitor import HostMonitor
from outlier.releases import Behaviour, EnvoyRelease
from outlier.runtime import Runtime, Settings
from outlier.sources import RandomGenerator, TimeSource
from outlier.stats import OutlierStats
from outlier.success_rate import EjectionThreshold, judge_interval
from outlier.verdict import Verdict, verdict


def _run_now(task: Callable[[], None]) -> None:
    task()


class Detector:
    """Outlier detection over the hosts of one cluster, all priorities together.

    Args:
        config: The settings.
        cluster_name: For events.
        time_source: Read once per decision.
        random: For enforcement chances and jitter.
        release: Whose rules apply: an Envoy release, or switches mixed by hand.
        runtime: Overrides; read when a value is needed.
        active_health_checker: Whether the cluster has one; without it `on_active_health_check` does nothing.
        on_event: Called for each line of the event log.
        on_detection: Called for each outlier found, those that the limit saves included, before its event.
        on_change: Called whenever `ejected` or `degraded` of a host was set or cleared; for an ejection before its
            event, for a degraded mark after it, as in Envoy.
        post: How a run of failures that met its threshold is handed over. Envoy posts it to the main thread; here it
            runs at once unless the caller has several threads.

    A callback may add and remove hosts.

    Attributes:
        behaviour: The release's switches.
        settings: The configuration with the runtime overrides.
        backoff: How long hosts stay out.
        stats: The statistics, by Envoy's names.
    """

    def __init__(
        self,
        config: OutlierDetection,
        *,
        cluster_name: str,
        time_source: TimeSource,
        random: RandomGenerator,
        release: EnvoyRelease | Behaviour = EnvoyRelease.V1_40,
        runtime: Runtime | None = None,
        active_health_checker: bool = False,
        on_event: Callable[[EjectionEvent], None] | None = None,
        on_detection: Callable[[HostMonitor, Detection], None] | None = None,
        on_change: Callable[[HostMonitor], None] | None = None,
        post: Callable[[Callable[[], None]], None] = _run_now,
    ) -> None:
        self.config = config
        self.cluster_name = cluster_name
        self.behaviour = release.behaviour if isinstance(release, EnvoyRelease) else release
        self.settings = Settings(config, runtime if runtime is not None else Runtime(), random)
        self.backoff = Backoff(self.settings, self.behaviour, random)
        self._time_source = time_source
        self._active_health_checker = active_health_checker
        self._event_log = EventLog(cluster_name, time_source, self.behaviour.event_log_format, on_event)
        self._on_detection = on_detection
        self._on_change = on_change
        self._post = post
        self.stats = OutlierStats.of(self.behaviour)
        self._hosts: dict[HostMonitor, None] = {}
        self._ejections_active = 0
        self._thresholds: dict[Origin, EjectionThreshold | None] = dict.fromkeys(Origin)
        self._arm_timer(time_source.monotonic_ms())

    def __repr__(self) -> str:
        return f"Detector({self.cluster_name}, {len(self._hosts)} hosts, {self._ejections_active} ejected)"

    # Membership

    @property
    def hosts(self) -> tuple[HostMonitor, ...]:
        """The members, in order of arrival."""
        return tuple(self._hosts)

    def __contains__(self, monitor: object) -> bool:
        return monitor in self._hosts

    def add_host(self, address: str) -> HostMonitor:
        """Add a member and return its monitor; the monitor's identity is the host's, so an address may come again."""
        monitor = HostMonitor(address, self.settings, self.behaviour, self._report)
        self._hosts[monitor] = None
        return monitor

    def remove_host(self, monitor: HostMonitor) -> None:
        """Drop a member; if it was ejected it stops counting at once, without an event. Unknown hosts are ignored."""
        if monitor not in self._hosts:
            return
        del self._hosts[monitor]
        monitor.detach()
        if monitor.ejected:
            self._count_active(-1)

    def close(self) -> None:
        """End detection: the gauge drops by the ejected hosts, later reports are counted and lead to nothing."""
        for monitor in self._hosts:
            monitor.detach()
            if monitor.ejected:
                self._count_active(-1)
        self._hosts.clear()

    # Settings

    def update_config(self, config: OutlierDetection) -> None:
        """Take new settings; every host keeps its ejection, its multiplier, its counters and its rates.

        The running period ends when it was to end, as after a runtime override. A run of failures that has reached a
        lowered threshold meets it with the next failure. Envoy would build a new cluster, and forget everything.
        """
        self.config = self.settings.config = config
        if not self.splits_local_origin:
            self._thresholds[Origin.LOCAL] = None
        for monitor in self._hosts:
            monitor.on_config_update()

    # Cluster-wide figures

    @property
    def interval_ms(self) -> int:
        """The period to arm the sweep timer with next."""
        return self.settings.value("interval_ms")

    @property
    def splits_local_origin(self) -> bool:
        """Whether local-origin results are kept apart: the release can, and the configuration says so."""
        return self.behaviour.split_local_origin and self.config.split_external_local_origin_errors

    @property
    def next_sweep_ms(self) -> int:
        """Monotonic time at which the running period ends."""
        return self._next_sweep_ms

    def verdict(self, monitor: HostMonitor, *, panic: bool | None = None) -> Verdict:
        """Return why the host is, or is not, ejected now.

        Args:
            monitor: The host, also one that was removed.
            panic: Whether the load balancer ignores health in the host's priority, if known.
        """
        return verdict(self, monitor, at_ms=self._time_source.monotonic_ms(), panic=panic)

    def threshold(self, origin: Origin) -> EjectionThreshold | None:
        """Return what the last sweep computed of the success rates; None when too few hosts had enough volume."""
        return self._thresholds[origin]

    @property
    def success_rate_average(self) -> float:
        """Mean external-origin success rate of the last interval, -1 when none was computed."""
        return self._shown(Origin.EXTERNAL)[0]

    @property
    def success_rate_ejection_threshold(self) -> float:
        """External-origin success rate below which the last sweep ejected, -1 when none was computed."""
        return self._shown(Origin.EXTERNAL)[1]

    @property
    def local_origin_success_rate_average(self) -> float:
        """Mean local-origin success rate of the last interval, -1 when none was computed."""
        return self._shown(Origin.LOCAL)[0]

    @property
    def local_origin_success_rate_ejection_threshold(self) -> float:
        """Local-origin success rate below which the last sweep ejected, -1 when none was computed."""
        return self._shown(Origin.LOCAL)[1]

    def _shown(self, origin: Origin) -> tuple[float, float]:
        found = self._thresholds[origin]
        return (found.average, found.threshold) if found else (-1.0, -1.0)

    # Runs of failures

    def _report(self, monitor: HostMonitor, ejection_type: EjectionType) -> None:
        self._post(lambda: self._on_failure(monitor, ejection_type))

    def _on_failure(self, monitor: HostMonitor, ejection_type: EjectionType) -> None:
        """Take over a report from a host (`onConsecutiveErrorWorker`, `setHostDegradedMainThread`)."""
        if monitor not in self._hosts:
            return
        if ejection_type is EjectionType.DEGRADED:
            self._degrade_host(monitor)
        elif not monitor.ejected:
            self._on_consecutive_failure(monitor, ejection_type)

    def _on_consecutive_failure(self, monitor: HostMonitor, ejection_type: EjectionType) -> None:
        rule = EJECTION_RULES[ejection_type]
        assert rule.run is not None
        self._count_detected(ejection_type)
        evidence = ConsecutiveEvidence(getattr(monitor, rule.run), self.settings.value(rule.threshold))
        self._eject_host(monitor, ejection_type, evidence, self._time_source.monotonic_ms())
        setattr(monitor, rule.run, 0)  # whatever became of it, the run starts afresh

    def _count_detected(self, ejection_type: EjectionType) -> None:
        rule = EJECTION_RULES[ejection_type]
        self.stats.increment(rule.detected)
        if rule.deprecated is not None:
            self.stats.increment(rule.deprecated)

    # Ejection

    def limit(self) -> LimitCheck | None:
        """Return whether one more host may be ejected now; None without hosts."""
        if not self._hosts:
            return None
        return check_limit(
            self.behaviour,
            hosts=len(self._hosts),
            ejected=self.stats.ejections_active if self.behaviour.limit_reads_gauge else self._ejections_active,
            max_percent=self.settings.max_ejection_percent(),
            always_eject_one_host=self.config.always_eject_one_host,
        )

    def _eject_host(self, monitor: HostMonitor, ejection_type: EjectionType, evidence: Evidence, now_ms: int) -> None:
        """Eject a host if the limit and the enforcement chance allow it (`ejectHost`).

        A host that is out already is ejected once more when a second detector of the same sweep finds it: kept from
        Envoy, where the gauge then stays one too high for good.
        """
        limit = self.limit()
        assert limit is not None
        if not limit.allowed:
            self.stats.ejections_overflow += 1
            self._note(monitor, Detection(ejection_type, now_ms, Outcome.OVERFLOW, evidence, limit))
            return
        rule = EJECTION_RULES[ejection_type]
        if rule.in_total:
            self.stats.ejections_total += 1
        enforcement = self.settings.enforce(rule.enforcing)
        if not enforcement.enforced:
            detection = Detection(ejection_type, now_ms, Outcome.NOT_ENFORCED, evidence, limit, enforcement)
            self._note(monitor, detection)
            self._event_log.log_eject(monitor, detection)
            return
        self._count_active(+1)
        self.stats.ejections_enforced_total += 1
        self.stats.increment(rule.enforced)
        monitor.ejected = True
        monitor.num_ejections += 1
        monitor.last_ejection_ms = now_ms
        self.backoff.on_ejection(monitor)
        detection = Detection(
            ejection_type, now_ms, Outcome.EJECTED, evidence, limit, enforcement, self.backoff.ejection_time_ms(monitor)
        )
        monitor.last_ejection = detection
        self._note(monitor, detection)
        self._changed(monitor)
        self._event_log.log_eject(monitor, detection)

    def _uneject_host(self, monitor: HostMonitor, cause: UnejectionCause, now_ms: int) -> None:
        """Bring a host back (`unejectHost`); its multiplier and its interval's results stay."""
        ejection = monitor.last_ejection
        assert ejection is not None
        self._count_active(-1)
        monitor.ejected = False
        monitor.reset_consecutive()
        monitor.last_unejection_ms = now_ms
        self._changed(monitor)
        unejection = Unejection(
            ejection.type, now_ms, cause, now_ms - ejection.at_ms, self.backoff.ejection_time_ms(monitor)
        )
        self._event_log.log_uneject(monitor, unejection)

    def _count_active(self, change: int) -> None:
        self._ejections_active += change
        self.stats.ejections_active += change

    # Degraded hosts

    def _degrade_host(self, monitor: HostMonitor) -> None:
        """Mark a host degraded (`setHostDegradedMainThread`): no limit, no chance; the log precedes the callback."""
        if not self._detects_degraded or monitor.degraded:
            return
        now_ms = self._time_source.monotonic_ms()
        self.stats.ejections_detected_degradation += 1
        monitor.degraded = True
        monitor.num_degradations += 1
        monitor.last_degraded_ms = now_ms
        self.backoff.on_degradation(monitor)
        detection = Detection(
            EjectionType.DEGRADED, now_ms, Outcome.DEGRADED, ejection_time_ms=self.backoff.degradation_time_ms(monitor)
        )
        self._note(monitor, detection)
        self._event_log.log_eject(monitor, detection)
        self._changed(monitor)

    def _undegrade_host(self, monitor: HostMonitor, now_ms: int) -> None:
        assert monitor.last_degraded_ms is not None
        monitor.degraded = False
        monitor.last_undegraded_ms = now_ms
        unejection = Unejection(
            EjectionType.DEGRADED,
            now_ms,
            UnejectionCause.TIME,
            now_ms - monitor.last_degraded_ms,
            self.backoff.degradation_time_ms(monitor),
        )
        self._event_log.log_uneject(monitor, unejection)
        self._changed(monitor)

    @property
    def _detects_degraded(self) -> bool:
        return self.behaviour.degraded_hosts and self.config.detect_degraded_hosts

    # Active health checks

    def on_active_health_check(self, monitor: HostMonitor, *, healthy: bool, failed_active_hc: bool) -> None:
        """Take note of one finished active check; it may bring an ejected host back at once.

        Args:
            monitor: The host checked.
            healthy: Whether this check passed.
            failed_active_hc: Whether the host still carries FAILED_ACTIVE_HC.
        """
        behaviour = self.behaviour
        if not (self._active_health_checker and behaviour.active_hc_unejects) or monitor not in self._hosts:
            return
        if behaviour.active_hc_uneject_configurable and not self.config.successful_active_health_check_uneject_host:
            return
        if behaviour.active_hc_must_be_healthy and not healthy:
            return
        if monitor.ejected and not failed_active_hc:
            self._uneject_host(monitor, UnejectionCause.ACTIVE_HEALTH_CHECK, self._time_source.monotonic_ms())

    # The sweep

    def on_interval_timer(self) -> None:
        """Sweep: bring hosts back, end the interval, judge its rates, lower multipliers (`onIntervalTimer`).

        The order is Envoy's, and observable: a host that returns in this sweep is judged by it.
        """
        now_ms = self._time_source.monotonic_ms()
        self._return_hosts(now_ms)
        self._end_interval()
        for origin in Origin if self.splits_local_origin else (Origin.EXTERNAL,):
            self._process_success_rate_ejections(origin, now_ms)
        self.backoff.decay(self._hosts, now_ms)
        self._arm_timer(now_ms)

    def _return_hosts(self, now_ms: int) -> None:
        """Uneject whoever has been out long enough (`checkHostForUneject`), and end degraded marks."""
        decays = self.backoff.decays_before_judging
        for monitor in tuple(self._hosts):
            if monitor.ejected:
                assert monitor.last_ejection_ms is not None
                if self.backoff.ejection_time_ms(monitor) <= now_ms - monitor.last_ejection_ms:
                    self._uneject_host(monitor, UnejectionCause.TIME, now_ms)
            elif decays:
                self.backoff.decay_at_once(monitor)
            if monitor.degraded:
                assert monitor.last_degraded_ms is not None
                if self.backoff.degradation_time_ms(monitor) <= now_ms - monitor.last_degraded_ms:
                    self._undegrade_host(monitor, now_ms)

    def _end_interval(self) -> None:
        splits = self.splits_local_origin
        for monitor in self._hosts:
            monitor.external.roll()
            if splits:
                monitor.local.roll()

    def _process_success_rate_ejections(self, origin: Origin, now_ms: int) -> None:
        """Judge the last complete interval of one origin, then eject whom it found."""
        judgement = judge_interval(self._hosts, origin, self.settings, self.behaviour)
        self._thresholds[origin] = judgement.threshold
        for outlier in judgement.outliers:
            if outlier.monitor not in self._hosts:
                continue  # an earlier ejection's callback removed it
            self._count_detected(outlier.type)
            self._eject_host(outlier.monitor, outlier.type, outlier.evidence, now_ms)

    def _arm_timer(self, now_ms: int) -> None:
        self._next_sweep_ms = now_ms + self.interval_ms

    # Telling others

    def _note(self, monitor: HostMonitor, detection: Detection) -> None:
        monitor.last_detection = detection
        if self._on_detection is not None:
            self._on_detection(monitor, detection)

    def _changed(self, monitor: HostMonitor) -> None:
        if self._on_change is not None:
            self._on_change(monitor)
