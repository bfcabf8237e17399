"""Surprises of a policy's other blocks: what ports and subsets lose, zeros that mean "no limit", what does nothing."""

from collections.abc import Iterator

import attrs

from proxy.config.advice.policies import PlacedPolicy, placed_policies
from proxy.config.cluster_builder import convert_policy
from proxy.config.cluster_config import ClusterType
from proxy.config.destination_rule import (
    ConnectionPool,
    DestinationRule,
    LoadBalancer,
    OutlierDetection,
    SimpleLb,
    TrafficPolicy,
)
from proxy.config.issue import Issue, Path
from proxy.config.message import json_name
from proxy.config.resource import Resource
from proxy.config.static_config import StaticConfig

_PORT_BLOCKS = ("loadBalancer", "connectionPool", "outlierDetection", "tls")
_LOST_AT_PORT = ("tunnel", "proxyProtocol", "retryBudget")
_UNLIMITED_AT_ZERO = (
    ("tcp", "maxConnections"),
    ("http", "http1MaxPendingRequests"),
    ("http", "http2MaxRequests"),
    ("http", "maxRetries"),
)
NOT_APPLIED = "is not applied by the sidecar"

Advice = Iterator[tuple[Path, str]]


def policy_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield what the policies of a rule lose, ignore or leave to others."""
    rule = resource.body
    if not isinstance(rule, DestinationRule):
        return
    for placed in placed_policies(rule):
        for path, text in _policy(config, resource, placed):
            yield config.issue(resource, (*placed.path, *path), text)
    parent = rule.traffic_policy
    for index, subset in enumerate(rule.subsets):
        if subset is not None and subset.traffic_policy is not None and parent is not None:
            path = ("subsets", index, "trafficPolicy", "outlierDetection")
            for text in _subset_block(parent, subset.traffic_policy):
                yield config.issue(resource, path, text)


def _policy(config: StaticConfig, resource: Resource, placed: PlacedPolicy) -> Advice:
    policy = placed.policy
    if isinstance(policy, TrafficPolicy):
        yield from _ports(policy)
        for name in ("tunnel", "proxyProtocol"):
            if getattr(policy, "tunnel" if name == "tunnel" else "proxy_protocol") is not None:
                yield (name,), NOT_APPLIED
    if policy.connection_pool is not None:
        for section, field in _UNLIMITED_AT_ZERO:
            path: Path = ("connectionPool", section, field)
            if config.written(resource, (*placed.path, *path)) == 0:
                extra = "; to have no retries, use retries: {attempts: 0} in the route" if field == "maxRetries" else ""
                yield path, f"0 means no limit{extra}"
        yield from _pool(config, resource, policy.connection_pool)
    if policy.load_balancer is not None:
        yield from _load_balancer(policy.load_balancer)


def _ports(policy: TrafficPolicy) -> Advice:
    seen: dict[int, int] = {}
    above = {
        json_name(name)
        for name in (
            "load_balancer",
            "connection_pool",
            "outlier_detection",
            "tls",
            "tunnel",
            "proxy_protocol",
            "retry_budget",
        )
        if getattr(policy, name) is not None
    }
    for index, entry in enumerate(policy.port_level_settings):
        if entry is None or entry.port is None:
            continue
        path: Path = ("portLevelSettings", index)
        number = entry.port.number
        if number == 0:
            yield (*path, "port"), "names port 0, which no service has; the entry never applies"
        elif number in seen:
            yield (*path, "port"), f"the first entry for port {number}, [{seen[number]}], wins; this one never applies"
        seen.setdefault(number, index)
        own = {
            "loadBalancer": entry.load_balancer,
            "connectionPool": entry.connection_pool,
            "outlierDetection": entry.outlier_detection,
            "tls": entry.tls,
        }
        lost = [name for name in _PORT_BLOCKS if name in above and own[name] is None]
        lost += [name for name in _LOST_AT_PORT if name in above]
        if lost:
            yield (
                path,
                f"replaces the whole policy on port {number}: {', '.join(lost)} of the level above do not apply there",
            )


def _subset_block(parent: TrafficPolicy, subset: TrafficPolicy) -> Iterator[str]:
    above, own = parent.outlier_detection, subset.outlier_detection
    if above is None or own is None:
        return
    lost = [
        json_name(field.name)
        for field in attrs.fields(OutlierDetection)
        if getattr(above, field.name) != field.default and getattr(own, field.name) == field.default
    ]
    if lost:
        yield f"replaces the rule's block as a whole; {', '.join(lost)} go back to Envoy's defaults"


def _pool(config: StaticConfig, resource: Resource, pool: ConnectionPool) -> Advice:
    http = pool.http
    if http is None:
        return
    settings = {"maxConcurrentStreams": http.max_concurrent_streams, "http2KeepAlive": http.http2_keep_alive}
    names = [name for name, value in settings.items() if value]
    if names and not any(_sends_http2(config, protocol, pool) for protocol in _protocols(config, resource)):
        for name in names:
            yield ("connectionPool", "http", name), "has no effect without a port of HTTP2 or GRPC, or h2UpgradePolicy"


def _protocols(config: StaticConfig, resource: Resource) -> Iterator[str]:
    """Yield the protocols of the ports that a rule reaches."""
    for service in config.builder.services():
        rule = config.builder.rule(service)
        if rule is not None and resource in rule.resources:
            yield from (port.protocol for port in service.ports)


def _sends_http2(config: StaticConfig, protocol: str, pool: ConnectionPool) -> bool:
    policy = TrafficPolicy(connection_pool=pool)
    sent = convert_policy(policy, ClusterType.EDS, protocol=protocol, mesh=config.builder.context.mesh)
    return "h2_upstream" in sent.cluster


def _load_balancer(block: LoadBalancer) -> Advice:
    path: Path = ("loadBalancer",)
    if block.simple is SimpleLb.LEAST_CONN:
        yield (*path, "simple"), "is deprecated and means LEAST_REQUEST"
    if block.simple is SimpleLb.PASSTHROUGH:
        yield (
            (*path, "simple"),
            "needs the client's original destination, which an explicit proxy does not have; requests get 503",
        )
    name = "warmup" if block.warmup is not None else "warmupDurationSecs" if block.warmup_duration_secs else ""
    if name and block.consistent_hash is not None:
        yield (*path, name), "has no effect with consistentHash"
    elif name and block.simple in {SimpleLb.RANDOM, SimpleLb.PASSTHROUGH}:
        yield (*path, name), f"has no effect with {block.simple.name}; use ROUND_ROBIN or LEAST_REQUEST"
    if block.warmup is not None and block.warmup_duration_secs is not None:
        yield (*path, "warmupDurationSecs"), "is ignored: warmup wins"
    locality = block.locality_lb_setting
    if locality is not None and locality.distribute and locality.failover_priority:
        yield (*path, "localityLbSetting", "failoverPriority"), "is ignored: distribute wins"
    if block.zone_aware_lb_setting is not None:
        yield (
            (*path, "zoneAwareLbSetting"),
            "regions are ranked, but the weighing of zones needs Envoy's own cluster; the sidecar does none",
        )
