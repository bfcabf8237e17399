"""Surprises between rules and services: rules that reach nothing, subsets without endpoints, rules outdone."""

from collections import defaultdict
from collections.abc import Iterator

from proxy.config.cluster_config import ClusterConfig
from proxy.config.destination_rule import DestinationRule
from proxy.config.host_names import complete_host, covers
from proxy.config.issue import Issue
from proxy.config.resource import Key, Resource
from proxy.config.rule_index import MergedRule
from proxy.config.service_index import Service
from proxy.config.static_config import StaticConfig
from proxy.config.virtual_service import VirtualService


def rule_advice(config: StaticConfig) -> Iterator[Issue]:
    """Yield the rules and subsets that do not do what they seem to."""
    services = list(config.builder.services())
    applied: dict[Key, list[str]] = defaultdict(list)
    for service in services:
        rule = config.builder.rule(service)
        for resource in rule.resources if rule is not None else ():
            applied[resource.key].append(service.host)
        yield from _merge_advice(config, rule)
        yield from _locality_advice(config, service, rule)
    for resource in config.resources.values():
        if isinstance(resource.body, DestinationRule):
            if resource.key not in applied:
                yield _unused(config, resource, resource.body, services)
            else:
                yield from _subset_advice(config, resource, resource.body)
                yield from _port_advice(config, resource, resource.body, services)


def _unused(config: StaticConfig, resource: Resource, rule: DestinationRule, services: list[Service]) -> Issue:
    node = config.builder.context.node
    host = complete_host(rule.host, resource.namespace, node.domain)
    covered = [service for service in services if covers(host, service.host)]
    if not covered:
        known = next((s.host for s in services if s.host.startswith(f"{rule.host}.") or s.host == rule.host), "")
        hint = f"; did you mean {known}?" if known else ""
        means = "" if host == rule.host else f" ({host})"
        return config.issue(resource, ("host",), f"no service has this host{means}, so the rule does nothing{hint}")
    chosen = config.builder.rule(covered[0])
    if chosen is not None and chosen.selector is not None:
        return config.issue(
            resource, ("host",), f"{chosen.resources[0]} has a workloadSelector that fits this sidecar, and wins"
        )
    if rule.workload_selector is not None:
        return config.issue(
            resource,
            ("workloadSelector",),
            f"does not fit this sidecar (namespace {node.namespace}, labels {dict(node.labels)})",
        )
    if chosen is not None:
        return config.issue(
            resource, ("host",), f"{chosen.resources[0]} comes first for {covered[0].host}; this rule does nothing"
        )
    return config.issue(
        resource,
        ("exportTo",),
        f"the rule is not visible to a sidecar of namespace {node.namespace}, so it does nothing there",
    )


def _merge_advice(config: StaticConfig, rule: MergedRule | None) -> Iterator[Issue]:
    if rule is None or len(rule.resources) < 2:
        return
    first = {merged.subset.name: merged.resource for merged in rule.subsets}
    for resource in rule.resources:
        body = resource.body
        assert isinstance(body, DestinationRule)
        if body.traffic_policy is not None and resource is not rule.policy_from:
            yield config.issue(
                resource,
                ("trafficPolicy",),
                f"is ignored: {rule.policy_from} already has one for {rule.host}, and they do not merge",
            )
        for index, subset in enumerate(body.subsets):
            if subset is not None and first.get(subset.name) is not resource:
                yield config.issue(
                    resource, ("subsets", index, "name"), f"is ignored: {first[subset.name]} already defines the subset"
                )


def _subset_advice(config: StaticConfig, resource: Resource, rule: DestinationRule) -> Iterator[Issue]:
    routed = _routed_subsets(config)
    clusters = [cluster for cluster in config.builder.snapshot.clusters.values() if cluster.subset]
    host = complete_host(rule.host, resource.namespace, config.builder.context.node.domain)
    for index, subset in enumerate(rule.subsets):
        if subset is None:
            continue
        own = [cluster for cluster in clusters if cluster.subset == subset.name and covers(host, cluster.service_host)]
        if not any(cluster.endpoints for cluster in own):
            yield config.issue(
                resource,
                ("subsets", index, "labels"),
                "no endpoint carries these labels; requests to the subset get 503",
            )
        elif subset.traffic_policy is not None and not any(_is_routed(cluster, routed) for cluster in own):
            yield config.issue(
                resource,
                ("subsets", index, "trafficPolicy"),
                "applies only to requests that a VirtualService sends to the subset, and none does",
            )


def _is_routed(cluster: ClusterConfig, routed: set[tuple[str, str]]) -> bool:
    return (cluster.service_host, cluster.subset) in routed


def _routed_subsets(config: StaticConfig) -> set[tuple[str, str]]:
    domain = config.builder.context.node.domain
    return {
        (complete_host(entry.destination.host, resource.namespace, domain), entry.destination.subset)
        for resource in config.resources.values()
        if isinstance(resource.body, VirtualService)
        for route in resource.body.http
        if route is not None
        for entry in route.route
        if entry is not None and entry.destination is not None
    }


def _port_advice(
    config: StaticConfig, resource: Resource, rule: DestinationRule, services: list[Service]
) -> Iterator[Issue]:
    host = complete_host(rule.host, resource.namespace, config.builder.context.node.domain)
    ports = {port.number for service in services if covers(host, service.host) for port in service.ports}
    policies = [(rule.traffic_policy, ("trafficPolicy",))]
    policies += [
        (subset.traffic_policy, ("subsets", index, "trafficPolicy"))  # type: ignore[misc]
        for index, subset in enumerate(rule.subsets)
        if subset is not None
    ]
    for policy, path in policies:
        for index, entry in enumerate(policy.port_level_settings if policy is not None else ()):
            if entry is not None and entry.port is not None and entry.port.number and entry.port.number not in ports:
                yield config.issue(
                    resource,
                    (*path, "portLevelSettings", index, "port"),
                    (
                        f"the service has no such port (it has {', '.join(map(str, sorted(ports)))}); service "
                        "ports count here, not endpoint ports"
                    ),
                )


def _locality_advice(config: StaticConfig, service: Service, rule: MergedRule | None) -> Iterator[Issue]:
    """Yield the rule whose outlierDetection turned locality failover on without asking for it."""
    if rule is None or rule.traffic_policy is None or rule.traffic_policy.outlier_detection is None:
        return
    balancer = rule.traffic_policy.load_balancer
    if balancer is not None and (
        balancer.locality_lb_setting is not None or balancer.zone_aware_lb_setting is not None
    ):
        return
    for plan, cluster in config.builder.plans(service):
        if cluster is not None and plan.subset is None and any(endpoint.priority for endpoint in cluster.endpoints):
            yield config.issue(
                rule.policy_from,
                ("trafficPolicy", "outlierDetection"),
                f"also turns locality failover on: of {len(cluster.endpoints)} endpoints only those nearest to "
                "this sidecar get traffic while enough are healthy; localityLbSetting: {enabled: false} turns it off",
            )
            return
