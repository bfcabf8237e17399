"""Surprises of outlierDetection: zeros that are not sent, counts that hide each other, caps that let nobody go."""

from collections import defaultdict
from collections.abc import Iterator

from outlier import EnvoyRelease, OutlierDetection
from outlier.ejection import check_limit
from proxy.config.advice.policies import placed_policies
from proxy.config.cluster_config import ClusterConfig, ClusterType
from proxy.config.destination_rule import DestinationRule
from proxy.config.destination_rule import OutlierDetection as Block
from proxy.config.durations import format_duration
from proxy.config.issue import ABSENT, Issue, Path
from proxy.config.outlier_conversion import convert_outlier_detection
from proxy.config.releases import ConsecutiveErrors, IstioRelease, Panic
from proxy.config.resource import Key, Resource
from proxy.config.service_clusters import ClusterPlan
from proxy.config.static_config import StaticConfig
from proxy.config.traffic_policy import MESH_DEFAULT

_NS_PER_MS = 1_000_000
_MAX_EJECTION_TIME_NS = 300_000 * _NS_PER_MS
_DEFAULT_INTERVAL_NS = 10_000 * _NS_PER_MS
_DEFAULT_BASE_NS = 30_000 * _NS_PER_MS


def rule_outlier_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield what each outlierDetection block of a rule says that Envoy will not do."""
    if not isinstance(resource.body, DestinationRule):
        return
    release = config.builder.context.release
    for placed in placed_policies(resource.body):
        block = placed.policy.outlier_detection
        if block is None:
            continue
        path = (*placed.path, "outlierDetection")
        for field, rule in _block_advice(config, resource, path, block, release, top=placed.top):
            yield config.issue(resource, (*path, field) if field else path, rule)


def _block_advice(
    config: StaticConfig, resource: Resource, path: Path, block: Block, release: IstioRelease, *, top: bool
) -> Iterator[tuple[str, str]]:
    def is_zero(field: str) -> bool:
        return config.written(resource, (*path, field)) == 0

    detection = convert_outlier_detection(block, release).detection()
    assert detection is not None
    yield from _consecutive_errors(block, release, top=top)
    if is_zero("maxEjectionPercent"):
        yield (
            "maxEjectionPercent",
            "0 is not sent, so Envoy's default of 10 % applies; ejection cannot be switched off here",
        )
    yield from _local_origin(block, zero=is_zero("consecutiveLocalOriginFailures"))
    yield from _counts(block, detection, release)
    yield from _times(block)
    if _panics_never(block, release) and detection.max_ejection_percent == 100:
        yield (
            "minHealthPercent" if config.written(resource, (*path, "minHealthPercent")) is not ABSENT else "",
            (
                "panic is off and maxEjectionPercent lets every endpoint go: when all are ejected, requests get 503 "
                "'no healthy upstream'; a minHealthPercent above 0 keeps sending to all of them below that share"
            ),
        )
    seen_percent = int(block.min_health_percent / 100 * 100)
    if seen_percent != block.min_health_percent and release.panic is not Panic.NEVER:
        yield "minHealthPercent", f"Envoy loses one percent in binary fractions and reads {seen_percent} (kept)"
    codes = block.outlier_detection_http_error_codes
    if codes and not release.error_codes:
        yield "outlierDetectionHttpErrorCodes", f"Istio {release} does not know the field; 5xx codes are the errors"
    elif codes and not any(code >= 500 for code in codes):
        yield (
            "outlierDetectionHttpErrorCodes",
            "replaces the rule that a 5xx is an error: a 500 now counts as a success",
        )


def _consecutive_errors(block: Block, release: IstioRelease, *, top: bool) -> Iterator[tuple[str, str]]:
    if block.consecutive_errors == 0:
        return
    count = block.consecutive_errors
    match release.consecutive_errors:
        case ConsecutiveErrors.NOTHING if not top:
            effective = 5 if block.consecutive_5xx_errors is None else block.consecutive_5xx_errors
            yield (
                "consecutiveErrors",
                (
                    "is no longer read, and Istio does not even warn about it here; "
                    f"consecutive5xxErrors {effective} applies"
                ),
            )
        case ConsecutiveErrors.GATEWAY_FAILURE if block.consecutive_5xx_errors is None:
            yield (
                "consecutiveErrors",
                (
                    f"in Istio {release} counts gateway errors (502, 503, 504) only, and switches the count of "
                    "other 5xx off"
                ),
            )
        case ConsecutiveErrors.CONSECUTIVE_5XX if count > 0:
            yield (
                "consecutiveErrors",
                f"in Istio {release} counts every 5xx; later releases read it otherwise, or not at all",
            )
        case _:
            pass


def _local_origin(block: Block, *, zero: bool) -> Iterator[tuple[str, str]]:
    if not block.split_external_local_origin_errors:
        return
    if zero:
        yield "consecutiveLocalOriginFailures", "0 is not sent: Envoy's 5 local failures in a row still eject, always"
    elif block.consecutive_local_origin_failures is None:
        yield (
            "splitExternalLocalOriginErrors",
            "without consecutiveLocalOriginFailures Envoy's 5 in a row eject, always",
        )
    yield (
        "splitExternalLocalOriginErrors",
        (
            "timeouts never add up to an ejection: each attempt first counts as a successful connect "
            "(Envoy's behaviour, kept); only connects that fail do"
        ),
    )


def _counts(block: Block, detection: OutlierDetection, release: IstioRelease) -> Iterator[tuple[str, str]]:
    gateway, errors = block.consecutive_gateway_errors, block.consecutive_5xx_errors
    if not release.separate_error_counts:
        for field, value in (("consecutiveGatewayErrors", gateway), ("consecutive5xxErrors", errors)):
            if value is not None:
                yield field, f"Istio {release} does not know the field; it is ignored"
        return
    if gateway == 0 and errors == 0 and not block.split_external_local_origin_errors:
        yield "", "nothing can eject a host, but the block still switches panic off and locality failover on"
    elif gateway and errors is None:
        yield (
            "consecutiveGatewayErrors",
            (
                "does not replace the count of 5xx: 5 of any 5xx in a row eject too; set consecutive5xxErrors: "
                "0 for gateway errors only"
            ),
        )
    if gateway and detection.enforcing_consecutive_5xx and gateway >= detection.consecutive_5xx:
        yield (
            "consecutiveGatewayErrors",
            (
                f"can have no effect: every gateway error is a 5xx as well, and {detection.consecutive_5xx} of "
                "those eject first"
            ),
        )


def _times(block: Block) -> Iterator[tuple[str, str]]:
    interval = block.interval or _DEFAULT_INTERVAL_NS
    base = block.base_ejection_time or _DEFAULT_BASE_NS
    if interval > base:
        yield (
            "interval" if block.interval is not None else "baseEjectionTime",
            (
                f"hosts come back only at a sweep, so an ejection of {format_duration(base)} may last "
                f"until the next one, {format_duration(interval)} apart"
            ),
        )
    if base >= _MAX_EJECTION_TIME_NS:
        yield (
            "baseEjectionTime",
            (
                "no ejection gets longer than this: Envoy's cap is the greater of 300s and the base, "
                f"{format_duration(base)}"
            ),
        )


def _panics_never(block: Block, release: IstioRelease) -> bool:
    return release.panic is Panic.ALWAYS and block.min_health_percent == 0


def cluster_outlier_advice(config: StaticConfig, envoy_release: EnvoyRelease) -> Iterator[Issue]:
    """Yield the blocks whose cap never lets a host of their clusters go, each once."""
    capped: dict[tuple[Key, Path], list[tuple[str, str]]] = defaultdict(list)
    for service in config.builder.services():
        for plan, cluster in config.builder.plans(service):
            if cluster is None or plan.policy is None:
                continue
            rule = _cap_rule(cluster, envoy_release)
            owner = _owner(plan)
            if rule is not None and owner is not None:
                path = (*plan.policy.origins["outlier_detection"], "outlierDetection")
                capped[owner.key, path].append((cluster.name, rule))
    for (key, path), found in capped.items():
        resource = config.resources[key]
        field = (*path, "maxEjectionPercent")
        where = field if config.written(resource, field) is not ABSENT else path
        names = ", ".join(sorted({name for name, _ in found}))
        yield config.issue(resource, where, f"{found[0][1]} (cluster {names})")


def _owner(plan: ClusterPlan) -> Resource | None:
    """Return the rule that the cluster's outlierDetection stands in; None when there is none, or it is the mesh's."""
    origin = plan.policy.origins.get("outlier_detection") if plan.policy is not None else None
    if origin is None or origin == MESH_DEFAULT or plan.rule is None:
        return None
    return plan.subset.resource if origin[0] == "subsets" and plan.subset is not None else plan.rule.policy_from


def _cap_rule(cluster: ClusterConfig, envoy_release: EnvoyRelease) -> str | None:
    detection = cluster.outlier_detection
    if detection is None or not cluster.endpoints or cluster.type is ClusterType.STRICT_DNS:
        return None
    hosts = 1 if cluster.type is ClusterType.LOGICAL_DNS else len(cluster.endpoints)
    limit = check_limit(
        envoy_release.behaviour,
        hosts=hosts,
        ejected=0,
        max_percent=detection.max_ejection_percent,
        always_eject_one_host=detection.always_eject_one_host,
    )
    if limit.allowed:
        return None
    needed = -(-100 // hosts)
    one = "the only endpoint is" if hosts == 1 else f"one of {hosts} endpoints is"
    old = "; Envoy before 1.28 always let the first one go" if limit.counts_this_ejection else ""
    return (
        f"no endpoint can ever be ejected: {one} {limit.percent:.4g} %, above the cap of "
        f"{detection.max_ejection_percent} %; {needed} % lets one go{old}"
    )
