"""From a service port, its endpoints and the policy that applies to the cluster the data plane runs.

One function per block; each returns what Istio *sends*, as arguments of the frozen classes of `cluster_config`, so an
absent key means "not sent" and Envoy's default holds. Order and outcome are those of `buildDefaultCluster` and
`applyTrafficPolicy` (Istio, pilot/pkg/networking/core/cluster_builder.go and cluster_traffic_policy.go).
"""

from collections.abc import Mapping
from typing import Any

import attrs

from proxy.config.cluster_config import (
    CircuitBreakers,
    ClusterType,
    Http2Options,
    LbPolicy,
    LoadBalancerConfig,
    RetryBudget,
    SlowStart,
    TcpKeepalive,
    TlsMode,
    Tunnel,
    UpstreamTls,
)
from proxy.config.destination_rule import (
    ClientTls,
    ConnectionPool,
    ConsistentHash,
    H2UpgradePolicy,
    HttpSettings,
    LoadBalancer,
    ProxyProtocolVersion,
    SimpleLb,
    TcpSettings,
    TrafficPolicy,
)
from proxy.config.destination_rule import RetryBudget as RetryBudgetBlock
from proxy.config.destination_rule import TcpKeepalive as TcpKeepaliveBlock
from proxy.config.destination_rule import TlsMode as TlsModeBlock
from proxy.config.locality import TRAFFIC_DISTRIBUTIONS, is_locality_weighted, policy_setting
from proxy.config.mesh_config import MeshConfig
from proxy.config.outlier_conversion import OutlierConversion, convert_outlier_detection, to_ms
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.service_entry import Resolution

CLUSTER_TYPES: Mapping[Resolution, ClusterType] = {
    Resolution.NONE: ClusterType.ORIGINAL_DST,
    Resolution.STATIC: ClusterType.EDS,
    Resolution.DNS: ClusterType.STRICT_DNS,
    Resolution.DNS_ROUND_ROBIN: ClusterType.LOGICAL_DNS,
}

# Not GRPC-WEB, as in Istio: its Envoy turns gRPC-Web into gRPC, here it passes as the HTTP/1.1 that it is.
_HTTP2_PROTOCOLS = frozenset({"HTTP2", "GRPC"})
_SIMPLE = {
    SimpleLb.LEAST_CONN: LbPolicy.LEAST_REQUEST,
    SimpleLb.LEAST_REQUEST: LbPolicy.LEAST_REQUEST,
    SimpleLb.RANDOM: LbPolicy.RANDOM,
    SimpleLb.ROUND_ROBIN: LbPolicy.ROUND_ROBIN,
    SimpleLb.PASSTHROUGH: LbPolicy.CLUSTER_PROVIDED,
}
_DEFAULT_RING_SIZE = 1024  # what Istio sends when consistentHash names no algorithm
_DEFAULT_BUDGET_PERCENT = 20.0
_DEFAULT_BUDGET_CONCURRENCY = 3


def cluster_name(host: str, port: int, subset: str = "") -> str:
    """Return Istio's name of an outbound cluster.

    >>> cluster_name("a.b", 80, "v1")
    'outbound|80|v1|a.b'
    """
    return f"outbound|{port}|{subset}|{host}"


@attrs.frozen(kw_only=True)
class SentCluster:
    """What Istio sends for one policy; each mapping holds arguments of the class it is named for.

    `cluster` holds plain arguments of `ClusterConfig`. `slow_start` and `retry_budget` are None when not sent.
    """

    type: ClusterType
    cluster: dict[str, Any]
    circuit_breakers: dict[str, int]
    retry_budget: dict[str, Any] | None
    load_balancer: dict[str, Any]
    slow_start: dict[str, Any] | None
    locality_weighted: bool
    outlier: OutlierConversion

    def load_balancer_config(self) -> LoadBalancerConfig:
        """Return the balancer's settings, Envoy's defaults filled in."""
        slow_start = None if self.slow_start is None else SlowStart(**self.slow_start)
        return LoadBalancerConfig(
            **self.load_balancer, slow_start=slow_start, healthy_panic_threshold=self.outlier.panic
        )

    def circuit_breaker_limits(self) -> CircuitBreakers:
        """Return the limits, Istio's "none" filled in."""
        budget = None if self.retry_budget is None else RetryBudget(**self.retry_budget)
        return CircuitBreakers(**self.circuit_breakers, retry_budget=budget)


_EMPTY_POLICY = TrafficPolicy()


def convert_policy(
    policy: TrafficPolicy | None,
    cluster_type: ClusterType,
    *,
    protocol: str = "HTTP",
    mesh: MeshConfig | None = None,
    release: IstioRelease = CURRENT,
    distribution: str = "",
) -> SentCluster:
    """Return what Istio sends for a cluster of that type under an effective policy.

    Args:
        policy: Without port entries; None is no rule at all.
        cluster_type: What the service asks for; PASSTHROUGH turns it into ORIGINAL_DST.
        protocol: Of the service port; empty leaves it to the client's request.
        mesh: Mesh-wide defaults; its default policy must already be part of `policy`.
        release: Whose conversion.
        distribution: The service's traffic distribution; one that Istio knows forces locality, and panic off.
    """
    mesh = mesh or MeshConfig()
    policy = policy or _EMPTY_POLICY
    pool = policy.connection_pool or ConnectionPool()
    tcp, http = pool.tcp or TcpSettings(), pool.http or HttpSettings()
    cluster: dict[str, Any] = {"connect_timeout_ms": to_ms(tcp.connect_timeout or mesh.connect_timeout_ns)}
    _apply_pool(tcp, http, cluster)
    cluster |= _protocol(http, protocol, mesh)
    keepalive = _keepalive(tcp.tcp_keepalive, mesh.tcp_keepalive)
    if keepalive is not None:
        cluster["tcp_keepalive"] = keepalive
    forced = distribution in TRAFFIC_DISTRIBUTIONS
    outlier = convert_outlier_detection(policy.outlier_detection, release, forces_unhealthy=forced)
    if outlier.error_codes:
        cluster["error_codes"] = outlier.error_codes
    load_balancer, slow_start = _load_balancer(policy.load_balancer or LoadBalancer(), cluster_type, release)
    if load_balancer.get("policy") is LbPolicy.CLUSTER_PROVIDED:
        cluster_type = ClusterType.ORIGINAL_DST
    if policy.tls is not None and policy.tls.mode is not TlsModeBlock.DISABLE:
        cluster["tls"] = _tls(policy.tls)
    if policy.proxy_protocol is not None:
        cluster["proxy_protocol"] = 2 if policy.proxy_protocol.version is ProxyProtocolVersion.V2 else 1
    if policy.tunnel is not None:
        tunnel = policy.tunnel
        cluster["tunnel"] = Tunnel(
            protocol=tunnel.protocol or "CONNECT", target_host=tunnel.target_host, target_port=tunnel.target_port
        )
    return SentCluster(
        type=cluster_type,
        cluster=cluster,
        circuit_breakers=_limits(tcp, http),
        retry_budget=None if policy.retry_budget is None else _retry_budget(policy.retry_budget),
        load_balancer=load_balancer,
        slow_start=slow_start,
        locality_weighted=is_locality_weighted(
            policy_setting(policy, mesh, distribution), outlier=policy.outlier_detection is not None
        ),
        outlier=outlier,
    )


def _limits(tcp: TcpSettings, http: HttpSettings) -> dict[str, int]:
    """Limits above 0 only: 0 cannot be told from unset, and both mean none."""
    limits = {
        "max_connections": tcp.max_connections,
        "max_pending_requests": http.http1_max_pending_requests,
        "max_requests": http.http2_max_requests,
        "max_retries": http.max_retries,
    }
    return {name: limit for name, limit in limits.items() if limit > 0}


def _apply_pool(tcp: TcpSettings, http: HttpSettings, cluster: dict[str, Any]) -> None:
    idle_timeout = http.idle_timeout if http.idle_timeout is not None else tcp.idle_timeout
    if idle_timeout is not None:
        cluster["idle_timeout_ms"] = to_ms(idle_timeout)
    if http.max_requests_per_connection > 0:
        cluster["max_requests_per_connection"] = http.max_requests_per_connection
    if tcp.max_connection_duration is not None:
        cluster["max_connection_duration_ms"] = to_ms(tcp.max_connection_duration)


def _protocol(http: HttpSettings, protocol: str, mesh: MeshConfig) -> dict[str, Any]:
    if http.use_client_protocol:
        return {"use_downstream_protocol": True}
    policy = http.h2_upgrade_policy
    if policy is H2UpgradePolicy.DEFAULT and protocol.upper() == "HTTP":
        policy = mesh.h2_upgrade_policy
    if policy is not H2UpgradePolicy.UPGRADE and protocol.upper() not in _HTTP2_PROTOCOLS:
        return {} if protocol else {"use_downstream_protocol": True}
    options: dict[str, int] = {}
    if http.max_concurrent_streams > 0:
        options["max_concurrent_streams"] = http.max_concurrent_streams
    if http.http2_keep_alive is not None:
        options["keepalive_interval_ms"] = to_ms(http.http2_keep_alive.interval or 0)
        options["keepalive_timeout_ms"] = to_ms(http.http2_keep_alive.timeout or 0)
    return {"h2_upstream": Http2Options(**options)}


def _keepalive(rule: TcpKeepaliveBlock | None, mesh: TcpKeepaliveBlock | None) -> TcpKeepalive | None:
    if rule is None and mesh is None:
        return None
    settings: dict[str, int] = {}
    for block in (mesh, rule):
        if block is None:
            continue
        if block.probes > 0:
            settings["probes"] = block.probes
        if block.time is not None:
            settings["time_s"] = block.time // 1_000_000_000
        if block.interval is not None:
            settings["interval_s"] = block.interval // 1_000_000_000
    return TcpKeepalive(**settings)


def _retry_budget(block: RetryBudgetBlock) -> dict[str, Any]:
    budget: dict[str, Any] = {
        "budget_percent": _DEFAULT_BUDGET_PERCENT if block.percent is None else block.percent,
        "min_retry_concurrency": block.min_retry_concurrency or _DEFAULT_BUDGET_CONCURRENCY,
    }
    if block.budget_interval is not None:
        budget["budget_interval_ms"] = to_ms(block.budget_interval)
    return budget


def _load_balancer(
    block: LoadBalancer, cluster_type: ClusterType, release: IstioRelease
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the arguments of `LoadBalancerConfig` and of its slow start."""
    if cluster_type is ClusterType.ORIGINAL_DST:
        return {"policy": LbPolicy.CLUSTER_PROVIDED}, None  # the block is ignored: the destination is given
    default = LbPolicy.LEAST_REQUEST if release.least_request_default else LbPolicy.ROUND_ROBIN
    settings: dict[str, Any] = {"policy": _SIMPLE.get(block.simple or SimpleLb.UNSPECIFIED, default)}
    slow_start = _slow_start(block)
    if settings["policy"] not in {LbPolicy.ROUND_ROBIN, LbPolicy.LEAST_REQUEST}:
        slow_start = None
    if block.consistent_hash is not None:
        settings |= _consistent_hash(block.consistent_hash)
        slow_start = None
    return settings, slow_start


def _slow_start(block: LoadBalancer) -> dict[str, Any] | None:
    if block.warmup is not None:
        warmup = block.warmup
        return {
            "window_ms": to_ms(warmup.duration or 0),
            "aggression": 1.0 if warmup.aggression is None else warmup.aggression,
            "min_weight_percent": 10.0 if warmup.minimum_percent is None else warmup.minimum_percent,
        }
    return None if block.warmup_duration_secs is None else {"window_ms": to_ms(block.warmup_duration_secs)}


def _consistent_hash(block: ConsistentHash) -> dict[str, Any]:
    if block.maglev is not None:
        settings: dict[str, Any] = {"policy": LbPolicy.MAGLEV}
        if block.maglev.table_size:
            settings["maglev_table_size"] = block.maglev.table_size
        return settings
    settings = {"policy": LbPolicy.RING_HASH}
    if block.ring_hash is None:
        settings["ring_hash_minimum_size"] = block.minimum_ring_size or _DEFAULT_RING_SIZE
    elif block.ring_hash.minimum_ring_size:
        settings["ring_hash_minimum_size"] = block.ring_hash.minimum_ring_size
    return settings


def _tls(tls: ClientTls) -> UpstreamTls:
    return UpstreamTls(
        mode=TlsMode[tls.mode.name],
        sni=tls.sni,
        client_certificate=tls.client_certificate,
        private_key=tls.private_key,
        ca_certificates=tls.ca_certificates,
        ca_crl=tls.ca_crl,
        credential_name=tls.credential_name,
        subject_alt_names=tls.subject_alt_names,
        verify=not tls.insecure_skip_verify,
    )
