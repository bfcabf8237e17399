"""Why a host is, or is not, ejected: as data with exact numbers, and in sentences.

It looks and decides nothing: every number is the detector's own, read at one moment. What only the load balancer
knows, panic, is handed in.
"""

from typing import TYPE_CHECKING

import attrs

from outlier.detection import (
    ConsecutiveEvidence,
    Detection,
    Evidence,
    FailurePercentageEvidence,
    Outcome,
    SuccessRateEvidence,
    Unejection,
    UnejectionCause,
)
from outlier.ejection import EJECTION_RULES, EjectionType, LimitCheck, Origin
from outlier.host_monitor import HostMonitor
from outlier.success_rate import EjectionThreshold

if TYPE_CHECKING:
    from outlier.detector import Detector


@attrs.frozen
class RunState:
    """A run of failures and the length at which it is an outlier's; a threshold of 0 is never met."""

    type: EjectionType
    run: int
    threshold: int


@attrs.frozen(kw_only=True)
class RateState:
    """What the last complete interval showed of one origin.

    Attributes:
        origin: Whose results.
        success: Successes of the host.
        total: Results of the host; the rate is judged from `success_rate_volume` on, the percentage from
            `failure_percentage_volume` on.
        success_rate: In percent; None without results.
        success_rate_volume: `success_rate_request_volume`.
        failure_percentage_volume: `failure_percentage_request_volume`; None in releases without that detector.
        failure_percentage_threshold: In percent; None as above.
        cluster: Mean, deviation and threshold of the cluster; None when too few hosts had enough volume.
    """

    origin: Origin
    success: int
    total: int
    success_rate: float | None
    success_rate_volume: int
    failure_percentage_volume: int | None
    failure_percentage_threshold: int | None
    cluster: EjectionThreshold | None


@attrs.frozen
class TimeLeft:
    """How long a host stays out, in milliseconds of the monotonic clock.

    Attributes:
        since_ms: When it went out.
        lasts_ms: How long it has to stay out, jitter included.
        left_ms: How much of that is left; 0 once it only waits for the sweep.
        sweep_ms: The sweep that will bring it back if nothing changes.
    """

    since_ms: int
    lasts_ms: int
    left_ms: int
    sweep_ms: int


@attrs.frozen(kw_only=True)
class Verdict:
    """One host at one moment.

    Attributes:
        address: The host.
        at_ms: The moment.
        ejected: Whether it is ejected, and if so `time_left` says for how long.
        degraded: Whether it is marked degraded, and if so `degraded_time_left` says for how long.
        num_ejections: Enforced ejections so far.
        backoff: The ejection-time multiplier; the next ejection multiplies the base by one more, up to the cap.
        last_detection: The newest detection, whatever became of it.
        last_ejection: The detection that ejected it last.
        runs: The consecutive detectors of the release and mode.
        rates: One per origin that is judged.
        limit: Whether one more host of the cluster may be ejected now; None when the host is no member any more.
        panic: Whether the balancer ignores health in this host's priority; None when nobody said.
    """

    address: str
    at_ms: int
    ejected: bool
    degraded: bool
    num_ejections: int
    backoff: int
    time_left: TimeLeft | None
    degraded_time_left: TimeLeft | None
    last_detection: Detection | None
    last_ejection: Detection | None
    runs: tuple[RunState, ...]
    rates: tuple[RateState, ...]
    limit: LimitCheck | None
    panic: bool | None

    def reasons(self) -> tuple[str, ...]:
        """Return the verdict in sentences, the decisive ones first."""
        lines = [self._state()]
        if self.ejected and self.panic:
            lines.append("Panic: too few hosts are healthy, so it gets requests all the same.")
        if self.degraded and self.degraded_time_left:
            lines.append(f"Marked degraded; {_time_left(self.degraded_time_left, self.at_ms)}.")
        if not self.ejected:
            last = self.last_detection
            if last is not None:
                lines.append(f"Last detection, {seconds(self.at_ms - last.at_ms)} ago: {describe_detection(last)}.")
            lines += [_run(run) for run in self.runs]
            lines += [_rate(rate) for rate in self.rates]
        if self.limit is not None:
            lines.append(f"{describe_limit(self.limit)}.")
        return tuple(lines)

    def _state(self) -> str:
        if not self.ejected:
            times = {0: "not ejected", 1: "ejected once before"}
            return f"In: {times.get(self.num_ejections, f'ejected {self.num_ejections} times before')}."
        assert self.last_ejection is not None
        assert self.time_left is not None
        return f"Ejected: {describe_detection(self.last_ejection)}; {_time_left(self.time_left, self.at_ms)}."


def verdict(detector: "Detector", monitor: HostMonitor, *, at_ms: int, panic: bool | None = None) -> Verdict:
    """Return the verdict on one host of `detector` at `at_ms`."""
    return Verdict(
        address=monitor.address,
        at_ms=at_ms,
        ejected=monitor.ejected,
        degraded=monitor.degraded,
        num_ejections=monitor.num_ejections,
        backoff=monitor.backoff,
        time_left=_left(
            detector, monitor.ejected, monitor.last_ejection_ms, detector.backoff.ejection_time_ms(monitor), at_ms
        ),
        degraded_time_left=_left(
            detector, monitor.degraded, monitor.last_degraded_ms, detector.backoff.degradation_time_ms(monitor), at_ms
        ),
        last_detection=monitor.last_detection,
        last_ejection=monitor.last_ejection,
        runs=_runs(detector, monitor),
        rates=_rates(detector, monitor),
        limit=detector.limit() if monitor in detector else None,
        panic=panic,
    )


def _left(detector: "Detector", out: bool, since_ms: int | None, lasts_ms: int, at_ms: int) -> TimeLeft | None:
    if not out or since_ms is None:
        return None
    end_ms = since_ms + lasts_ms
    sweep_ms = detector.next_sweep_ms
    late_ms = max(end_ms - sweep_ms, 0)
    periods = -(-late_ms // max(detector.interval_ms, 1))
    return TimeLeft(since_ms, lasts_ms, max(end_ms - at_ms, 0), sweep_ms + periods * detector.interval_ms)


def _runs(detector: "Detector", monitor: HostMonitor) -> tuple[RunState, ...]:
    return tuple(
        RunState(ejection_type, getattr(monitor, rule.run), detector.settings.value(rule.threshold))
        for ejection_type, rule in EJECTION_RULES.items()
        if rule.run is not None
        and (ejection_type is not EjectionType.CONSECUTIVE_LOCAL_ORIGIN_FAILURE or detector.splits_local_origin)
    )


def _rates(detector: "Detector", monitor: HostMonitor) -> tuple[RateState, ...]:
    settings = detector.settings
    by_percentage = detector.behaviour.failure_percentage
    states = []
    for origin in Origin if detector.splits_local_origin else (Origin.EXTERNAL,):
        results = monitor.external if origin is Origin.EXTERNAL else monitor.local
        total = results.last_total
        states.append(
            RateState(
                origin=origin,
                success=results.last_success,
                total=total,
                success_rate=100.0 * results.last_success / total if total else None,
                success_rate_volume=settings.value("success_rate_request_volume"),
                failure_percentage_volume=settings.value("failure_percentage_request_volume")
                if by_percentage
                else None,
                failure_percentage_threshold=settings.value("failure_percentage_threshold") if by_percentage else None,
                cluster=detector.threshold(origin),
            )
        )
    return tuple(states)


def describe_detection(detection: Detection) -> str:
    """Return what was found and what became of it, as one clause without a full stop."""
    parts = [f"{detection.type.value} {_evidence(detection.evidence)}".rstrip()]
    match detection.outcome:
        case Outcome.EJECTED:
            assert detection.ejection_time_ms is not None
            parts.append(f"for {seconds(detection.ejection_time_ms)}")
        case Outcome.DEGRADED:
            assert detection.ejection_time_ms is not None
            parts.append(f"marked for {seconds(detection.ejection_time_ms)}")
        case Outcome.OVERFLOW:
            assert detection.limit is not None
            parts.append(f"but the cap forbids it: {describe_limit(detection.limit)}")
        case Outcome.NOT_ENFORCED:
            assert detection.enforcement is not None
            percent, draw = detection.enforcement.percent, detection.enforcement.draw
            drawn = "" if draw is None else f", {draw} was drawn"
            parts.append(f"but enforced at {percent} % only{drawn}")
    return ", ".join(parts)


def describe_limit(limit: LimitCheck) -> str:
    """Return the limit's arithmetic as one clause.

    >>> describe_limit(LimitCheck(3, 0, 10, 33.333, False, True, False))
    '3 hosts, cap 10 %, one more ejection would make it 33.3 %'
    """
    hosts = f"{limit.hosts} host{'s' if limit.hosts != 1 else ''}"
    out = f", {limit.ejected} ejected" if limit.ejected else ""
    if limit.by_exception:
        return f"{hosts}, cap {limit.max_percent} %, one may go by always_eject_one_host"
    if limit.counts_this_ejection:
        verb = "makes it" if limit.allowed else "would make it"
        return f"{hosts}{out}, cap {limit.max_percent} %, one more ejection {verb} {_percent(limit.percent)}"
    relation = "below" if limit.allowed else "not below"
    return f"{hosts}{out}, {_percent(limit.percent)} are {relation} the cap of {limit.max_percent} %"


def describe_unejection(unejection: Unejection) -> str:
    """Return why a host came back, as one clause without a full stop."""
    out = seconds(unejection.out_ms)
    if unejection.cause is UnejectionCause.ACTIVE_HEALTH_CHECK:
        return f"active health check passed after {out} of {seconds(unejection.ejection_time_ms)}"
    what = "degraded" if unejection.type is EjectionType.DEGRADED else "ejected"
    return f"{what} for {out}, {seconds(unejection.ejection_time_ms)} were due"


def _evidence(evidence: Evidence | None) -> str:
    match evidence:
        case ConsecutiveEvidence(run, threshold):
            return f"({run} in a row, threshold {threshold})"
        case SuccessRateEvidence() as found:
            return (
                f"({_percent(found.success_rate)} of {found.total} succeeded; {found.hosts} hosts average "
                f"{_percent(found.average)}, deviation {found.deviation:.4g}, threshold {_percent(found.threshold)})"
            )
        case FailurePercentageEvidence() as found:
            return f"({_percent(found.failure_percentage)} of {found.total} failed, threshold {found.threshold} %)"
        case None:
            return ""


def _run(run: RunState) -> str:
    if run.threshold == 0:
        return f"{run.type.value}: off, its threshold is 0."
    return f"{run.type.value}: {run.run} of {run.threshold} in a row."


def _rate(rate: RateState) -> str:
    if rate.success_rate is None:
        return f"No {rate.origin.value}-origin results in the last interval."
    text = f"{rate.origin.value.capitalize()} origin: {_percent(rate.success_rate)} of {rate.total} succeeded"
    if rate.total < rate.success_rate_volume:
        text += f", too few for a success rate ({rate.success_rate_volume})"
    elif rate.cluster is None:
        text += ", but too few hosts had enough results for a success rate"
    else:
        text += f", the cluster's threshold is {_percent(rate.cluster.threshold)}"
    return text + "."


def _time_left(left: TimeLeft, at_ms: int) -> str:
    sweep = f"the sweep in {seconds(max(left.sweep_ms - at_ms, 0))} brings it back"
    return f"{seconds(left.left_ms)} left, {sweep}" if left.left_ms else f"its time is over, {sweep}"


def _percent(value: float) -> str:
    return f"{value:.4g} %" if abs(value) < 10 or value.is_integer() else f"{value:.1f} %"


def seconds(ms: int) -> str:
    """Return milliseconds as people read them.

    >>> seconds(1500), seconds(90_000), seconds(250)
    ('1.5 s', '90 s', '0.25 s')
    """
    return f"{ms / 1000:g} s"
