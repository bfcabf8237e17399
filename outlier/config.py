"""The settings of one cluster's detector: Envoy's `OutlierDetection` message.

Names, defaults and ranges are Envoy's; durations are whole milliseconds and say so. Conversion from an Istio rule
belongs to `proxy.config`, overriding a value while running to `runtime`.
Ports `envoy.config.cluster.v3.OutlierDetection` and `DetectorConfig` (Envoy,
api/envoy/config/cluster/v3/outlier_detection.proto, source/common/upstream/outlier_detection_impl.cc).
"""

from collections.abc import Mapping
from typing import Any, Self

import attrs

from outlier.durations import exact_duration_ms
from outlier.errors import ConfigError

DEFAULT_MAX_EJECTION_TIME_MS = 300_000  # Envoy's cap when max_ejection_time is unset; a larger base raises it

_UINT32_MAX = 2**32 - 1


def _uint32(_instance: "OutlierDetection", attribute: "attrs.Attribute[int]", value: object) -> None:
    if type(value) is not int or not 0 <= value <= _UINT32_MAX:
        raise ConfigError(attribute.name, value, f"value must be an integer in 0..{_UINT32_MAX}")


def _percent(instance: "OutlierDetection", attribute: "attrs.Attribute[int]", value: int) -> None:
    _uint32(instance, attribute, value)
    if value > 100:
        raise ConfigError(attribute.name, value, "value must be less than or equal to 100")


def _duration(_instance: "OutlierDetection", attribute: "attrs.Attribute[int]", value: object) -> None:
    if type(value) is not int or value < 0:
        raise ConfigError(attribute.name, value, "value must be a whole number of milliseconds, 0 or more")


def _positive_duration(instance: "OutlierDetection", attribute: "attrs.Attribute[int]", value: int) -> None:
    _duration(instance, attribute, value)
    if value == 0:
        raise ConfigError(attribute.name, value, "value must be greater than 0s")


def _bool(_instance: "OutlierDetection", attribute: "attrs.Attribute[bool]", value: object) -> None:
    if type(value) is not bool:
        raise ConfigError(attribute.name, value, "value must be true or false")


def _default_max_ejection_time_ms(self: "OutlierDetection") -> int:
    return max(DEFAULT_MAX_EJECTION_TIME_MS, self.base_ejection_time_ms)


@attrs.frozen(kw_only=True)
class OutlierDetection:
    """When a host counts as an outlier, and how long it is left out.

    Percentages are whole, 0-100. A threshold of 0 never fires. `success_rate_stdev_factor` is in thousandths (1900
    means 1.9). `max_ejection_time_ms` defaults to 300 s, or to the base when that is longer.

    Raises:
        ConfigError: A value has the wrong type or is out of Envoy's range.

    >>> OutlierDetection(base_ejection_time_ms=400_000).max_ejection_time_ms
    400000
    """

    interval_ms: int = attrs.field(default=10_000, validator=_positive_duration)
    base_ejection_time_ms: int = attrs.field(default=30_000, validator=_positive_duration)
    max_ejection_time_ms: int = attrs.field(
        default=attrs.Factory(_default_max_ejection_time_ms, takes_self=True), validator=_positive_duration
    )
    max_ejection_time_jitter_ms: int = attrs.field(default=0, validator=_duration)
    max_ejection_percent: int = attrs.field(default=10, validator=_percent)
    always_eject_one_host: bool = attrs.field(default=False, validator=_bool)

    consecutive_5xx: int = attrs.field(default=5, validator=_uint32)
    enforcing_consecutive_5xx: int = attrs.field(default=100, validator=_percent)
    consecutive_gateway_failure: int = attrs.field(default=5, validator=_uint32)
    enforcing_consecutive_gateway_failure: int = attrs.field(default=0, validator=_percent)

    split_external_local_origin_errors: bool = attrs.field(default=False, validator=_bool)
    consecutive_local_origin_failure: int = attrs.field(default=5, validator=_uint32)
    enforcing_consecutive_local_origin_failure: int = attrs.field(default=100, validator=_percent)

    success_rate_minimum_hosts: int = attrs.field(default=5, validator=_uint32)
    success_rate_request_volume: int = attrs.field(default=100, validator=_uint32)
    success_rate_stdev_factor: int = attrs.field(default=1900, validator=_uint32)
    enforcing_success_rate: int = attrs.field(default=100, validator=_percent)
    enforcing_local_origin_success_rate: int = attrs.field(default=100, validator=_percent)

    failure_percentage_threshold: int = attrs.field(default=85, validator=_percent)
    failure_percentage_minimum_hosts: int = attrs.field(default=5, validator=_uint32)
    failure_percentage_request_volume: int = attrs.field(default=50, validator=_uint32)
    enforcing_failure_percentage: int = attrs.field(default=0, validator=_percent)
    enforcing_failure_percentage_local_origin: int = attrs.field(default=0, validator=_percent)

    successful_active_health_check_uneject_host: bool = attrs.field(default=True, validator=_bool)
    detect_degraded_hosts: bool = attrs.field(default=False, validator=_bool)

    def __attrs_post_init__(self) -> None:
        if self.max_ejection_time_ms < self.base_ejection_time_ms:
            raise ConfigError(
                "max_ejection_time_ms",
                self.max_ejection_time_ms,
                "outlier detector's max_ejection_time cannot be smaller than base_ejection_time",
            )

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the settings that a proto JSON object means.

        Args:
            fields: Envoy's field names; durations as text (`"10s"`), null meaning unset. `monitors` is accepted and
                ignored, as in Envoy 1.40.

        Raises:
            ConfigError: A field is unknown, or a value is refused.

        A duration above zero but below one millisecond becomes 1 ms; Envoy would cut it to 0.
        """
        known = {field.name for field in attrs.fields(cls)}
        values: dict[str, Any] = {}
        for name, value in fields.items():
            if value is None or name == "monitors":
                continue
            if f"{name}_ms" in known:
                values[f"{name}_ms"] = _field_duration_ms(name, value)
            elif name in known and not name.endswith("_ms"):
                values[name] = value
            else:
                raise ConfigError(name, value, "no such field in OutlierDetection")
        return cls(**values)


def _field_duration_ms(name: str, value: object) -> int:
    try:
        exact_ms = exact_duration_ms(str(value))
    except ValueError as exc:
        raise ConfigError(name, value, str(exc)) from exc
    return max(int(exact_ms), 1) if exact_ms > 0 else int(exact_ms)
