"""Which hosts have a success rate too far below their peers', or too many failures.

Pure arithmetic over one interval's results; counting belongs to `accumulator`, ejecting to `detector`.
Ports `DetectorImpl::successRateEjectionThreshold` and the selection half of `processSuccessRateEjections`
(Envoy, source/common/upstream/outlier_detection_impl.cc).
"""

import math
from collections.abc import Collection, Sequence

import attrs

from outlier.accumulator import SuccessRateAccumulator
from outlier.detection import Evidence, FailurePercentageEvidence, SuccessRateEvidence
from outlier.ejection import FAILURE_PERCENTAGE_TYPES, SUCCESS_RATE_TYPES, EjectionType, Origin
from outlier.host_monitor import HostMonitor
from outlier.releases import Behaviour
from outlier.runtime import Settings


@attrs.frozen
class EjectionThreshold:
    """What one sweep found out about the cluster, each in percent.

    Attributes:
        average: Mean success rate of the hosts with enough volume.
        deviation: Their population standard deviation.
        threshold: Hosts strictly below are outliers; may be negative, and then nobody is.
        hosts: How many rates went into it.
    """

    average: float
    deviation: float
    threshold: float
    hosts: int


def ejection_threshold(success_rates: Sequence[float], stdev_factor: int) -> EjectionThreshold:
    """Return the mean success rate and the rate below which a host is an outlier.

    Args:
        success_rates: One rate per host with enough volume, each 0-100; at least one.
        stdev_factor: Deviations below the mean, times 1000 (1900 means 1.9).

    Raises:
        ValueError: `success_rates` is empty.

    The deviation is the population one (divides by n), as in Envoy; `statistics.stdev` would differ.

    >>> found = ejection_threshold([50.0, 100.0, 100.0, 100.0, 100.0], 1900)
    >>> found.average, found.threshold
    (90.0, 52.0)
    """
    hosts = len(success_rates)
    if hosts == 0:
        raise ValueError("no success rates")
    average = sum(success_rates) / hosts
    deviation = math.sqrt(sum([(rate - average) * (rate - average) for rate in success_rates]) / hosts)
    return EjectionThreshold(average, deviation, average - stdev_factor / 1000.0 * deviation, hosts)


@attrs.frozen
class Outlier:
    """One host that a sweep found, and the numbers."""

    monitor: HostMonitor
    type: EjectionType
    evidence: Evidence


@attrs.frozen
class Judgement:
    """The result of one sweep for one origin.

    `threshold` is None when too few hosts had enough volume for a success rate. `outliers` come in the order in which
    they are to be ejected: all by success rate, then all by failure percentage; a host may be in both parts.
    """

    threshold: EjectionThreshold | None
    outliers: Sequence[Outlier]


def judge_interval(
    hosts: Collection[HostMonitor], origin: Origin, settings: Settings, behaviour: Behaviour
) -> Judgement:
    """Judge the last complete interval, and note each host's rate where its volume allows showing it.

    The minimum of hosts is first compared with all members, then with those that are in and have enough volume.
    """
    sr_minimum_hosts = settings.value("success_rate_minimum_hosts")
    fp_minimum_hosts = settings.value("failure_percentage_minimum_hosts")
    by_percentage = behaviour.failure_percentage
    if len(hosts) < sr_minimum_hosts and not (by_percentage and len(hosts) >= fp_minimum_hosts):
        return Judgement(None, ())
    sr_volume = settings.value("success_rate_request_volume")
    fp_volume = settings.value("failure_percentage_request_volume")
    shown_volume = min(sr_volume, fp_volume) if by_percentage else sr_volume
    idle_hosts_have_rate = behaviour.idle_hosts_have_rate
    external = origin is Origin.EXTERNAL
    sr_rates: list[tuple[HostMonitor, float]] = []
    fp_rates: list[tuple[HostMonitor, float]] = []
    for monitor in hosts:
        if monitor.ejected:
            continue
        results = monitor.external if external else monitor.local
        total = results.last_total
        if total:
            rate = 100.0 * results.last_success / total
        elif idle_hosts_have_rate:
            rate = math.nan
        else:
            continue
        if total >= shown_volume:
            results.success_rate = rate
        if total >= sr_volume:
            sr_rates.append((monitor, rate))
        if by_percentage and total >= fp_volume:
            fp_rates.append((monitor, rate))
    threshold = None
    outliers: list[Outlier] = []
    if sr_rates and len(sr_rates) >= sr_minimum_hosts:
        stdev_factor = settings.value("success_rate_stdev_factor")
        threshold = ejection_threshold([rate for _, rate in sr_rates], stdev_factor)
        outliers += _below(threshold, sr_rates, stdev_factor, origin)
    if fp_rates and len(fp_rates) >= fp_minimum_hosts:
        outliers += _failing(settings.value("failure_percentage_threshold"), fp_rates, origin)
    return Judgement(threshold, outliers)


def _below(
    found: EjectionThreshold, rates: Sequence[tuple[HostMonitor, float]], stdev_factor: int, origin: Origin
) -> list[Outlier]:
    """Return the hosts whose rate is strictly below the threshold."""
    outliers = []
    for monitor, rate in rates:
        if rate < found.threshold:
            results = _results(monitor, origin)
            evidence = SuccessRateEvidence(
                rate,
                results.last_success,
                results.last_total,
                found.average,
                found.deviation,
                found.threshold,
                stdev_factor,
                found.hosts,
            )
            outliers.append(Outlier(monitor, SUCCESS_RATE_TYPES[origin], evidence))
    return outliers


def _failing(threshold: int, rates: Sequence[tuple[HostMonitor, float]], origin: Origin) -> list[Outlier]:
    """Return the hosts whose failure percentage is at or above the threshold."""
    outliers = []
    for monitor, rate in rates:
        if 100.0 - rate >= threshold:
            results = _results(monitor, origin)
            evidence = FailurePercentageEvidence(100.0 - rate, results.last_success, results.last_total, threshold)
            outliers.append(Outlier(monitor, FAILURE_PERCENTAGE_TYPES[origin], evidence))
    return outliers


def _results(monitor: HostMonitor, origin: Origin) -> SuccessRateAccumulator:
    return monitor.external if origin is Origin.EXTERNAL else monitor.local
