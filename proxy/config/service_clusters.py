"""All clusters of one service: one for each port, and one more for each subset.

Ports `BuildClusters` and `buildSubsetCluster` (Istio, pilot/pkg/networking/core/cluster_builder.go).
"""

from collections.abc import Iterator

import attrs

from proxy.config.cluster_builder import CLUSTER_TYPES, SentCluster, cluster_name, convert_policy
from proxy.config.cluster_config import ClusterConfig, ClusterType, Endpoint, HealthStatus
from proxy.config.locality import TRAFFIC_DISTRIBUTIONS, locate_endpoints
from proxy.config.mesh_config import MeshConfig
from proxy.config.node import NodeConfig
from proxy.config.outlier_conversion import to_ms
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.rule_index import MergedRule, MergedSubset
from proxy.config.service_entry import ServicePort
from proxy.config.service_index import Service
from proxy.config.shadow import shadow_settings
from proxy.config.traffic_policy import EffectivePolicy, effective_policy


@attrs.frozen(kw_only=True)
class ConversionContext:
    """What conversion depends on besides the resources."""

    node: NodeConfig = NodeConfig()  # noqa: RUF009 - frozen
    mesh: MeshConfig = MeshConfig()  # noqa: RUF009 - frozen
    release: IstioRelease = CURRENT


@attrs.frozen(kw_only=True)
class ClusterPlan:
    """One cluster before it is built: the parts that decide its settings.

    `policy` is None when no rule and no mesh default says anything.
    """

    service: Service
    port: ServicePort
    rule: MergedRule | None
    subset: MergedSubset | None
    policy: EffectivePolicy | None
    sent: SentCluster

    @property
    def name(self) -> str:
        """Istio's name of the cluster."""
        subset = self.subset.subset.name if self.subset is not None else ""
        return cluster_name(self.service.host, self.port.number, subset)


def plan_clusters(service: Service, rule: MergedRule | None, context: ConversionContext) -> Iterator[ClusterPlan]:
    """Yield the clusters of a service under the rule chosen for this client, base clusters first on each port."""
    cluster_type = CLUSTER_TYPES.get(service.resolution)
    if cluster_type is None:  # DYNAMIC_DNS: a forward proxy by host name
        return
    for port in service.ports:
        yield _plan(service, port, rule, None, cluster_type, context)
        for merged in rule.subsets if rule is not None else ():
            yield _plan(service, port, rule, merged, cluster_type, context)


def _plan(
    service: Service,
    port: ServicePort,
    rule: MergedRule | None,
    subset: MergedSubset | None,
    cluster_type: ClusterType,
    context: ConversionContext,
) -> ClusterPlan:
    policy = effective_policy(
        rule.traffic_policy if rule is not None else None,
        subset.subset.traffic_policy if subset is not None else None,
        port.number,
        context.mesh.default_traffic_policy,
        subset_index=subset.index if subset is not None else 0,
    )
    sent = convert_policy(
        policy.policy if policy is not None else None,
        cluster_type,
        protocol=port.protocol,
        mesh=context.mesh,
        release=context.release,
        distribution=service.traffic_distribution,
    )
    return ClusterPlan(service=service, port=port, rule=rule, subset=subset, policy=policy, sent=sent)


def build_cluster(
    plan: ClusterPlan, endpoints: tuple[Endpoint, ...], context: ConversionContext
) -> ClusterConfig | None:
    """Return the cluster of a plan; None for one that Istio leaves out.

    Args:
        plan: What to build.
        endpoints: All endpoints of the service port; the plan's subset picks its own.
        context: The client, the mesh, the release.
    """
    subset = plan.subset.subset if plan.subset is not None else None
    if subset is not None:
        wanted = subset.labels.items()
        endpoints = tuple(endpoint for endpoint in endpoints if wanted <= endpoint.labels.items())
        if not endpoints and plan.sent.type is not ClusterType.EDS:
            return None
    if plan.sent.type is ClusterType.ORIGINAL_DST:
        endpoints = ()
    elif _withholds_unhealthy(plan, context.release):
        endpoints = tuple(endpoint for endpoint in endpoints if endpoint.health_status is not HealthStatus.UNHEALTHY)
    placed = locate_endpoints(endpoints, plan.policy, context.node, context.mesh, plan.service.traffic_distribution)
    load_balancer = plan.sent.load_balancer_config()
    if plan.sent.locality_weighted:
        load_balancer = attrs.evolve(load_balancer, locality_weighted=True, locality_weights=placed.weights)
    return ClusterConfig(
        name=plan.name,
        service_host=plan.service.host,
        port=plan.port.number,
        subset=subset.name if subset is not None else "",
        type=plan.sent.type,
        endpoints=placed.endpoints,
        outlier_detection=plan.sent.outlier.detection(),
        shadow=shadow_settings(plan.rule.resources, context.release) if plan.rule is not None else None,
        load_balancer=load_balancer,
        circuit_breakers=plan.sent.circuit_breaker_limits(),
        dns_refresh_ms=to_ms(context.mesh.dns_refresh_ns),
        **plan.sent.cluster,
    )


def _withholds_unhealthy(plan: ClusterPlan, release: IstioRelease) -> bool:
    """Whether endpoints known to be unhealthy stay out: once always, now only with a minHealthPercent.

    A traffic distribution needs them, or the ranks of endpoints would jump.
    """
    if plan.service.traffic_distribution in TRAFFIC_DISTRIBUTIONS:
        return False
    if not release.panic_off_without_block:
        return True
    block = plan.policy.policy.outlier_detection if plan.policy is not None else None
    return block is not None and block.min_health_percent > 0
