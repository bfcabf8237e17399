"""What one comparison is configured with, in Istio's terms, before either proxy's own form."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

AIM_HEADER = "x-aim"
# Istio's default conditions for a retry.
RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"


@attrs.frozen(kw_only=True)
class Service:
    """One service with its rule; both proxies reach it by the authority `host`.

    `outlier_detection` is the DestinationRule block, None for no block. `overrides` are fields of Envoy's
    `OutlierDetection` that no DestinationRule reaches (`enforcing_success_rate`, `detect_degraded_hosts`, ...), laid
    over what the rule converts to; durations are protobuf JSON (`"0.5s"`). `retries` are made on
    `retry_on`, Istio's default conditions; `hedged` keeps an attempt whose `per_try_timeout_ms` (0: none) is over.
    `http2` says that the hosts speak HTTP/2. `connection_pool` is further of the DestinationRule's `connectionPool`.
    `balancer` is `ROUND_ROBIN`, or `RING_HASH` over the request header `x-aim`.
    """

    host: str
    addresses: Sequence[str]
    outlier_detection: Mapping[str, Any] | None
    overrides: Mapping[str, Any] = attrs.field(factory=dict)
    balancer: str = "ROUND_ROBIN"
    retries: int = 0
    retry_on: str = RETRY_ON
    per_try_timeout_ms: int = 0
    hedged: bool = False
    http2: bool = False
    connection_pool: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000

    @property
    def cluster_name(self) -> str:
        """Istio's name of the cluster, which both proxies use."""
        return f"outbound|80||{self.host}"
