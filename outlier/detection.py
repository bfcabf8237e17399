"""What the detector found and decided, as data with exact numbers.

A `Detection` is made for every outlier found, ejected or not: Envoy's log keeps whole percents of the ejected ones
only.
"""

import enum

import attrs

from outlier.ejection import EjectionType, LimitCheck
from outlier.runtime import Enforcement


@attrs.frozen
class ConsecutiveEvidence:
    """So many failures in a row; `run` reached `threshold`."""

    run: int
    threshold: int


@attrs.frozen
class SuccessRateEvidence:
    """A success rate strictly below `threshold = average - stdev_factor / 1000 * deviation`; rates in percent.

    `success` of `total` results in the interval; `hosts` had enough volume and went into the average.
    """

    success_rate: float
    success: int
    total: int
    average: float
    deviation: float
    threshold: float
    stdev_factor: int
    hosts: int


@attrs.frozen
class FailurePercentageEvidence:
    """A failure percentage of `threshold` or more; `success` of `total` results in the interval."""

    failure_percentage: float
    success: int
    total: int
    threshold: int


Evidence = ConsecutiveEvidence | SuccessRateEvidence | FailurePercentageEvidence


class Outcome(enum.Enum):
    """What became of a detection."""

    EJECTED = "ejected"
    NOT_ENFORCED = "not enforced"
    OVERFLOW = "over the limit"
    DEGRADED = "marked degraded"


@attrs.frozen
class Detection:
    """One outlier, found at one moment.

    Attributes:
        type: Which detector found it.
        at_ms: When, on the monotonic clock.
        outcome: What became of it.
        evidence: The numbers that made it an outlier; None for a degraded mark, which needs none.
        limit: The limit's arithmetic; None for a degraded mark, which has no limit.
        enforcement: The chance and the draw; None when the limit decided first, and for a degraded mark.
        ejection_time_ms: How long the host is out (or degraded) at least, jitter included; None unless it is.
    """

    type: EjectionType
    at_ms: int
    outcome: Outcome
    evidence: Evidence | None = None
    limit: LimitCheck | None = None
    enforcement: Enforcement | None = None
    ejection_time_ms: int | None = None


class UnejectionCause(enum.Enum):
    """What brought a host back."""

    TIME = "ejection time over"
    ACTIVE_HEALTH_CHECK = "active health check passed"


@attrs.frozen
class Unejection:
    """One host's return: what ends is the ejection, or the degraded mark, that `type` names.

    `out_ms` is how long it lasted; `ejection_time_ms` how long it had to.
    """

    type: EjectionType
    at_ms: int
    cause: UnejectionCause
    out_ms: int
    ejection_time_ms: int
