"""The kinds of ejection and everything that differs between them, in one table; and the limit.

Where Envoy switches over the type in five places (enforce, count detected, count enforced, reset, log), this table
has a row.
Ports `DetectorImpl::enforceEjection`, `updateDetectedEjectionStats`, `updateEnforcedEjectionStats` and the limit in
`ejectHost` (Envoy, source/common/upstream/outlier_detection_impl.cc).
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from outlier.releases import Behaviour


class EjectionType(enum.Enum):
    """Why a host is an outlier; the value is Envoy's name in the event log."""

    CONSECUTIVE_5XX = "CONSECUTIVE_5XX"
    CONSECUTIVE_GATEWAY_FAILURE = "CONSECUTIVE_GATEWAY_FAILURE"
    SUCCESS_RATE = "SUCCESS_RATE"
    CONSECUTIVE_LOCAL_ORIGIN_FAILURE = "CONSECUTIVE_LOCAL_ORIGIN_FAILURE"
    SUCCESS_RATE_LOCAL_ORIGIN = "SUCCESS_RATE_LOCAL_ORIGIN"
    FAILURE_PERCENTAGE = "FAILURE_PERCENTAGE"
    FAILURE_PERCENTAGE_LOCAL_ORIGIN = "FAILURE_PERCENTAGE_LOCAL_ORIGIN"
    DEGRADED = "DEGRADED"


class Origin(enum.Enum):
    """Whose fault a result is: the host's answer, or this side's attempt to reach it."""

    EXTERNAL = "external"
    LOCAL = "local"


@attrs.frozen(kw_only=True)
class EjectionRule:
    """One row of the table.

    Attributes:
        enforcing: Field with the chance, in percent, that a detection ejects.
        threshold: Field that the evidence is compared with.
        detected: Counter of detections.
        enforced: Counter of ejections.
        run: Attribute of the host monitor that counts the consecutive failures; None for what the sweep finds.
        deprecated: Deprecated counter that moves with each detection.
        in_total: Whether the deprecated `ejections_total` counts it.
        hand_made_name: Its name in the event log until 1.9; None for younger types.
    """

    enforcing: str
    threshold: str
    detected: str
    enforced: str
    run: str | None = None
    deprecated: str | None = None
    in_total: bool = False
    hand_made_name: str | None = None


EJECTION_RULES: Final[Mapping[EjectionType, EjectionRule]] = {
    EjectionType.CONSECUTIVE_5XX: EjectionRule(
        enforcing="enforcing_consecutive_5xx",
        threshold="consecutive_5xx",
        detected="ejections_detected_consecutive_5xx",
        enforced="ejections_enforced_consecutive_5xx",
        run="consecutive_5xx",
        deprecated="ejections_consecutive_5xx",
        in_total=True,
        hand_made_name="5xx",
    ),
    EjectionType.CONSECUTIVE_GATEWAY_FAILURE: EjectionRule(
        enforcing="enforcing_consecutive_gateway_failure",
        threshold="consecutive_gateway_failure",
        detected="ejections_detected_consecutive_gateway_failure",
        enforced="ejections_enforced_consecutive_gateway_failure",
        run="consecutive_gateway_failure",
        hand_made_name="GatewayFailure",
    ),
    EjectionType.CONSECUTIVE_LOCAL_ORIGIN_FAILURE: EjectionRule(
        enforcing="enforcing_consecutive_local_origin_failure",
        threshold="consecutive_local_origin_failure",
        detected="ejections_detected_consecutive_local_origin_failure",
        enforced="ejections_enforced_consecutive_local_origin_failure",
        run="consecutive_local_origin_failure",
    ),
    EjectionType.SUCCESS_RATE: EjectionRule(
        enforcing="enforcing_success_rate",
        threshold="success_rate_stdev_factor",
        detected="ejections_detected_success_rate",
        enforced="ejections_enforced_success_rate",
        deprecated="ejections_success_rate",
        in_total=True,
        hand_made_name="SuccessRate",
    ),
    EjectionType.SUCCESS_RATE_LOCAL_ORIGIN: EjectionRule(
        enforcing="enforcing_local_origin_success_rate",
        threshold="success_rate_stdev_factor",
        detected="ejections_detected_local_origin_success_rate",
        enforced="ejections_enforced_local_origin_success_rate",
        deprecated="ejections_success_rate",
    ),
    EjectionType.FAILURE_PERCENTAGE: EjectionRule(
        enforcing="enforcing_failure_percentage",
        threshold="failure_percentage_threshold",
        detected="ejections_detected_failure_percentage",
        enforced="ejections_enforced_failure_percentage",
    ),
    EjectionType.FAILURE_PERCENTAGE_LOCAL_ORIGIN: EjectionRule(
        enforcing="enforcing_failure_percentage_local_origin",
        threshold="failure_percentage_threshold",
        detected="ejections_detected_local_origin_failure_percentage",
        enforced="ejections_enforced_local_origin_failure_percentage",
    ),
    # DEGRADED has no row: it knows no threshold, limit, chance or enforced counter.
}

SUCCESS_RATE_TYPES: Final[Mapping[Origin, EjectionType]] = {
    Origin.EXTERNAL: EjectionType.SUCCESS_RATE,
    Origin.LOCAL: EjectionType.SUCCESS_RATE_LOCAL_ORIGIN,
}
FAILURE_PERCENTAGE_TYPES: Final[Mapping[Origin, EjectionType]] = {
    Origin.EXTERNAL: EjectionType.FAILURE_PERCENTAGE,
    Origin.LOCAL: EjectionType.FAILURE_PERCENTAGE_LOCAL_ORIGIN,
}


@attrs.frozen
class LimitCheck:
    """The arithmetic of `max_ejection_percent` at one moment.

    Attributes:
        hosts: Members of the cluster, all priorities together; at least 1.
        ejected: How many of them the detector counts as ejected.
        max_percent: The limit in force, 0-100.
        percent: The share that was compared with it, 0 or more: with one more ejected since 1.28, without it before.
        allowed: Whether one more may be ejected.
        counts_this_ejection: Whether `percent` includes the ejection in question.
        by_exception: Allowed only because `always_eject_one_host` is set and nobody was ejected.
    """

    hosts: int
    ejected: int
    max_percent: int
    percent: float
    allowed: bool
    counts_this_ejection: bool
    by_exception: bool


def check_limit(
    behaviour: Behaviour, *, hosts: int, ejected: int, max_percent: int, always_eject_one_host: bool
) -> LimitCheck:
    """Decide whether one more host may be ejected.

    >>> from outlier.releases import EnvoyRelease
    >>> rules = EnvoyRelease.V1_40.behaviour
    >>> limit = check_limit(rules, hosts=3, ejected=0, max_percent=33, always_eject_one_host=False)
    >>> limit.allowed, round(limit.percent, 1)
    (False, 33.3)
    """
    counts_this = behaviour.limit_counts_this_ejection
    if counts_this:
        percent = 100.0 * (ejected + 1) / hosts
        within = percent <= max_percent
    else:
        percent = 100.0 * ejected / hosts
        within = percent < max_percent
    exception = behaviour.always_eject_one_host and always_eject_one_host and ejected == 0
    return LimitCheck(hosts, ejected, max_percent, percent, within or exception, counts_this, exception and not within)
