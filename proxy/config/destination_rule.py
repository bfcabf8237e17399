# ruff: noqa: RUF009 - the field functions return attrs.field()
"""The DestinationRule message (istio.networking.v1alpha3, also served as v1beta1 and v1), whole.

Field names and types follow the proto; see `message` for how they are read.
"""

import enum
from collections.abc import Mapping

import attrs

from proxy.config.message import (
    Message,
    boolean,
    duration,
    enumeration,
    int32,
    mapping,
    message,
    optional_boolean,
    optional_double,
    optional_string,
    optional_uint32,
    optional_uint64,
    read_string,
    read_uint32,
    repeated,
    string,
    uint32,
    uint64,
)


@attrs.frozen(kw_only=True)
class OutlierDetection(Message):
    """Istio's block, before conversion; `outlier.OutlierDetection` is what Envoy gets."""

    consecutive_errors: int = int32()
    interval: int | None = duration()
    base_ejection_time: int | None = duration()
    max_ejection_percent: int = int32()
    min_health_percent: int = int32()
    consecutive_gateway_errors: int | None = optional_uint32()
    consecutive_5xx_errors: int | None = optional_uint32()
    split_external_local_origin_errors: bool = boolean()
    consecutive_local_origin_failures: int | None = optional_uint32()
    outlier_detection_http_error_codes: tuple[int, ...] = repeated(read_uint32)


class SimpleLb(enum.Enum):
    """Load balancing without a key."""

    UNSPECIFIED = 0
    LEAST_CONN = 1
    RANDOM = 2
    PASSTHROUGH = 3
    ROUND_ROBIN = 4
    LEAST_REQUEST = 5


@attrs.frozen(kw_only=True)
class HttpCookieAttribute(Message):
    """One attribute of the affinity cookie."""

    name: str = string()
    value: str = string()


@attrs.frozen(kw_only=True)
class HttpCookie(Message):
    """Affinity by a cookie that is made when absent."""

    name: str = string()
    path: str = string()
    ttl: int | None = duration()
    attributes: tuple[HttpCookieAttribute | None, ...] = repeated(HttpCookieAttribute)


@attrs.frozen(kw_only=True)
class RingHash(Message):
    """Ring hash settings."""

    minimum_ring_size: int = uint64()


@attrs.frozen(kw_only=True)
class Maglev(Message):
    """Maglev settings; the size is unset or as written, since 0 is refused."""

    table_size: int | None = optional_uint64()


@attrs.frozen(kw_only=True)
class ConsistentHash(Message):
    """Load balancing by a key; `minimum_ring_size` is the deprecated place of the ring's size."""

    http_header_name: str | None = optional_string()
    http_cookie: HttpCookie | None = message(HttpCookie)
    use_source_ip: bool | None = optional_boolean()
    http_query_parameter_name: str | None = optional_string()
    minimum_ring_size: int = uint64()
    ring_hash: RingHash | None = message(RingHash)
    maglev: Maglev | None = message(Maglev)


@attrs.frozen(kw_only=True)
class Distribute(Message):
    """Traffic of one locality, spread by weight."""

    from_: str = string()
    to: Mapping[str, int] = mapping(read_uint32)


@attrs.frozen(kw_only=True)
class Failover(Message):
    """The region that comes after another one."""

    from_: str = string()
    to: str = string()


@attrs.frozen(kw_only=True)
class LocalityLbSetting(Message):
    """Preference for near endpoints."""

    distribute: tuple[Distribute | None, ...] = repeated(Distribute)
    failover: tuple[Failover | None, ...] = repeated(Failover)
    failover_priority: tuple[str, ...] = repeated(read_string)
    enabled: bool | None = optional_boolean()


@attrs.frozen(kw_only=True)
class ZoneAwareLbSetting(Message):
    """Preference for the own zone, weighed against its load."""

    enabled: bool | None = optional_boolean()
    failover: tuple[Failover | None, ...] = repeated(Failover)
    failover_priority: tuple[str, ...] = repeated(read_string)
    min_cluster_size: int | None = optional_uint64()


@attrs.frozen(kw_only=True)
class Warmup(Message):
    """Growing load for a new endpoint."""

    duration: int | None = duration()
    minimum_percent: float | None = optional_double()
    aggression: float | None = optional_double()


@attrs.frozen(kw_only=True)
class LoadBalancer(Message):
    """LoadBalancerSettings; `simple` and `consistent_hash` exclude each other."""

    simple: SimpleLb | None = enumeration(SimpleLb)
    consistent_hash: ConsistentHash | None = message(ConsistentHash)
    locality_lb_setting: LocalityLbSetting | None = message(LocalityLbSetting)
    zone_aware_lb_setting: ZoneAwareLbSetting | None = message(ZoneAwareLbSetting)
    warmup_duration_secs: int | None = duration()
    warmup: Warmup | None = message(Warmup)


@attrs.frozen(kw_only=True)
class TcpKeepalive(Message):
    """SO_KEEPALIVE of upstream connections."""

    probes: int = uint32()
    time: int | None = duration()
    interval: int | None = duration()


@attrs.frozen(kw_only=True)
class TcpSettings(Message):
    """Connection limits and times."""

    max_connections: int = int32()
    connect_timeout: int | None = duration()
    tcp_keepalive: TcpKeepalive | None = message(TcpKeepalive)
    max_connection_duration: int | None = duration()
    idle_timeout: int | None = duration()


class H2UpgradePolicy(enum.Enum):
    """Whether HTTP/1.1 requests go upstream as HTTP/2."""

    DEFAULT = 0
    DO_NOT_UPGRADE = 1
    UPGRADE = 2


@attrs.frozen(kw_only=True)
class Http2KeepAlive(Message):
    """PING frames to the upstream; both times are required."""

    interval: int | None = duration()
    timeout: int | None = duration()


@attrs.frozen(kw_only=True)
class HttpSettings(Message):
    """Request limits and times."""

    http1_max_pending_requests: int = int32()
    http2_max_requests: int = int32()
    max_requests_per_connection: int = int32()
    max_retries: int = int32()
    idle_timeout: int | None = duration()
    h2_upgrade_policy: H2UpgradePolicy = enumeration(H2UpgradePolicy, H2UpgradePolicy.DEFAULT)
    use_client_protocol: bool = boolean()
    max_concurrent_streams: int = int32()
    http2_keep_alive: Http2KeepAlive | None = message(Http2KeepAlive)


@attrs.frozen(kw_only=True)
class ConnectionPool(Message):
    """ConnectionPoolSettings."""

    tcp: TcpSettings | None = message(TcpSettings)
    http: HttpSettings | None = message(HttpSettings)


class TlsMode(enum.Enum):
    """How the connection to the upstream is secured."""

    DISABLE = 0
    SIMPLE = 1
    MUTUAL = 2
    ISTIO_MUTUAL = 3


@attrs.frozen(kw_only=True)
class ClientTls(Message):
    """ClientTLSSettings."""

    mode: TlsMode = enumeration(TlsMode, TlsMode.DISABLE)
    client_certificate: str = string()
    private_key: str = string()
    ca_certificates: str = string()
    ca_crl: str = string()
    credential_name: str = string()
    subject_alt_names: tuple[str, ...] = repeated(read_string)
    sni: str = string()
    insecure_skip_verify: bool | None = optional_boolean()


@attrs.frozen(kw_only=True)
class PortSelector(Message):
    """A service port."""

    number: int = uint32()


@attrs.frozen(kw_only=True)
class PortTrafficPolicy(Message):
    """What replaces the policy's four blocks on one service port."""

    port: PortSelector | None = message(PortSelector)
    load_balancer: LoadBalancer | None = message(LoadBalancer)
    connection_pool: ConnectionPool | None = message(ConnectionPool)
    outlier_detection: OutlierDetection | None = message(OutlierDetection)
    tls: ClientTls | None = message(ClientTls)


@attrs.frozen(kw_only=True)
class Tunnel(Message):
    """TCP through a forward proxy."""

    protocol: str = string()
    target_host: str = string()
    target_port: int = uint32()


class ProxyProtocolVersion(enum.Enum):
    """Version of the PROXY header."""

    V1 = 0
    V2 = 1


@attrs.frozen(kw_only=True)
class ProxyProtocol(Message):
    """A PROXY header before the first byte."""

    version: ProxyProtocolVersion = enumeration(ProxyProtocolVersion, ProxyProtocolVersion.V1)


@attrs.frozen(kw_only=True)
class RetryBudget(Message):
    """Retries as a share of active requests; 0.3 means 0.3 %."""

    percent: float | None = optional_double()
    min_retry_concurrency: int = uint32()
    budget_interval: int | None = duration()


@attrs.frozen(kw_only=True)
class TrafficPolicy(Message):
    """Policy of a rule or of a subset, in blocks that are never merged field by field."""

    load_balancer: LoadBalancer | None = message(LoadBalancer)
    connection_pool: ConnectionPool | None = message(ConnectionPool)
    outlier_detection: OutlierDetection | None = message(OutlierDetection)
    tls: ClientTls | None = message(ClientTls)
    port_level_settings: tuple[PortTrafficPolicy | None, ...] = repeated(PortTrafficPolicy)
    tunnel: Tunnel | None = message(Tunnel)
    proxy_protocol: ProxyProtocol | None = message(ProxyProtocol)
    retry_budget: RetryBudget | None = message(RetryBudget)


@attrs.frozen(kw_only=True)
class Subset(Message):
    """The endpoints that carry all of `labels`, under a name."""

    name: str = string()
    labels: Mapping[str, str] = mapping()
    traffic_policy: TrafficPolicy | None = message(TrafficPolicy)


@attrs.frozen(kw_only=True)
class WorkloadSelector(Message):
    """The client workloads that a rule is for."""

    match_labels: Mapping[str, str] = mapping()


@attrs.frozen(kw_only=True)
class DestinationRule(Message):
    """Policy for the traffic to a host."""

    host: str = string()
    traffic_policy: TrafficPolicy | None = message(TrafficPolicy)
    subsets: tuple[Subset | None, ...] = repeated(Subset)
    export_to: tuple[str, ...] = repeated(read_string)
    workload_selector: WorkloadSelector | None = message(WorkloadSelector)
