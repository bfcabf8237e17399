"""The detector's statistics, by Envoy's names (without `cluster.<name>.outlier_detection.`).

The names are those of the 1.40 binary; Envoy's documentation calls one pair differently (docs/parity.md).
Ports `ALL_OUTLIER_DETECTION_STATS` (Envoy, source/common/upstream/outlier_detection_impl.h).
"""

from collections.abc import Iterator

import attrs

from outlier.releases import Behaviour


@attrs.define
class OutlierStats:
    """Plain integers; all exist at 0 from the start. `ejections_active` is the one gauge."""

    ejections_active: int = 0
    ejections_consecutive_5xx: int = 0
    ejections_detected_consecutive_5xx: int = 0
    ejections_detected_consecutive_gateway_failure: int = 0
    ejections_detected_consecutive_local_origin_failure: int = 0
    ejections_detected_degradation: int = 0
    ejections_detected_failure_percentage: int = 0
    ejections_detected_local_origin_failure_percentage: int = 0
    ejections_detected_local_origin_success_rate: int = 0
    ejections_detected_success_rate: int = 0
    ejections_enforced_consecutive_5xx: int = 0
    ejections_enforced_consecutive_gateway_failure: int = 0
    ejections_enforced_consecutive_local_origin_failure: int = 0
    ejections_enforced_failure_percentage: int = 0
    ejections_enforced_local_origin_failure_percentage: int = 0
    ejections_enforced_local_origin_success_rate: int = 0
    ejections_enforced_success_rate: int = 0
    ejections_enforced_total: int = 0
    ejections_overflow: int = 0
    ejections_success_rate: int = 0
    ejections_total: int = 0

    hidden: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, repr=False)

    @classmethod
    def of(cls, behaviour: Behaviour) -> "OutlierStats":
        """Return the statistics that a release has, all 0; `items` leaves out those that came later."""
        return cls(hidden=frozenset(name for name in NAMES if not _exists(behaviour, name)))

    def items(self) -> Iterator[tuple[str, int, bool]]:
        """Yield `(name, value, is_gauge)` for each statistic of the release, in order of name."""
        for name in NAMES:
            if name not in self.hidden:
                yield name, getattr(self, name), name == "ejections_active"

    def increment(self, name: str) -> None:
        """Add 1 to the counter `name`."""
        setattr(self, name, getattr(self, name) + 1)

    def reset_counters(self) -> None:
        """Set every counter to 0, as `/reset_counters` does; the gauge stays."""
        for name in NAMES:
            if name != "ejections_active":
                setattr(self, name, 0)


NAMES: tuple[str, ...] = tuple(field.name for field in attrs.fields(OutlierStats) if field.name != "hidden")


def _exists(behaviour: Behaviour, name: str) -> bool:
    if "degradation" in name:
        return behaviour.degraded_hosts
    if "failure_percentage" in name:
        return behaviour.failure_percentage
    if "local_origin" in name:
        return behaviour.split_local_origin
    return True
