"""Counters of one cluster's traffic, with Envoy's names.

Plain integers that connections, pools and exchanges add to; `cluster/cluster_metrics.py` lists them for a scrape.
"""

from collections.abc import Iterator

import attrs

from proxy.codec.http2_options import Http2Stats
from proxy.stats import Histogram

_GAUGES = frozenset({"upstream_cx_active", "upstream_rq_active", "upstream_rq_pending_active"})


@attrs.define
class ClusterStats:
    """One cluster's statistics.

    `responses` counts final replies by status, local ones included: `upstream_rq_<code>`, `upstream_rq_<class>xx` and
    `upstream_rq_completed` are sums over it; `retried_responses` are those that a retry
    followed. `request_time_ms` and `connect_time_ms` are histograms. `http2` counts what HTTP/2 connections see, None
    before a pool of them was made.
    """

    lb_healthy_panic: int = 0
    upstream_cx_active: int = 0
    upstream_cx_close_notify: int = 0
    upstream_cx_connect_fail: int = 0
    upstream_cx_connect_timeout: int = 0
    upstream_cx_destroy: int = 0
    upstream_cx_destroy_local: int = 0
    upstream_cx_destroy_local_with_active_rq: int = 0
    upstream_cx_destroy_remote: int = 0
    upstream_cx_destroy_remote_with_active_rq: int = 0
    upstream_cx_destroy_with_active_rq: int = 0
    upstream_cx_http1_total: int = 0
    upstream_cx_http2_total: int = 0
    upstream_cx_idle_timeout: int = 0
    upstream_cx_max_duration_reached: int = 0
    upstream_cx_max_requests: int = 0
    upstream_cx_none_healthy: int = 0
    upstream_cx_overflow: int = 0
    upstream_cx_protocol_error: int = 0
    upstream_cx_rx_bytes_total: int = 0
    upstream_cx_total: int = 0
    upstream_cx_tx_bytes_total: int = 0
    upstream_flow_control_paused_reading_total: int = 0
    upstream_flow_control_resumed_reading_total: int = 0
    upstream_rq_active: int = 0
    upstream_rq_active_overflow: int = 0
    upstream_rq_cancelled: int = 0
    upstream_rq_pending_active: int = 0
    upstream_rq_pending_failure_eject: int = 0
    upstream_rq_pending_overflow: int = 0
    upstream_rq_pending_total: int = 0
    upstream_rq_per_try_idle_timeout: int = 0
    upstream_rq_per_try_timeout: int = 0
    upstream_rq_retry: int = 0
    upstream_rq_retry_backoff_exponential: int = 0
    upstream_rq_retry_limit_exceeded: int = 0
    upstream_rq_retry_overflow: int = 0
    upstream_rq_retry_success: int = 0
    retry_or_shadow_abandoned: int = 0
    upstream_rq_rx_reset: int = 0
    upstream_rq_timeout: int = 0
    upstream_rq_total: int = 0
    upstream_rq_tx_reset: int = 0

    responses: dict[int, int] = attrs.field(factory=dict)
    retried_responses: dict[int, int] = attrs.field(factory=dict)
    request_time_ms: Histogram = attrs.field(factory=Histogram)
    connect_time_ms: Histogram = attrs.field(factory=Histogram)
    http2: Http2Stats | None = None

    def count_response(self, status: int) -> None:
        """Count a final reply."""
        self.responses[status] = self.responses.get(status, 0) + 1

    def count_retried_response(self, status: int) -> None:
        """Count a response that the client does not see because the request is sent again."""
        self.retried_responses[status] = self.retried_responses.get(status, 0) + 1

    def items(self) -> Iterator[tuple[str, int, bool]]:
        """Yield `(name, value, is_gauge)` of every plain counter and gauge."""
        for name in _NAMES:
            yield name, getattr(self, name), name in _GAUGES

    def reset_counters(self) -> None:
        """Set every counter to 0; gauges and histograms stay."""
        for name in _NAMES:
            if name not in _GAUGES:
                setattr(self, name, 0)
        if self.http2 is not None:
            self.http2.reset_counters()
        self.responses.clear()
        self.retried_responses.clear()


_NAMES = tuple(field.name for field in attrs.fields(ClusterStats) if field.type is int)
