"""A cluster as Envoy 1.40 takes it: proto JSON of `envoy.config.cluster.v3.Cluster`.

The message behaves as the sidecar does: endpoints stand in the message itself, an ejection reaches the balancer at once
(`update_merge_window: 0s`), and what the sidecar does not apply (tunnels, PROXY headers, certificates of the mesh) is
left out. A field at Envoy's default is left out too.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from outlier import OutlierDetection
from proxy.config.cluster_config import (
    CircuitBreakers,
    ClusterConfig,
    ClusterType,
    Endpoint,
    HealthStatus,
    LbPolicy,
    Locality,
    SlowStart,
)
from proxy.config.dns import DEFAULT_DNS, DNS_JITTER_MS, DnsSettings
from proxy.config.envoy_tls import envoy_transport_socket, has_tls

_TYPES = "type.googleapis.com"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_CARES = "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"
_SLOW_START_POLICIES = {
    LbPolicy.ROUND_ROBIN: "round_robin_lb_config",
    LbPolicy.LEAST_REQUEST: "least_request_lb_config",
}
_DEFAULT_MAX_EJECTION_TIME_MS = 300_000
_UNIX_PREFIX = "unix://"


def envoy_duration(duration_ms: int) -> str:
    """Return proto JSON's text of a duration.

    >>> envoy_duration(1500)
    '1.5s'
    """
    seconds, milliseconds = divmod(duration_ms, 1000)
    return f"{seconds}.{milliseconds:03}".rstrip("0").rstrip(".") + "s"


def typed(message: str, **fields: Any) -> dict[str, Any]:
    """Return a message as an Any in proto JSON."""
    return {"@type": f"{_TYPES}/{message}", **fields}


def envoy_address(address: str) -> dict[str, Any]:
    """Return an `Address` for `host:port`, `[v6]:port` or `unix://path`."""
    if address.startswith(_UNIX_PREFIX):
        return {"pipe": {"path": address.removeprefix(_UNIX_PREFIX)}}
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}


def envoy_outlier_detection(detection: OutlierDetection) -> dict[str, Any]:
    """Return the settings that differ from Envoy's defaults; `{}` is a detector with those."""
    fields: dict[str, Any] = {}
    for field in attrs.fields(OutlierDetection):
        value = getattr(detection, field.name)
        default = field.default
        if field.name == "max_ejection_time_ms":
            default = max(_DEFAULT_MAX_EJECTION_TIME_MS, detection.base_ejection_time_ms)
        if value != default:
            name = field.name.removesuffix("_ms")
            fields[name] = envoy_duration(value) if field.name.endswith("_ms") else value
    return fields


def envoy_cluster(config: ClusterConfig, dns: DnsSettings = DEFAULT_DNS) -> dict[str, Any]:
    """Return the `Cluster` message of a cluster, whose names are looked up as `dns` says."""
    balancer = config.load_balancer
    common: dict[str, Any] = {"update_merge_window": "0s"}
    if balancer.healthy_panic_threshold is not None:
        common["healthy_panic_threshold"] = {"value": balancer.healthy_panic_threshold}
    if balancer.locality_weighted:
        common["locality_weighted_lb_config"] = {}
    cluster: dict[str, Any] = {
        "name": config.name,
        "connect_timeout": envoy_duration(config.connect_timeout_ms),
        "lb_policy": balancer.policy.value,
        "common_lb_config": common,
        "circuit_breakers": {"thresholds": [_thresholds(config.circuit_breakers)]},
        "typed_extension_protocol_options": {_HTTP_OPTIONS: _http_options(config)},
    }
    if config.tls is not None and has_tls(config.tls):
        cluster["transport_socket"] = envoy_transport_socket(config.tls)
    cluster |= _discovery(config, dns)
    cluster |= _balancer_settings(config)
    if config.outlier_detection is not None:
        cluster["outlier_detection"] = envoy_outlier_detection(config.outlier_detection)
    if config.tcp_keepalive is not None:
        keepalive = config.tcp_keepalive
        fields = {
            "keepalive_probes": keepalive.probes,
            "keepalive_time": keepalive.time_s,
            "keepalive_interval": keepalive.interval_s,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        cluster["upstream_connection_options"] = {"tcp_keepalive": present}
    return cluster


def _discovery(config: ClusterConfig, dns: DnsSettings) -> dict[str, Any]:
    if config.type is ClusterType.ORIGINAL_DST:
        return {"type": "ORIGINAL_DST"}
    # A logical DNS cluster must have its one name; without one it is as empty as a static cluster can be.
    static = config.type is ClusterType.EDS or not config.endpoints
    discovery: dict[str, Any] = {
        "type": "STATIC" if static else config.type.value,
        "load_assignment": {"cluster_name": config.name, "endpoints": list(_localities(config))},
    }
    if not static:
        discovery["respect_dns_ttl"] = True
        discovery["dns_refresh_rate"] = envoy_duration(config.dns_refresh_ms)
        discovery["dns_jitter"] = envoy_duration(DNS_JITTER_MS)
        discovery["dns_lookup_family"] = dns.lookup_family.name
        if dns.resolvers:
            resolvers = [envoy_address(str(address)) for address in dns.resolvers]
            discovery["typed_dns_resolver_config"] = {
                "name": "envoy.network.dns_resolver.cares",
                "typed_config": typed(_CARES, resolvers=resolvers),
            }
    return discovery


def _localities(config: ClusterConfig) -> list[dict[str, Any]]:
    groups: dict[tuple[int, Locality], list[Endpoint]] = {}
    for endpoint in config.endpoints:
        groups.setdefault((endpoint.priority, endpoint.locality), []).append(endpoint)
    localities: list[dict[str, Any]] = []
    for key in sorted(groups):
        priority, locality = key
        group: dict[str, Any] = {"lb_endpoints": [_lb_endpoint(endpoint) for endpoint in groups[key]]}
        if priority:
            group["priority"] = priority
        if locality != Locality():
            group["locality"] = {name: text for name, text in attrs.asdict(locality).items() if text}
        weight = config.load_balancer.locality_weights.get(key)
        if weight:
            group["load_balancing_weight"] = weight
        localities.append(group)
    return localities


def _lb_endpoint(endpoint: Endpoint) -> dict[str, Any]:
    message: dict[str, Any] = {"endpoint": {"address": envoy_address(endpoint.address)}}
    if endpoint.hostname:
        message["endpoint"]["hostname"] = endpoint.hostname
    if endpoint.health_status is not HealthStatus.UNKNOWN:
        message["health_status"] = endpoint.health_status.value
    if endpoint.weight != 1:
        message["load_balancing_weight"] = endpoint.weight
    return message


def _balancer_settings(config: ClusterConfig) -> dict[str, Any]:
    balancer = config.load_balancer
    if balancer.policy is LbPolicy.RING_HASH and balancer.ring_hash_minimum_size:
        return {"ring_hash_lb_config": {"minimum_ring_size": balancer.ring_hash_minimum_size}}
    if balancer.policy is LbPolicy.MAGLEV and balancer.maglev_table_size:
        return {"maglev_lb_config": {"table_size": balancer.maglev_table_size}}
    name = _SLOW_START_POLICIES.get(balancer.policy)
    if name is None or balancer.slow_start is None:
        return {}
    return {name: {"slow_start_config": _slow_start(balancer.slow_start)}}


def _slow_start(settings: SlowStart) -> dict[str, Any]:
    return {
        "slow_start_window": envoy_duration(settings.window_ms),
        "aggression": {"default_value": settings.aggression, "runtime_key": "outlier.slow_start.aggression"},
        "min_weight_percent": {"value": settings.min_weight_percent},
    }


def _thresholds(breakers: CircuitBreakers) -> dict[str, Any]:
    thresholds: dict[str, Any] = {
        "max_connections": breakers.max_connections,
        "max_pending_requests": breakers.max_pending_requests,
        "max_requests": breakers.max_requests,
        "max_retries": breakers.max_retries,
    }
    budget = breakers.retry_budget
    if budget is not None:
        thresholds["retry_budget"] = {
            "budget_percent": {"value": budget.budget_percent},
            "min_retry_concurrency": budget.min_retry_concurrency,
        }
        if budget.budget_interval_ms:
            thresholds["retry_budget"]["budget_interval"] = envoy_duration(budget.budget_interval_ms)
    return thresholds


def _http_options(config: ClusterConfig) -> Mapping[str, Any]:
    common: dict[str, Any] = {"idle_timeout": envoy_duration(config.idle_timeout_ms)}
    if config.max_requests_per_connection:
        common["max_requests_per_connection"] = config.max_requests_per_connection
    if config.max_connection_duration_ms:
        common["max_connection_duration"] = envoy_duration(config.max_connection_duration_ms)
    options = typed(
        _HTTP_OPTIONS,
        **_protocol(config),
        common_http_protocol_options=common,
    )
    if config.tls is not None and has_tls(config.tls) and not config.tls.sni:
        auto_sni = {"auto_sni": True}
        if config.tls.verify and not config.tls.subject_alt_names:
            auto_sni["auto_san_validation"] = True
        options["upstream_http_protocol_options"] = auto_sni
    if config.error_codes:
        options["outlier_detection"] = {"error_matcher": _error_matcher(config.error_codes)}
    return options


def _protocol(config: ClusterConfig) -> dict[str, Any]:
    if config.use_downstream_protocol:
        return {"use_downstream_protocol_config": {"http_protocol_options": {}, "http2_protocol_options": {}}}
    if config.h2_upstream is None:
        return {"explicit_http_config": {"http_protocol_options": {}}}
    options = config.h2_upstream
    http2: dict[str, Any] = {}
    if options.max_concurrent_streams:
        http2["max_concurrent_streams"] = options.max_concurrent_streams
    if options.keepalive_interval_ms and options.keepalive_timeout_ms:
        http2["connection_keepalive"] = {
            "interval": envoy_duration(options.keepalive_interval_ms),
            "timeout": envoy_duration(options.keepalive_timeout_ms),
        }
    return {"explicit_http_config": {"http2_protocol_options": http2}}


def _error_matcher(codes: tuple[int, ...]) -> dict[str, Any]:
    """Return a matcher of these statuses: one predicate, or several joined by or."""
    rules = [
        {"http_response_headers_match": {"headers": [{"name": ":status", "string_match": {"exact": str(code)}}]}}
        for code in codes
    ]
    return rules[0] if len(rules) == 1 else {"or_match": {"rules": rules}}
