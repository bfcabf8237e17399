"""Effective settings of a cluster's connections: discovery, timeouts, limits, keepalive, protocol, TLS."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from proxy.config.cluster_config import ClusterConfig, ClusterType, Http2Options, TcpKeepalive, TlsMode, UpstreamTls
from proxy.config.destination_rule import ConnectionPool, H2UpgradePolicy, HttpSettings, TcpSettings
from proxy.config.explain_origins import Origins
from proxy.config.explain_setting import ENVOY_DEFAULT, ISTIO_DEFAULT, Origin, OriginKind, Setting
from proxy.config.service_clusters import ClusterPlan

_NOT_APPLIED = "; not applied by the sidecar"
_NO_LIMIT = Origin(kind=OriginKind.ISTIO, text="Istio sends no limit")
_DNS_TYPES = frozenset({ClusterType.STRICT_DNS, ClusterType.LOGICAL_DNS})

_POOL_FIELDS: Mapping[str, tuple[str, str]] = {
    "max_connections": ("tcp", "max_connections"),
    "max_pending_requests": ("http", "http1_max_pending_requests"),
    "max_requests": ("http", "http2_max_requests"),
    "max_retries": ("http", "max_retries"),
    "connect_timeout_ms": ("tcp", "connect_timeout"),
    "max_requests_per_connection": ("http", "max_requests_per_connection"),
    "max_connection_duration_ms": ("tcp", "max_connection_duration"),
}
# Our attribute -> Envoy's field, and the rule's.
_KEEPALIVE_FIELDS: Mapping[str, tuple[str, str]] = {
    "probes": ("keepalive_probes", "probes"),
    "time_s": ("keepalive_time", "time"),
    "interval_s": ("keepalive_interval", "interval"),
}


def connection_settings(plan: ClusterPlan, cluster: ClusterConfig, origins: Origins) -> Iterator[Setting]:
    """Yield the settings in the order in which they matter to a connection."""
    pool = origins.policy.connection_pool or ConnectionPool()
    tcp, http = pool.tcp or TcpSettings(), pool.http or HttpSettings()
    yield from _discovery(cluster, origins)
    sent = plan.sent.cluster
    for name in ("connect_timeout_ms", "max_requests_per_connection", "max_connection_duration_ms"):
        default = ISTIO_DEFAULT if name in sent else ENVOY_DEFAULT
        if name == "connect_timeout_ms" and origins.mesh.connect_timeout is not None:
            default = origins.of_mesh("connectTimeout")
        yield Setting(name=name, value=getattr(cluster, name), origin=_pool_origin(name, sent, default, pool, origins))
    idle = next((name for name, block in (("http", http), ("tcp", tcp)) if block.idle_timeout is not None), None)
    idle_origin = ENVOY_DEFAULT if idle is None else origins.field("connection_pool", idle, "idle_timeout")
    yield Setting(name="idle_timeout_ms", value=cluster.idle_timeout_ms, origin=idle_origin)
    for name in ("max_connections", "max_pending_requests", "max_requests", "max_retries"):
        origin = _pool_origin(name, plan.sent.circuit_breakers, _NO_LIMIT, pool, origins)
        yield Setting(name=f"circuit_breakers.{name}", value=getattr(cluster.circuit_breakers, name), origin=origin)
    yield from _retry_budget(cluster, origins)
    if cluster.tcp_keepalive is not None:
        yield from _keepalive(cluster.tcp_keepalive, tcp, origins)
    if cluster.h2_upstream is not None:
        yield from _http2(cluster.h2_upstream, http, plan, origins)
    if cluster.use_downstream_protocol:
        if http.use_client_protocol:
            origin = origins.field("connection_pool", "http", "use_client_protocol")
        else:
            origin = origins.of_service("ports", plan.service.ports.index(plan.port), text="ports without protocol")
        yield Setting(name="use_downstream_protocol", value=True, origin=origin)
    if cluster.tls is not None:
        yield from _tls(cluster.tls, origins)
    if cluster.proxy_protocol is not None:
        origin = origins.field("proxy_protocol", text=_NOT_APPLIED)
        yield Setting(name="proxy_protocol", value=cluster.proxy_protocol, origin=origin, inert=True, applied=False)
    for name, value in _members(cluster.tunnel):
        origin = origins.field("tunnel", name, text=_NOT_APPLIED)
        yield Setting(name=f"tunnel.{name}", value=value, origin=origin, inert=True, applied=False)


def _discovery(cluster: ClusterConfig, origins: Origins) -> Iterator[Setting]:
    origin = origins.of_service("resolution", text="resolution")
    if cluster.type is ClusterType.ORIGINAL_DST and origins.policy.load_balancer is not None:
        origin = origins.field("load_balancer", "simple")
    yield Setting(name="type", value=cluster.type.value, origin=origin)
    if cluster.type in _DNS_TYPES:
        mesh = origins.mesh.dns_refresh_rate is not None
        origin = origins.of_mesh("dnsRefreshRate") if mesh else ISTIO_DEFAULT
        yield Setting(name="dns_refresh_rate_ms", value=cluster.dns_refresh_ms, origin=origin)


def _pool_origin(name: str, sent: Mapping[str, Any], default: Origin, pool: ConnectionPool, origins: Origins) -> Origin:
    section, field = _POOL_FIELDS[name]
    block = getattr(pool, section)
    written = name in sent and block is not None and getattr(block, field)
    return origins.field("connection_pool", section, field) if written else default


def _retry_budget(cluster: ClusterConfig, origins: Origins) -> Iterator[Setting]:
    budget, block = cluster.circuit_breakers.retry_budget, origins.policy.retry_budget
    if budget is None or block is None:
        return
    fields = {
        "budget_percent": ("percent", block.percent is not None),
        "min_retry_concurrency": ("min_retry_concurrency", block.min_retry_concurrency > 0),
        "budget_interval_ms": ("budget_interval", block.budget_interval is not None),
    }
    for name, (field, written) in fields.items():
        default = ENVOY_DEFAULT if name == "budget_interval_ms" else ISTIO_DEFAULT
        origin = origins.field("retry_budget", field) if written else default
        yield Setting(name=f"circuit_breakers.retry_budget.{name}", value=getattr(budget, name), origin=origin)


def _keepalive(keepalive: TcpKeepalive, tcp: TcpSettings, origins: Origins) -> Iterator[Setting]:
    block = tcp.tcp_keepalive is not None
    origin = origins.field("connection_pool", "tcp", "tcp_keepalive") if block else origins.of_mesh("tcpKeepalive")
    yield Setting(name="tcp_keepalive", value="on", origin=origin)
    for name, value in _members(keepalive):
        envoy_name, field = _KEEPALIVE_FIELDS[name]
        if tcp.tcp_keepalive is not None and getattr(tcp.tcp_keepalive, field):
            origin = origins.field("connection_pool", "tcp", "tcp_keepalive", field)
        else:
            origin = origins.of_mesh(f"tcpKeepalive.{field}")
        yield Setting(name=f"tcp_keepalive.{envoy_name}", value=value, origin=origin)


def _http2(options: Http2Options, http: HttpSettings, plan: ClusterPlan, origins: Origins) -> Iterator[Setting]:
    if http.h2_upgrade_policy is H2UpgradePolicy.UPGRADE:
        origin = origins.field("connection_pool", "http", "h2_upgrade_policy")
    elif plan.port.protocol.upper() == "HTTP":
        origin = origins.of_mesh("h2UpgradePolicy")
    else:
        ports = plan.service.ports
        origin = origins.of_service("ports", ports.index(plan.port), "protocol", text="ports.protocol")
    yield Setting(name="http2", value=True, origin=origin)
    fields = {
        "max_concurrent_streams": ("max_concurrent_streams",),
        "keepalive_interval_ms": ("http2_keep_alive", "interval"),
        "keepalive_timeout_ms": ("http2_keep_alive", "timeout"),
    }
    for name, value in _members(options):
        origin = origins.field("connection_pool", "http", *fields[name])
        yield Setting(name=f"http2.{name}", value=value, origin=origin)


def _tls(tls: UpstreamTls, origins: Origins) -> Iterator[Setting]:
    """Yield what is set; the names are the rule's, since Envoy spreads them over several messages."""
    applied = tls.mode is not TlsMode.ISTIO_MUTUAL and not tls.credential_name
    text = "" if applied else "; not to be had without a mesh, so that every connection fails"
    if tls.mode is TlsMode.ISTIO_MUTUAL:
        text = _NOT_APPLIED
    for name, value in _members(tls):
        if name == "mode":
            value = tls.mode.value
        elif name == "verify":
            name, value = "insecure_skip_verify", not tls.verify
        elif name == "subject_alt_names":
            value = list(tls.subject_alt_names)
        if value:
            origin = origins.field("tls", name, text=text)
            yield Setting(name=f"tls.{name}", value=value, origin=origin, inert=not applied, applied=applied)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a frozen value that are set; none of None."""
    for field in attrs.fields(type(value)) if value is not None else ():
        member = getattr(value, field.name)
        if member is not None:
            yield field.name, member
