"""What explaining an outlier detector needs to know: who sets a field, which fields matter, what a cap comes to."""

from collections.abc import Iterator, Mapping

from outlier import EnvoyRelease, OutlierDetection
from outlier.ejection import check_limit

# Envoy's field -> the fields of the rule that can set it, the decisive one first.
RULE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "consecutive_5xx": ("consecutive_5xx_errors", "consecutive_errors"),
    "enforcing_consecutive_5xx": ("consecutive_5xx_errors", "consecutive_errors"),
    "consecutive_gateway_failure": ("consecutive_gateway_errors", "consecutive_errors"),
    "enforcing_consecutive_gateway_failure": ("consecutive_gateway_errors", "consecutive_errors"),
    "interval_ms": ("interval",),
    "base_ejection_time_ms": ("base_ejection_time",),
    "max_ejection_time_ms": ("base_ejection_time",),
    "max_ejection_percent": ("max_ejection_percent",),
    "split_external_local_origin_errors": ("split_external_local_origin_errors",),
    "enforcing_local_origin_success_rate": ("split_external_local_origin_errors",),
    "consecutive_local_origin_failure": ("consecutive_local_origin_failures",),
    "enforcing_consecutive_local_origin_failure": ("consecutive_local_origin_failures",),
}
_INERT_WITHOUT: Mapping[str, tuple[str, ...]] = {
    "success_rate_": ("enforcing_success_rate", "enforcing_local_origin_success_rate"),
    "failure_percentage_": ("enforcing_failure_percentage", "enforcing_failure_percentage_local_origin"),
}
_LOCAL_ORIGIN = ("consecutive_local_origin_failure", "enforcing_consecutive_local_origin_failure")


def cap_notes(detection: OutlierDetection, hosts: int, release: EnvoyRelease) -> Iterator[str]:
    """Yield how many hosts the cap lets go under this release, and whether another release would differ."""
    counts = {known: _ejectable(detection, hosts, known) for known in EnvoyRelease}
    own = counts[release]
    yield (
        f"of {hosts} endpoint{'s' if hosts > 1 else ''}, {detection.max_ejection_percent} % lets "
        f"{own or 'none ever'} go under Envoy {release.value}"
    )
    for count in sorted(set(counts.values()) - {own}):
        releases = " and ".join(known.value for known in EnvoyRelease if counts[known] == count)
        yield f"under Envoy {releases} it lets {count or 'none ever'} go: since 1.28 the next ejection must fit as well"


def _ejectable(detection: OutlierDetection, hosts: int, release: EnvoyRelease) -> int:
    ejected = 0
    while ejected < hosts:
        limit = check_limit(
            release.behaviour,
            hosts=hosts,
            ejected=ejected,
            max_percent=detection.max_ejection_percent,
            always_eject_one_host=detection.always_eject_one_host,
        )
        if not limit.allowed:
            break
        ejected += 1
    return ejected


def is_inert(detection: OutlierDetection, name: str, default: object) -> bool:
    """Whether a field makes no difference: it tunes a detector that never ejects, or is a feature left off."""
    for prefix, enforcing in _INERT_WITHOUT.items():
        if name.startswith(prefix):
            return not any(_enforces(detection, field) for field in enforcing)
    if name in _LOCAL_ORIGIN or name.endswith(("_local_origin", "_local_origin_success_rate")):
        return not detection.split_external_local_origin_errors
    if name.startswith("enforcing_"):
        return False
    return not getattr(detection, name) and getattr(detection, name) == default


def _enforces(detection: OutlierDetection, field: str) -> bool:
    needs_split = "local_origin" in field
    return bool(getattr(detection, field)) and (detection.split_external_local_origin_errors or not needs_split)
