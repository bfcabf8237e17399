"""The effective settings of a cluster, each with where its value comes from.

Nothing is recorded while clusters are built: origins are worked out afterwards, from the same conversion that built
them, only for the clusters somebody asks about.
"""

from collections.abc import Callable, Iterator, Sequence

import attrs

from outlier import EnvoyRelease, OutlierDetection
from proxy.config.cluster_config import ClusterConfig, ClusterType, LbPolicy
from proxy.config.explain_connection import connection_settings
from proxy.config.explain_origins import Origins
from proxy.config.explain_outlier import RULE_FIELDS, cap_notes, is_inert
from proxy.config.explain_setting import ENVOY_DEFAULT, ISTIO_DEFAULT, Origin, OriginKind, Setting
from proxy.config.locality import TRAFFIC_DISTRIBUTIONS
from proxy.config.outlier_conversion import OutlierConversion
from proxy.config.resource import Resource
from proxy.config.service_clusters import ClusterPlan
from proxy.config.static_config import StaticConfig

Selection = Callable[[ClusterConfig], bool]


@attrs.frozen(kw_only=True)
class ExplainedCluster:
    """A cluster with all its settings; `notes` say what they come to with the endpoints there are."""

    config: ClusterConfig
    service: Resource
    rules: tuple[Resource, ...]
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]


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
        self._origins = Origins(config, plan)
        self._policy = self._origins.policy

    def explained(self) -> ExplainedCluster:
        rule = self._plan.rule
        return ExplainedCluster(
            config=self._cluster,
            service=self._located(self._plan.service.resources[0]),
            rules=tuple(map(self._located, rule.resources)) if rule is not None else (),
            settings=(
                *connection_settings(self._plan, self._cluster, self._origins),
                *self._load_balancer(),
                *self._outlier(),
            ),
            notes=tuple(self._notes()),
        )

    def _located(self, resource: Resource) -> Resource:
        return attrs.evolve(resource, line=self._config.line(resource))

    def _load_balancer(self) -> Iterator[Setting]:
        sent, balancer = self._plan.sent, self._cluster.load_balancer
        block = self._policy.load_balancer
        origin = ISTIO_DEFAULT
        if block is not None and block.consistent_hash is not None:
            origin = self._origins.field("load_balancer", "consistent_hash")
        elif block is not None and block.simple is not None:
            origin = self._origins.field("load_balancer", "simple")
        yield Setting(name="lb_policy", value=balancer.policy.value, origin=origin)
        for name in ("ring_hash_minimum_size", "maglev_table_size"):
            if name in sent.load_balancer:
                yield Setting(name=name, value=sent.load_balancer[name], origin=origin)
        if sent.slow_start is not None:
            warmup = "warmup" if block is not None and block.warmup is not None else "warmup_duration_secs"
            for name, value in sent.slow_start.items():
                yield Setting(
                    name=f"slow_start.{name}", value=value, origin=self._origins.field("load_balancer", warmup)
                )
        yield Setting(
            name="healthy_panic_threshold",
            value=50.0 if balancer.healthy_panic_threshold is None else balancer.healthy_panic_threshold,
            origin=self._panic_origin(sent.outlier),
        )
        if sent.locality_weighted:
            if block is not None and block.locality_lb_setting is not None:
                origin = self._origins.field("load_balancer", "locality_lb_setting")
            elif self._plan.service.traffic_distribution in TRAFFIC_DISTRIBUTIONS:
                origin = Origin(kind=OriginKind.ISTIO, text="the service's traffic distribution")
            else:
                origin = self._origins.of_mesh("localityLbSetting")
            yield Setting(name="locality_weighted", value=True, origin=origin)

    def _panic_origin(self, sent: OutlierConversion) -> Origin:
        block = self._policy.outlier_detection
        if sent.panic is None:
            return Origin(kind=OriginKind.ENVOY, text="Envoy's default: nothing is sent")
        if block is None:
            return Origin(kind=OriginKind.ISTIO, text="Istio switches panic off, since it sends unhealthy endpoints")
        if block.min_health_percent:
            return self._origins.field("outlier_detection", "min_health_percent")
        return self._origins.field(
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
                origin=self._origins.field("outlier_detection", "outlier_detection_http_error_codes"),
            )

    def _outlier_origin(self, name: str) -> Origin:
        fields = self._plan.sent.outlier.fields
        assert fields is not None
        block = self._policy.outlier_detection
        for source in RULE_FIELDS.get(name, ()):
            value = getattr(block, source)
            written = value is not None and value is not False and (value != 0 or source == "consecutive_5xx_errors")
            written = written or (source == "consecutive_gateway_errors" and value == 0)
            if written and name in fields:
                return self._origins.field("outlier_detection", source)
            if self._origins.is_written_zero("outlier_detection", source) and name not in fields:
                return self._not_sent(source)
        if name in fields:
            return Origin(kind=OriginKind.ISTIO, text="Istio sends it for every outlierDetection")
        if name == "max_ejection_time_ms":
            return Origin(kind=OriginKind.ENVOY, text="Envoy's default: the greater of 300s and base_ejection_time")
        return ENVOY_DEFAULT

    def _not_sent(self, source: str) -> Origin:
        origin = self._origins.field("outlier_detection", source)
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
