"""What a HTTP/2 session allows its peer, and what it counts; defaults and names are Envoy's."""

from collections.abc import Iterator

import attrs

from proxy.codec.headers import HeaderTable
from proxy.codec.http1_parser import MAX_HEAD_BYTES, MAX_HEADERS


@attrs.frozen(kw_only=True)
class Http2Options:
    """One side's limits.

    Args:
        table: What a head's conversion does with which header, as in HTTP/1.1.
        max_concurrent_streams: Streams that the peer may have open at once.
        stream_window_bytes: What the peer may send on one stream before it is acknowledged by `consume`.
        connection_window_bytes: The same for all streams together; not below 65,535.
        max_head_bytes: Longest accepted head, as `name: value` lines; of interim heads, all of a response together.
        max_headers: Most lines of a head, pseudo-headers included, or of the trailers.
        high_water_bytes: Above this much that waits on a stream for the peer's window, `send_data` says stop.
    """

    table: HeaderTable
    max_concurrent_streams: int = 1_024
    stream_window_bytes: int = 16 * 1024 * 1024
    connection_window_bytes: int = 24 * 1024 * 1024
    max_head_bytes: int = MAX_HEAD_BYTES
    max_headers: int = MAX_HEADERS
    high_water_bytes: int = 256 * 1024


@attrs.define
class Http2Stats:
    """What sessions count, with the names of Envoy's `http2.*`; `streams_active`, `pending_send_bytes` are gauges."""

    goaway_sent: int = 0
    header_overflow: int = 0
    headers_cb_no_stream: int = 0
    inbound_empty_frames_flood: int = 0
    inbound_priority_frames_flood: int = 0
    inbound_window_update_frames_flood: int = 0
    keepalive_timeout: int = 0
    outbound_control_flood: int = 0
    outbound_flood: int = 0
    pending_send_bytes: int = 0
    rx_messaging_error: int = 0
    rx_reset: int = 0
    stream_refused_errors: int = 0
    streams_active: int = 0
    trailers: int = 0
    tx_flush_timeout: int = 0
    tx_reset: int = 0

    def items(self) -> Iterator[tuple[str, int, bool]]:
        """Yield name, value and whether it is a gauge."""
        for name in _NAMES:
            yield name, getattr(self, name), name in _GAUGES

    def reset_counters(self) -> None:
        """Set every counter to 0; gauges stay."""
        for name in _NAMES:
            if name not in _GAUGES:
                setattr(self, name, 0)


_GAUGES = frozenset({"pending_send_bytes", "streams_active"})
_NAMES = tuple(field.name for field in attrs.fields(Http2Stats))
