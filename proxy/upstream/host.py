"""One upstream host: its address, its health flags and the counters that `/clusters` shows.

The object of the hot path: the balancer returns it, the pool hangs on it, the monitor is one of its attributes. It
knows none of them. Identity is the host: a removed and re-added address is a new `Host` with fresh state, as in Envoy.
Ports the state half of `HostDescriptionImpl` and `HostImpl` (Envoy, source/common/upstream/upstream_impl.h).
"""

import enum
from typing import TYPE_CHECKING

from outlier import NULL_MONITOR, HostMonitor
from proxy.config.cluster_config import Endpoint, HealthStatus, Locality
from proxy.upstream.host_shadow import HostShadow

if TYPE_CHECKING:
    from proxy.upstream.connection_pool import ConnectionPool
    from proxy.upstream.named_pools import NamedPools
    from proxy.upstream.protocol_pools import ProtocolPools


class HealthFlag(enum.IntFlag):
    """Why a host is not plainly healthy; the order is that of the words on `/clusters`."""

    FAILED_ACTIVE_HC = 1
    FAILED_OUTLIER_CHECK = 2
    FAILED_EDS_HEALTH = 4
    DEGRADED_ACTIVE_HC = 8
    DEGRADED_EDS_HEALTH = 16
    PENDING_DYNAMIC_REMOVAL = 32
    PENDING_ACTIVE_HC = 64
    EXCLUDED_VIA_IMMEDIATE_HC_FAIL = 128
    ACTIVE_HC_TIMEOUT = 256
    EDS_STATUS_DRAINING = 512
    DEGRADED_OUTLIER_DETECTION = 1024


_UNHEALTHY = int(
    HealthFlag.FAILED_ACTIVE_HC
    | HealthFlag.FAILED_OUTLIER_CHECK
    | HealthFlag.FAILED_EDS_HEALTH
    | HealthFlag.EDS_STATUS_DRAINING
)
_DEGRADED = int(HealthFlag.DEGRADED_ACTIVE_HC | HealthFlag.DEGRADED_EDS_HEALTH | HealthFlag.DEGRADED_OUTLIER_DETECTION)
_EXCLUDED = int(
    HealthFlag.PENDING_ACTIVE_HC | HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL | HealthFlag.EDS_STATUS_DRAINING
)

_CONFIGURED = int(HealthFlag.FAILED_EDS_HEALTH | HealthFlag.EDS_STATUS_DRAINING | HealthFlag.DEGRADED_EDS_HEALTH)

# Plain integers: arithmetic with members of an enum would take most of the time of a page over 10,000 hosts.
_FLAG_WORDS = tuple((int(flag), f"/{flag.name.lower()}") for flag in HealthFlag if flag.name)

_STATUS_FLAGS = {
    HealthStatus.UNHEALTHY: HealthFlag.FAILED_EDS_HEALTH,
    HealthStatus.TIMEOUT: HealthFlag.FAILED_EDS_HEALTH,
    HealthStatus.DRAINING: HealthFlag.EDS_STATUS_DRAINING,
    HealthStatus.DEGRADED: HealthFlag.DEGRADED_EDS_HEALTH,
}


class Host:
    """A member of a cluster.

    Counters carry the names of `/clusters`; `rq_active` is also what least-request balancing reads. Mutable attributes
    are written by the data plane directly: one host sees every request, so a method call each would be the costlier
    design.
    """

    __slots__ = (
        "address",
        "cx_active",
        "cx_connect_fail",
        "cx_total",
        "endpoint",
        "health_flags",
        "monitor",
        "pool",
        "rq_active",
        "rq_error",
        "rq_pending_active",
        "rq_success",
        "rq_timeout",
        "rq_total",
        "shadow",
        "weight",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self.address = endpoint.address
        self.health_flags = 0
        self.update(endpoint)
        self.monitor: HostMonitor = NULL_MONITOR
        self.shadow: HostShadow | None = None
        self.pool: ConnectionPool | NamedPools | ProtocolPools | None = None
        self.cx_active = 0
        self.cx_connect_fail = 0
        self.cx_total = 0
        self.rq_active = 0
        self.rq_error = 0
        self.rq_pending_active = 0
        self.rq_success = 0
        self.rq_timeout = 0
        self.rq_total = 0

    def __repr__(self) -> str:
        return f"Host({self.address}, {self.health_flags_text()})"

    def update(self, endpoint: Endpoint) -> None:
        """Take new attributes of the same address; health found out by ourselves stays."""
        self.endpoint = endpoint
        self.weight = endpoint.weight
        self.health_flags = self.health_flags & ~_CONFIGURED | int(_STATUS_FLAGS.get(endpoint.health_status, 0))

    @property
    def priority(self) -> int:
        """0 is used first."""
        return self.endpoint.priority

    @property
    def locality(self) -> Locality:
        """Where the host is."""
        return self.endpoint.locality

    @property
    def unhealthy(self) -> bool:
        """Whether any flag takes the host out of both the healthy and the degraded list."""
        return self.health_flags & _UNHEALTHY != 0

    @property
    def healthy(self) -> bool:
        """Whether the host is neither unhealthy nor degraded."""
        return self.health_flags & (_UNHEALTHY | _DEGRADED) == 0

    @property
    def degraded(self) -> bool:
        """Whether the host may serve, after all healthy ones."""
        flags = self.health_flags
        return flags & _UNHEALTHY == 0 and flags & _DEGRADED != 0

    @property
    def excluded(self) -> bool:
        """Whether the host leaves the denominator of its priority's health."""
        return self.health_flags & _EXCLUDED != 0

    def set_flag(self, flag: HealthFlag) -> None:
        """Turn one flag on."""
        self.health_flags |= int(flag)  # a plain integer, which requests read, not a member of the enum

    def clear_flag(self, flag: HealthFlag) -> None:
        """Turn one flag off."""
        self.health_flags &= ~int(flag)

    def put_flag(self, flag: HealthFlag, *, on: bool) -> None:
        """Turn one flag on or off."""
        if on:
            self.set_flag(flag)
        else:
            self.clear_flag(flag)

    def has_flag(self, flag: HealthFlag) -> bool:
        """Whether the flag is on."""
        return self.health_flags & flag != 0

    def health_flags_text(self) -> str:
        """Return `healthy`, or each flag with a leading slash, as `/clusters` prints it."""
        flags = self.health_flags
        return "".join(word for bit, word in _FLAG_WORDS if flags & bit) or "healthy"
