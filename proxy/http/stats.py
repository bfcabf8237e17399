"""Counters of the listeners' clients, with the names of Envoy's connection manager."""

from collections.abc import Iterator

import attrs

from proxy.codec.http2_options import Http2Stats
from proxy.stats import Metric, MetricKind

STAT_PREFIX = "outbound"

_GAUGES = frozenset(
    {
        "downstream_cx_active",
        "downstream_cx_http2_active",
        "downstream_cx_ssl_active",
        "downstream_rq_active",
    }
)
_CLASSES = (1, 2, 3, 4, 5)


# Envoy counts it at each listener, under the listener's address; here it is one count for all of them.
_OF_LISTENERS = ("downstream_cx_overflow",)


@attrs.define
class HttpStats:
    """One sidecar's clients; `responses` counts replies by status class, `http2` what their HTTP/2 sessions do."""

    downstream_cx_active: int = 0
    downstream_cx_destroy_active_rq: int = 0
    downstream_cx_http2_active: int = 0
    downstream_cx_http2_total: int = 0
    downstream_cx_idle_timeout: int = 0
    downstream_cx_max_duration_reached: int = 0
    downstream_cx_max_requests_reached: int = 0
    downstream_cx_overflow: int = 0
    downstream_cx_protocol_error: int = 0
    downstream_cx_rx_bytes_total: int = 0
    downstream_cx_ssl_active: int = 0
    downstream_cx_ssl_total: int = 0
    downstream_cx_total: int = 0
    downstream_cx_tx_bytes_total: int = 0
    downstream_flow_control_paused_reading_total: int = 0
    downstream_flow_control_resumed_reading_total: int = 0
    downstream_rq_active: int = 0
    downstream_rq_header_timeout: int = 0
    downstream_rq_http1_total: int = 0
    downstream_rq_http2_total: int = 0
    downstream_rq_idle_timeout: int = 0
    downstream_rq_response_before_rq_complete: int = 0
    downstream_rq_rx_reset: int = 0
    downstream_rq_too_many_premature_resets: int = 0
    downstream_rq_total: int = 0
    downstream_rq_ws_on_non_ws_route: int = 0

    http2: Http2Stats = attrs.field(factory=Http2Stats)
    responses: dict[int, int] = attrs.field(factory=lambda: dict.fromkeys(_CLASSES, 0))

    def count_response(self, status: int) -> None:
        """Count a reply; one of 600 or above has no class."""
        status_class = status // 100
        if status_class in self.responses:
            self.responses[status_class] += 1

    def reset_counters(self) -> None:
        """Set every counter to 0; gauges stay."""
        for name in _NAMES:
            if name not in _GAUGES:
                setattr(self, name, 0)
        self.responses = dict.fromkeys(_CLASSES, 0)
        self.http2.reset_counters()

    def metrics(self) -> Iterator[Metric]:
        """Yield every metric."""
        tags = (("envoy.http_conn_manager_prefix", STAT_PREFIX),)
        for name in _NAMES:
            kind = MetricKind.GAUGE if name in _GAUGES else MetricKind.COUNTER
            is_envoys = name not in _OF_LISTENERS
            value = getattr(self, name)
            yield Metric(f"http.{STAT_PREFIX}.{name}", value, kind, f"http.{name}", tags, is_envoys=is_envoys)
        for name, value, is_gauge in self.http2.items():
            kind = MetricKind.GAUGE if is_gauge else MetricKind.COUNTER
            yield Metric(f"http2.{name}", value, kind, f"http2.{name}", ())
        completed = "downstream_rq_completed"
        yield Metric(
            f"http.{STAT_PREFIX}.{completed}",
            sum(self.responses.values()),
            MetricKind.COUNTER,
            f"http.{completed}",
            tags,
        )
        for status_class, count in self.responses.items():
            yield Metric(
                f"http.{STAT_PREFIX}.downstream_rq_{status_class}xx",
                count,
                MetricKind.COUNTER,
                "http.downstream_rq_xx",
                (("envoy.response_code_class", str(status_class)), *tags),
            )


_NAMES = tuple(field.name for field in attrs.fields(HttpStats) if field.type is int)
