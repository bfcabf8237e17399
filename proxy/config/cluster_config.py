"""What the data plane needs to know about one cluster: the counterpart of Envoy's `Cluster` message.

Frozen data without behaviour. `cluster_builder` makes it from Istio resources, `proxy/cluster` runs it. Names are
Envoy's; durations are integer milliseconds. A new configuration is a new object; an unchanged part keeps its identity,
so `is` and `==` both answer "did this change?".
"""

import enum
from collections.abc import Mapping

import attrs

from outlier import OutlierDetection

UINT32_MAX = 4_294_967_295  # Istio sends it for "no limit"; Envoy's own defaults are 1024/1024/1024/3


@attrs.frozen(order=True)
class Locality:
    """Where an endpoint, or this sidecar, is: region, zone, sub-zone; empty strings when unknown."""

    region: str = ""
    zone: str = ""
    sub_zone: str = ""

    @classmethod
    def parse(cls, text: str) -> "Locality":
        """Read Istio's `region/zone/subzone`; missing parts are empty."""
        region, _, rest = text.partition("/")
        zone, _, sub_zone = rest.partition("/")
        return cls(region, zone, sub_zone)

    def __str__(self) -> str:
        return f"{self.region}/{self.zone}/{self.sub_zone}".rstrip("/")


class HealthStatus(enum.Enum):
    """Health of an endpoint as its configuration states it (Envoy's `core.v3.HealthStatus`)."""

    UNKNOWN = "UNKNOWN"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    TIMEOUT = "TIMEOUT"
    DEGRADED = "DEGRADED"


@attrs.frozen(kw_only=True)
class Endpoint:
    """One upstream address.

    `address` is `ip:port`, `[v6]:port`, or the path of a unix socket with the prefix `unix://`; for DNS clusters
    `name:port`. `weight` is 1..2^32-1. `priority` 0 is used first. An endpoint that stands for an address of a name has
    that name, as it was configured, in `resolved_from`, and in `alternates` what else a connection may go to.
    """

    address: str
    hostname: str = ""
    weight: int = 1
    priority: int = 0
    locality: Locality = Locality()
    labels: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    health_status: HealthStatus = HealthStatus.UNKNOWN
    canary: bool = False
    hash_key: str | None = None
    resolved_from: str = ""
    alternates: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """What makes two endpoints the same host; two names may well share an address."""
        return " ".join((self.resolved_from, self.address, *self.alternates)) if self.resolved_from else self.address


class ClusterType(enum.Enum):
    """How the hosts of a cluster are found (Envoy's `Cluster.DiscoveryType`)."""

    STATIC = "STATIC"
    EDS = "EDS"
    STRICT_DNS = "STRICT_DNS"
    LOGICAL_DNS = "LOGICAL_DNS"
    ORIGINAL_DST = "ORIGINAL_DST"

    @property
    def is_dns(self) -> bool:
        """Whether the endpoints are names to be looked up."""
        return self in {ClusterType.STRICT_DNS, ClusterType.LOGICAL_DNS}


class LbPolicy(enum.Enum):
    """Envoy's `Cluster.LbPolicy`."""

    ROUND_ROBIN = "ROUND_ROBIN"
    LEAST_REQUEST = "LEAST_REQUEST"
    RANDOM = "RANDOM"
    RING_HASH = "RING_HASH"
    MAGLEV = "MAGLEV"
    CLUSTER_PROVIDED = "CLUSTER_PROVIDED"


@attrs.frozen(kw_only=True)
class SlowStart:
    """Envoy's `SlowStartConfig`: weight grows over `window_ms`; `min_weight_percent` is 0..100."""

    window_ms: int
    aggression: float = 1.0
    min_weight_percent: float = 10.0


class HashFunction(enum.Enum):
    """Hash of the ring's entries (Envoy's `RingHashLbConfig.HashFunction`)."""

    XX_HASH = "XX_HASH"
    MURMUR_HASH_2 = "MURMUR_HASH_2"


class SelectionMethod(enum.Enum):
    """How least request looks for the least loaded host."""

    N_CHOICES = "N_CHOICES"
    FULL_SCAN = "FULL_SCAN"


@attrs.frozen(kw_only=True)
class LoadBalancerConfig:
    """Policy and its settings; a setting of another policy than `policy` is ignored, as Envoy does.

    `None` in `ring_hash_minimum_size` and `maglev_table_size` means "not sent", so Envoy's 1024 and 65537 apply.
    `healthy_panic_threshold` is in percent and may be a fraction; `None` is "not sent": Envoy's 50.
    """

    policy: LbPolicy = LbPolicy.LEAST_REQUEST
    ring_hash_minimum_size: int | None = None
    ring_hash_maximum_size: int | None = None
    ring_hash_function: HashFunction = HashFunction.XX_HASH
    maglev_table_size: int | None = None
    hash_balance_factor: int = 0
    use_hostname_for_hashing: bool = False
    least_request_choice_count: int = 2
    least_request_active_request_bias: float = 1.0
    least_request_selection_method: SelectionMethod = SelectionMethod.N_CHOICES
    slow_start: SlowStart | None = None
    healthy_panic_threshold: float | None = None
    overprovisioning_factor: int = 140
    weighted_priority_health: bool = False
    locality_weighted: bool = False
    locality_weights: Mapping[tuple[int, Locality], int] = attrs.field(factory=dict, hash=False)
    fail_traffic_on_panic: bool = False


@attrs.frozen(kw_only=True)
class RetryBudget:
    """Envoy's `RetryBudget`: retries allowed as a share of active and pending requests; `budget_percent` is 0..100."""

    budget_percent: float = 20.0
    min_retry_concurrency: int = 3
    budget_interval_ms: int = 0


@attrs.frozen(kw_only=True)
class CircuitBreakers:
    """Limits of a cluster's default priority; Istio's defaults (no limit), not Envoy's."""

    max_connections: int = UINT32_MAX
    max_pending_requests: int = UINT32_MAX
    max_requests: int = UINT32_MAX
    max_retries: int = UINT32_MAX
    retry_budget: RetryBudget | None = None


@attrs.frozen(kw_only=True)
class TcpKeepalive:
    """Envoy's `TcpKeepalive`; None leaves a setting to the operating system."""

    probes: int | None = None
    time_s: int | None = None
    interval_s: int | None = None


@attrs.frozen(kw_only=True)
class Http2Options:
    """HTTP/2 towards the upstream; None means "not sent"."""

    max_concurrent_streams: int | None = None
    keepalive_interval_ms: int | None = None
    keepalive_timeout_ms: int | None = None


class TlsMode(enum.Enum):
    """How connections to the upstream are secured; ISTIO_MUTUAL, not applied, would take the mesh's certificates."""

    SIMPLE = "SIMPLE"
    MUTUAL = "MUTUAL"
    ISTIO_MUTUAL = "ISTIO_MUTUAL"


@attrs.frozen(kw_only=True)
class UpstreamTls:
    """TLS towards the upstream; paths are those of files, empty when not given.

    Without `sni` the request's host is asked for, and (unless `subject_alt_names` are given) verified.
    """

    mode: TlsMode
    sni: str = ""
    client_certificate: str = ""
    private_key: str = ""
    ca_certificates: str = ""
    ca_crl: str = ""
    credential_name: str = ""
    subject_alt_names: tuple[str, ...] = ()
    verify: bool = True


@attrs.frozen(kw_only=True)
class Tunnel:
    """TCP through a forward proxy, by `protocol` CONNECT or POST."""

    protocol: str
    target_host: str
    target_port: int


@attrs.frozen(kw_only=True)
class ShadowSettings:
    """Outlier detection that a cluster tries out; it ejects nobody.

    `panic_threshold` is in percent; `error_codes` replaces "a 5xx is an error" as in `ClusterConfig`.
    """

    detection: OutlierDetection
    panic_threshold: float
    error_codes: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class ClusterConfig:
    """One upstream cluster, ready to run.

    `name` is Istio's `outbound|<port>|<subset>|<host>`. `idle_timeout_ms` 0 keeps idle connections for ever.
    `max_requests_per_connection` and `max_connection_duration_ms` 0 mean no limit. `error_codes` replaces "a 5xx is an
    error" in outlier detection; empty leaves it. `dns_refresh_ms` is the wait after a lookup that failed or found
    nothing; records' own TTLs hold otherwise. Hosts are spoken to in HTTP/2 if `h2_upstream` is set, in the
    protocol of the client's request with `use_downstream_protocol`, otherwise in HTTP/1.1. `proxy_protocol` is the
    version of the PROXY header, 1 or 2.

    The sidecar does not apply `proxy_protocol` and `tunnel`: they are carried for `outlier explain`, and `outlier
    check` warns about each.
    """

    name: str
    service_host: str
    port: int
    subset: str = ""
    type: ClusterType = ClusterType.EDS
    endpoints: tuple[Endpoint, ...] = ()
    connect_timeout_ms: int = 10_000
    outlier_detection: OutlierDetection | None = None
    shadow: ShadowSettings | None = None
    load_balancer: LoadBalancerConfig = LoadBalancerConfig()
    circuit_breakers: CircuitBreakers = CircuitBreakers()
    idle_timeout_ms: int = 3_600_000
    max_requests_per_connection: int = 0
    max_connection_duration_ms: int = 0
    error_codes: tuple[int, ...] = ()
    dns_refresh_ms: int = 60_000
    tcp_keepalive: TcpKeepalive | None = None
    h2_upstream: Http2Options | None = None
    use_downstream_protocol: bool = False
    tls: UpstreamTls | None = None
    proxy_protocol: int | None = None
    tunnel: Tunnel | None = None
