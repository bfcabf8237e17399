"""From a rule's outlierDetection block to the settings of Envoy's detector, as each Istio release does it.

Ports `applyOutlierDetection` (Istio, pilot/pkg/networking/core/cluster_traffic_policy.go) and its earlier forms.
"""

from typing import Any

import attrs

from outlier import OutlierDetection
from proxy.config.destination_rule import OutlierDetection as Block
from proxy.config.durations import NS_PER_MS
from proxy.config.releases import CURRENT, ConsecutiveErrors, IstioRelease, Panic

_ENVOY_MAX_EJECTION_TIME_MS = 300_000


def to_ms(duration_ns: int) -> int:
    """Return whole milliseconds, at least 1 for anything above 0."""
    return max(1, duration_ns // NS_PER_MS) if duration_ns > 0 else 0


@attrs.frozen(kw_only=True)
class OutlierConversion:
    """What Istio sends for one block.

    `fields` are arguments of `outlier.OutlierDetection`: what is not among them is not sent, so Envoy's default
    applies; None is no detection at all. `panic` is the healthy panic threshold in percent, None when not sent
    (Envoy's 50). `error_codes` replaces Envoy's rule that a 5xx is an error; empty when not sent.
    """

    fields: dict[str, Any] | None
    panic: float | None
    error_codes: tuple[int, ...] = ()

    def detection(self) -> OutlierDetection | None:
        """Return the detector's settings, Envoy's defaults filled in."""
        return None if self.fields is None else OutlierDetection(**self.fields)


def convert_outlier_detection(
    block: Block | None,
    release: IstioRelease = CURRENT,
    *,
    forces_unhealthy: bool = False,
    supports_unhealthy: bool = True,
) -> OutlierConversion:
    """Return what Istio sends for a block; None is a rule without one.

    Args:
        block: The block that applies to the cluster.
        release: Whose conversion.
        forces_unhealthy: The service must get unhealthy endpoints (a traffic distribution preference): panic is then
        off.
        supports_unhealthy: The service may get them, which the current release grants to all.
    """
    if block is None:
        off = release.panic_off_without_block and supports_unhealthy
        return OutlierConversion(fields=None, panic=0.0 if off else None)
    fields: dict[str, Any] = {}
    if release.success_rate_off:
        fields["enforcing_success_rate"] = 0
    _consecutive_errors(block, release, fields)
    if block.interval is not None:
        fields["interval_ms"] = to_ms(block.interval)
    if block.base_ejection_time is not None:
        fields["base_ejection_time_ms"] = to_ms(block.base_ejection_time)
        if release.max_ejection_time_sent and fields["base_ejection_time_ms"] > _ENVOY_MAX_EJECTION_TIME_MS:
            fields["max_ejection_time_ms"] = fields["base_ejection_time_ms"]
    if block.max_ejection_percent > 0:  # so 0 cannot be sent, and means Envoy's 10
        fields["max_ejection_percent"] = block.max_ejection_percent
    if block.split_external_local_origin_errors and release.local_origin:
        _local_origin(block, fields)
    return OutlierConversion(
        fields=fields,
        panic=_panic(block, release, forces_unhealthy=forces_unhealthy, supports_unhealthy=supports_unhealthy),
        error_codes=block.outlier_detection_http_error_codes if release.error_codes else (),
    )


def _consecutive_errors(block: Block, release: IstioRelease, fields: dict[str, Any]) -> None:
    if block.consecutive_errors > 0:
        match release.consecutive_errors:
            case ConsecutiveErrors.CONSECUTIVE_5XX:
                fields["consecutive_5xx"] = block.consecutive_errors
            case ConsecutiveErrors.GATEWAY_FAILURE:
                fields["consecutive_gateway_failure"] = block.consecutive_errors
                fields["enforcing_consecutive_gateway_failure"] = 100
                fields["enforcing_consecutive_5xx"] = 0
            case ConsecutiveErrors.NOTHING:
                pass
    if not release.separate_error_counts:
        return
    if block.consecutive_5xx_errors is not None:
        fields["consecutive_5xx"] = block.consecutive_5xx_errors
        fields["enforcing_consecutive_5xx"] = 100 if block.consecutive_5xx_errors > 0 else 0
    if block.consecutive_gateway_errors is not None:
        fields["consecutive_gateway_failure"] = block.consecutive_gateway_errors
        fields["enforcing_consecutive_gateway_failure"] = 100 if block.consecutive_gateway_errors > 0 else 0


def _local_origin(block: Block, fields: dict[str, Any]) -> None:
    fields["split_external_local_origin_errors"] = True
    fields["enforcing_local_origin_success_rate"] = 0
    if block.consecutive_local_origin_failures:  # 0 is not sent, so Envoy's 5 at 100 % stays
        fields["consecutive_local_origin_failure"] = block.consecutive_local_origin_failures
        fields["enforcing_consecutive_local_origin_failure"] = 100


def _panic(block: Block, release: IstioRelease, *, forces_unhealthy: bool, supports_unhealthy: bool) -> float | None:
    percent = block.min_health_percent
    sent = release.panic is Panic.ALWAYS and percent >= 0
    sent = sent or (release.panic is Panic.ABOVE_ZERO and percent > 0)
    if sent:
        return 0.0 if forces_unhealthy else float(percent)
    return 0.0 if release.panic_off_without_block and supports_unhealthy else None
