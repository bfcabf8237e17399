"""The effective settings of a cluster, each with where its value comes from.

Nothing is recorded while clusters are built: origins are worked out afterwards, from the same conversion that built
them, only for the clusters somebody asks about.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from outlier import EnvoyRelease, OutlierDetection
from proxy.config.cluster_config import ClusterConfig, ClusterType, LbPolicy, TlsMode
from proxy.config.durations import NS_PER_MS, format_duration
from proxy.config.explain_outlier import RULE_FIELDS, cap_notes, is_inert
from proxy.config.issue import Path, format_path
from proxy.config.message import json_name
from proxy.config.outlier_conversion import OutlierConversion
from proxy.config.resource import Resource
from proxy.config.service_clusters import ClusterPlan
from proxy.config.static_config import StaticConfig
from proxy.config.traffic_policy import MESH_DEFAULT


class OriginKind(enum.Enum):
    """Who decided a value."""

    RULE = "rule"
    MESH = "mesh"
    ISTIO = "istio"
    ENVOY = "envoy"


@attrs.frozen(kw_only=True)
class Origin:
    """Where a value comes from: a field of a resource, the mesh's settings, Istio's conversion, or Envoy's default.

    `text` says it in words. For a rule, `field` is the path in its body, `file` and `line` its place.
    """

    kind: OriginKind
    text: str
    resource: str = ""
    field: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.text}{place}"


@attrs.frozen(kw_only=True)
class Setting:
    """One effective value under Envoy's name; `inert` is whether it can make no difference here."""

    name: str
    value: object
    origin: Origin
    inert: bool = False

    @property
    def value_text(self) -> str:
        """The value as in Envoy's JSON; durations with a unit."""
        if self.name.endswith("_ms") and isinstance(self.value, int):
            return format_duration(self.value * NS_PER_MS)
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, float):
            return f"{self.value:g}"
        return str(self.value)

    @property
    def envoy_name(self) -> str:
        """The name without our unit."""
        return self.name.removesuffix("_ms")


@attrs.frozen(kw_only=True)
class ExplainedCluster:
    """A cluster with all its settings; `notes` say what they come to with the endpoints there are."""

    config: ClusterConfig
    service: Resource
    rules: tuple[Resource, ...]
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]


_ENVOY_DEFAULT = Origin(kind=OriginKind.ENVOY, text="Envoy's default")
_ISTIO_DEFAULT = Origin(kind=OriginKind.ISTIO, text="Istio's default")

_POOL_FIELDS: Mapping[str, tuple[str, str]] = {
    "max_connections": ("tcp", "max_connections"),
    "max_pending_requests": ("http", "http1_max_pending_requests"),
    "max_requests": ("http", "http2_max_requests"),
    "max_retries": ("http", "max_retries"),
    "connect_timeout_ms": ("tcp", "connect_timeout"),
    "max_requests_per_connection": ("http", "max_requests_per_connection"),
    "max_connection_duration_ms": ("tcp", "max_connection_duration"),
}


Selection = Callable[[ClusterConfig], bool]


def explain(
    config: StaticConfig,
    envoy_release: EnvoyRelease = EnvoyRelease.V1_40,
    selected: Selection = lambda _cluster: True,
) -> Iterator[ExplainedCluster]:
    """Yield the selected clusters of a configuration, by service, port and subset."""
    for service in sorted(config.builder.services(), key=lambda service: service.host):
        for plan, cluster in config.builder.plans(service):
            if cluster is not None and selected(cluster):
                yield _Explainer(config, plan, cluster, envoy_release).explained()


class _Explainer:
    """Finds the origins of one cluster's settings."""

    def __init__(
        self, config: StaticConfig, plan: ClusterPlan, cluster: ClusterConfig, envoy_release: EnvoyRelease
    ) -> None:
        self._config = config
        self._plan = plan
        self._cluster = cluster
        self._release = envoy_release
        self._policy = plan.policy.policy if plan.policy is not None else None
        self._origins = plan.policy.origins if plan.policy is not None else {}

    def explained(self) -> ExplainedCluster:
        rule = self._plan.rule
        return ExplainedCluster(
            config=self._cluster,
            service=self._plan.service.resources[0],
            rules=rule.resources if rule is not None else (),
            settings=(*self._connection(), *self._load_balancer(), *self._outlier()),
            notes=tuple(self._notes()),
        )

    def _owner(self, path: Path) -> Resource | None:
        if path == MESH_DEFAULT or self._plan.rule is None:
            return None
        if path[0] == "subsets" and self._plan.subset is not None:
            return self._plan.subset.resource
        return self._plan.rule.policy_from

    def _field(self, block: str, *names: str, text: str = "") -> Origin:
        """Return the origin of a field of a block of the effective policy."""
        path = self._origins[block]
        resource = self._owner(path)
        where = (*path, json_name(block), *(json_name(name) for name in names))
        said = f"{format_path(where)}{text}"
        if resource is None:
            return Origin(kind=OriginKind.MESH, text=said)
        place = self._config.issue(resource, where, "")
        return Origin(
            kind=OriginKind.RULE,
            text=said,
            resource=str(resource),
            field=format_path(where),
            file=resource.source,
            line=place.line,
        )

    def _connection(self) -> Iterator[Setting]:
        sent, cluster = self._plan.sent, self._cluster
        yield Setting(name="type", value=cluster.type.value, origin=self._type_origin())
        for name in ("connect_timeout_ms", "max_requests_per_connection", "max_connection_duration_ms"):
            yield self._pool_setting(name, getattr(cluster, name), sent.cluster)
        yield Setting(name="idle_timeout_ms", value=cluster.idle_timeout_ms, origin=self._idle_origin())
        for name in ("max_connections", "max_pending_requests", "max_requests", "max_retries"):
            value = getattr(cluster.circuit_breakers, name)
            yield self._pool_setting(name, value, sent.circuit_breakers, prefix="circuit_breakers.")
        if sent.retry_budget is not None:
            origin = self._field("retry_budget")
            yield Setting(name="circuit_breakers.retry_budget", value=sent.retry_budget, origin=origin)
        blocks = {"tls": "tls", "tunnel": "tunnel", "proxy_protocol": "proxy_protocol"}
        blocks |= dict.fromkeys(("tcp_keepalive", "h2_upstream", "use_downstream_protocol"), "connection_pool")
        for name, block in blocks.items():
            if name in sent.cluster:
                value = sent.cluster[name]
                applied = name == "tcp_keepalive" or (name == "tls" and value.mode is not TlsMode.ISTIO_MUTUAL)
                text = "" if applied else "; not applied by the sidecar yet"
                origin = self._field(block, text=text) if block in self._origins else _ISTIO_DEFAULT
                yield Setting(name=name, value=value, origin=origin, inert=not applied)

    def _type_origin(self) -> Origin:
        resource = self._plan.service.resources[0]
        if self._cluster.type is ClusterType.ORIGINAL_DST and "load_balancer" in self._origins:
            return self._field("load_balancer", "simple")
        return Origin(
            kind=OriginKind.RULE,
            text="resolution",
            resource=str(resource),
            field="resolution",
            file=resource.source,
            line=self._config.issue(resource, ("resolution",), "").line,
        )

    def _pool_setting(self, name: str, value: object, sent: Mapping[str, Any], prefix: str = "") -> Setting:
        section, field = _POOL_FIELDS[name]
        pool = self._policy.connection_pool if self._policy is not None else None
        block = getattr(pool, section) if pool is not None else None
        if name in sent and block is not None and getattr(block, field):
            origin = self._field("connection_pool", section, field)
        elif prefix:
            origin = Origin(kind=OriginKind.ISTIO, text="Istio sends no limit")
        else:
            origin = _ISTIO_DEFAULT if name in sent else _ENVOY_DEFAULT
        return Setting(name=prefix + name, value=value, origin=origin)

    def _idle_origin(self) -> Origin:
        pool = self._policy.connection_pool if self._policy is not None else None
        for section in ("http", "tcp"):
            block = getattr(pool, section) if pool is not None else None
            if block is not None and block.idle_timeout is not None:
                return self._field("connection_pool", section, "idle_timeout")
        return _ENVOY_DEFAULT

    def _load_balancer(self) -> Iterator[Setting]:
        sent, balancer = self._plan.sent, self._cluster.load_balancer
        block = self._policy.load_balancer if self._policy is not None else None
        origin = _ISTIO_DEFAULT
        if block is not None and block.consistent_hash is not None:
            origin = self._field("load_balancer", "consistent_hash")
        elif block is not None and block.simple is not None:
            origin = self._field("load_balancer", "simple")
        yield Setting(name="lb_policy", value=balancer.policy.value, origin=origin)
        for name in ("ring_hash_minimum_size", "maglev_table_size"):
            if name in sent.load_balancer:
                yield Setting(name=name, value=sent.load_balancer[name], origin=origin)
        if sent.slow_start is not None:
            warmup = "warmup" if block is not None and block.warmup is not None else "warmup_duration_secs"
            for name, value in sent.slow_start.items():
                yield Setting(name=f"slow_start.{name}", value=value, origin=self._field("load_balancer", warmup))
        yield Setting(
            name="healthy_panic_threshold",
            value=50.0 if balancer.healthy_panic_threshold is None else balancer.healthy_panic_threshold,
            origin=self._panic_origin(sent.outlier),
        )
        if sent.locality_weighted:
            yield Setting(
                name="locality_weighted", value=True, origin=self._field("load_balancer", "locality_lb_setting")
            )

    def _panic_origin(self, sent: OutlierConversion) -> Origin:
        block = self._policy.outlier_detection if self._policy is not None else None
        if sent.panic is None:
            return Origin(kind=OriginKind.ENVOY, text="Envoy's default: nothing is sent")
        if block is None:
            return Origin(kind=OriginKind.ISTIO, text="Istio switches panic off, since it sends unhealthy endpoints")
        if block.min_health_percent:
            return self._field("outlier_detection", "min_health_percent")
        return self._field(
            "outlier_detection", text=": Istio sends its minHealthPercent, 0 when unset, so panic is off"
        )

    def _outlier(self) -> Iterator[Setting]:
        detection = self._cluster.outlier_detection
        if detection is None:
            yield Setting(
                name="outlier_detection",
                value="off",
                origin=Origin(kind=OriginKind.ISTIO, text="no outlierDetection applies, so no host is ever ejected"),
            )
            return
        for field in attrs.fields(OutlierDetection):
            yield Setting(
                name=f"outlier_detection.{field.name}",
                value=getattr(detection, field.name),
                origin=self._outlier_origin(field.name),
                inert=is_inert(detection, field.name, field.default),
            )
        if self._cluster.error_codes:
            yield Setting(
                name="outlier_detection.error_matcher",
                value=list(self._cluster.error_codes),
                origin=self._field("outlier_detection", "outlier_detection_http_error_codes"),
            )

    def _outlier_origin(self, name: str) -> Origin:
        fields = self._plan.sent.outlier.fields
        assert fields is not None
        block = self._policy.outlier_detection if self._policy is not None else None
        for source in RULE_FIELDS.get(name, ()):
            value = getattr(block, source)
            written = value is not None and value is not False and (value != 0 or source == "consecutive_5xx_errors")
            written = written or (source == "consecutive_gateway_errors" and value == 0)
            if written and name in fields:
                return self._field("outlier_detection", source)
            if self._written_zero(source) and name not in fields:
                return self._not_sent(source)
        if name in fields:
            return Origin(kind=OriginKind.ISTIO, text="Istio sends it for every outlierDetection")
        if name == "max_ejection_time_ms":
            return Origin(kind=OriginKind.ENVOY, text="Envoy's default: the greater of 300s and base_ejection_time")
        return _ENVOY_DEFAULT

    def _written_zero(self, source: str) -> bool:
        path = self._origins["outlier_detection"]
        resource = self._owner(path)
        return (
            resource is not None and self._config.written(resource, (*path, "outlierDetection", json_name(source))) == 0
        )

    def _not_sent(self, source: str) -> Origin:
        origin = self._field("outlier_detection", source)
        return attrs.evolve(origin, kind=OriginKind.ENVOY, text=f"Envoy's default: {origin.text} = 0 is not sent")

    def _notes(self) -> Iterator[str]:
        cluster = self._cluster
        if cluster.outlier_detection is not None and cluster.endpoints and cluster.type is not ClusterType.STRICT_DNS:
            hosts = 1 if cluster.type is ClusterType.LOGICAL_DNS else len(cluster.endpoints)
            yield from cap_notes(cluster.outlier_detection, hosts, self._release)
        if not cluster.endpoints and cluster.type is not ClusterType.ORIGINAL_DST:
            yield "there is no endpoint: requests get 503 'no healthy upstream'"
        priorities = sorted({endpoint.priority for endpoint in cluster.endpoints})
        if len(priorities) > 1:
            counts = ", ".join(
                f"{sum(endpoint.priority == priority for endpoint in cluster.endpoints)} at priority {priority}"
                for priority in priorities
            )
            yield (
                f"endpoints are ranked by locality: {counts}; the next priority gets traffic as the one before "
                "gets unhealthy"
            )
        if cluster.type is ClusterType.ORIGINAL_DST or cluster.load_balancer.policy is LbPolicy.CLUSTER_PROVIDED:
            yield (
                "the destination is the client's original one, which an explicit proxy does not have: requests get 503"
            )


def selection(host: str | None, port: int | None, subset: str | None, aliases: Sequence[str]) -> Selection:
    """Return a test for the clusters asked for.

    Args:
        host: As given by a person; None asks for any host.
        port: A service port; None asks for any.
        subset: A subset, empty for base clusters; None asks for any.
        aliases: The full hosts that `host` may mean.
    """

    def selected(cluster: ClusterConfig) -> bool:
        return (
            (host is None or cluster.service_host in aliases)
            and (port is None or cluster.port == port)
            and (subset is None or cluster.subset == subset)
        )

    return selected
