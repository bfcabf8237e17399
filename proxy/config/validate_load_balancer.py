"""Whether Istio accepts a loadBalancer block.

Ports `validateLoadBalancer`, `validateLocalityLbSetting` and `validateLocalities` (Istio, pkg/config/validation).
"""

from collections.abc import Sequence

from proxy.config.destination_rule import (
    ConsistentHash,
    Distribute,
    Failover,
    HttpCookie,
    LoadBalancer,
    LocalityLbSetting,
    Warmup,
    ZoneAwareLbSetting,
)
from proxy.config.issue import ABSENT, AS_WRITTEN, Path, Report
from proxy.config.node import LOCALITY_LABELS
from proxy.config.validation import check_duration, check_required_duration

MAGLEV_MAX_TABLE_SIZE = 5_000_011  # Envoy's bound, which Istio excludes
_LOCALITY_LABELS = frozenset(LOCALITY_LABELS)


def check_load_balancer(block: LoadBalancer, path: Path, report: Report, *, outlier: bool) -> None:
    """Report what Istio says about a block; `outlier` is whether an outlierDetection block stands beside it."""
    if block.simple is not None and block.consistent_hash is not None:
        report.error((*path, "simple"), block.simple.name, "must not be set together with consistentHash", origin="crd")
    if block.consistent_hash is not None:
        _check_consistent_hash(block.consistent_hash, (*path, "consistentHash"), report)
    if block.locality_lb_setting is not None and block.zone_aware_lb_setting is not None:
        report.error((*path, "zoneAwareLbSetting"), AS_WRITTEN, "must not be set together with localityLbSetting")
    if block.locality_lb_setting is not None:
        check_locality_lb(block.locality_lb_setting, (*path, "localityLbSetting"), report, outlier=outlier)
    if block.zone_aware_lb_setting is not None:
        check_zone_aware(block.zone_aware_lb_setting, (*path, "zoneAwareLbSetting"), report, outlier=outlier)
    check_duration(block.warmup_duration_secs, (*path, "warmupDurationSecs"), report)
    if block.warmup is not None:
        _check_warmup(block.warmup, (*path, "warmup"), report)


def _check_consistent_hash(block: ConsistentHash, path: Path, report: Report) -> None:
    keys = [
        name
        for name, value in (
            ("httpHeaderName", block.http_header_name),
            ("httpCookie", block.http_cookie),
            ("useSourceIp", block.use_source_ip),
            ("httpQueryParameterName", block.http_query_parameter_name),
        )
        if value is not None
    ]
    if len(keys) > 1:
        report.error((*path, keys[-1]), AS_WRITTEN, f"must not be set together with {keys[0]}", origin="crd")
    if block.ring_hash is not None and block.maglev is not None:
        report.error((*path, "maglev"), AS_WRITTEN, "must not be set together with ringHash", origin="crd")
    if block.http_cookie is not None:
        _check_cookie(block.http_cookie, (*path, "httpCookie"), report)
    old_size = (*path, "minimumRingSize")
    if block.minimum_ring_size != 0:
        report.warn(old_size, block.minimum_ring_size, "is deprecated; use ringHash.minimumRingSize")
        if block.ring_hash is not None or block.maglev is not None:
            report.error(old_size, block.minimum_ring_size, "must not be set together with ringHash or maglev")
    if block.maglev is not None and block.maglev.table_size is not None:
        size = block.maglev.table_size
        if size >= MAGLEV_MAX_TABLE_SIZE or not is_prime(size):
            rule = f"must be a prime below {MAGLEV_MAX_TABLE_SIZE}"
            report.error((*path, "maglev", "tableSize"), size, rule)


def is_prime(number: int) -> bool:
    """Whether Envoy's test calls `number` prime: 1 counts as one, 0 does not."""
    if number <= 3:
        return number >= 1
    if number % 2 == 0 or number % 3 == 0:
        return False
    divisor = 5
    while divisor * divisor <= number:
        if number % divisor == 0 or number % (divisor + 2) == 0:
            return False
        divisor += 6
    return True


def _check_cookie(cookie: HttpCookie, path: Path, report: Report) -> None:
    if not cookie.name:
        report.error((*path, "name"), ABSENT, "is required")
    seen: set[str] = set()
    for index, attribute in enumerate(cookie.attributes):
        where = (*path, "attributes", index, "name")
        name = attribute.name if attribute is not None else ""
        if not name:
            report.error(where, ABSENT, "is required")
        elif name in seen:
            report.error(where, name, "names an attribute twice")
        seen.add(name)


def _check_warmup(warmup: Warmup, path: Path, report: Report) -> None:
    check_required_duration(warmup.duration, (*path, "duration"), report)
    percent = warmup.minimum_percent
    if percent is not None and not 0 <= percent <= 100:
        # Istio's code lets a negative percent pass, its CRD does not.
        report.error((*path, "minimumPercent"), percent, "must be in 0..100", origin="istio" if percent > 0 else "crd")
    if warmup.aggression is not None and not warmup.aggression > 0:
        report.error((*path, "aggression"), warmup.aggression, "must be above 0")


def check_locality_lb(setting: LocalityLbSetting, path: Path, report: Report, *, outlier: bool) -> None:
    """Report what Istio says about a localityLbSetting; like Istio, stop at a contradiction."""
    if setting.distribute and setting.failover:
        report.error((*path, "failover"), AS_WRITTEN, "must not be set together with distribute")
        return
    if setting.failover and _LOCALITY_LABELS.intersection(_label_key(item) for item in setting.failover_priority):
        rule = "must not hold region, zone or subzone labels together with failover"
        report.error((*path, "failoverPriority"), list(setting.failover_priority), rule)
        return
    _warn_without_outlier(setting, path, report, outlier=outlier)
    if not _check_distribute(setting.distribute, (*path, "distribute"), report):
        return
    _check_failover(setting.failover, (*path, "failover"), report)


def check_zone_aware(setting: ZoneAwareLbSetting, path: Path, report: Report, *, outlier: bool) -> None:
    """Report what Istio says about a zoneAwareLbSetting; like Istio, stop at a contradiction."""
    if _LOCALITY_LABELS.intersection(_label_key(item) for item in setting.failover_priority):
        rule = "must not hold region, zone or subzone labels"
        report.error((*path, "failoverPriority"), list(setting.failover_priority), rule)
        return
    _warn_without_outlier(setting, path, report, outlier=outlier)
    _check_failover(setting.failover, (*path, "failover"), report)


def _label_key(item: str) -> str:
    return item.partition("=")[0]


def _warn_without_outlier(
    setting: LocalityLbSetting | ZoneAwareLbSetting, path: Path, report: Report, *, outlier: bool
) -> None:
    if outlier:
        return
    for name, value in (("failover", setting.failover), ("failoverPriority", setting.failover_priority)):
        if value:
            report.warn((*path, name), AS_WRITTEN, "has no effect without outlierDetection beside it")


def _check_distribute(entries: Sequence[Distribute | None], path: Path, report: Report) -> bool:
    """Return whether checking may go on: a bad weight ends it."""
    present = [(index, entry) for index, entry in enumerate(entries) if entry is not None]
    for index, entry in present:
        where = (*path, index, "to")
        for locality, weight in entry.to.items():
            if not 1 <= weight <= 100:
                report.error(where, {locality: weight}, "each weight must be in 1..100")
                return False
        if sum(entry.to.values()) != 100:
            report.error(where, sum(entry.to.values()), "the weights must add up to 100")
            return False
    fault = localities_fault([entry.from_ for _, entry in present])
    if fault:
        position, rule = fault
        index, entry = present[position]
        report.error((*path, index, "from"), entry.from_, rule)
    for index, entry in present:
        localities = list(entry.to)
        fault = localities_fault(localities)
        if fault:
            report.error((*path, index, "to"), localities[fault[0]], fault[1])
    return True


def localities_fault(localities: Sequence[str]) -> tuple[int, str] | None:
    """Return the index of the first locality that is malformed or overlaps an earlier one, and the rule it breaks."""
    earlier: list[list[str]] = []
    for index, locality in enumerate(localities):
        stars = locality.count("*")
        if stars > 1 or (stars and not locality.endswith("*")):
            return index, "* may stand once, at the end"
        segments = locality.split("/")
        if not all(segments):
            return index, "must be region/zone/subzone without empty parts"
        if any(_overlap(segments, other) for other in earlier):
            return index, "overlaps with an earlier locality"
        earlier.append(segments)
    return None


def _overlap(one: list[str], other: list[str]) -> bool:
    """Missing and `*` segments cover everything."""
    for a, b in zip(one, other, strict=False):
        if "*" in {a, b}:
            return True
        if a != b:
            return False
    return True


def _check_failover(entries: Sequence[Failover | None], path: Path, report: Report) -> None:
    for index, entry in enumerate(entries):
        if entry is None:
            continue
        text = f"{entry.from_} -> {entry.to}"
        if entry.from_ == entry.to:
            report.error((*path, index), text, "from and to must differ")
        elif "/" in text or "*" in text:
            report.error((*path, index), text, "from and to are regions, without zones or wildcards")
