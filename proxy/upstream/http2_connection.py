"""One HTTP/2 connection to an upstream host: it carries many requests, each as a stream.

Turns events of the session into calls of each stream's `ResponseDecoder`, and requests into frames. The end of a stream
concerns that stream; only what the connection suffers ends all of them. Ports the client side of Envoy's
`Http2::ClientConnectionImpl` and `CodecClient`.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from proxy.codec.http1_response import ResponseHead
from proxy.codec.http2_events import (
    GoAway,
    Http2Event,
    PingAck,
    SessionError,
    SettingsReceived,
    StreamData,
    StreamEnd,
    StreamFlushed,
    StreamHead,
    StreamReset,
    StreamWritable,
)
from proxy.codec.http2_options import Http2Options
from proxy.codec.http2_session import Http2Session
from proxy.upstream.connection import MAX_HEAD_BYTES, RESPONSE_HEADERS, WRITE_HIGH_WATER_BYTES
from proxy.upstream.http2_keepalive import Http2Keepalive
from proxy.upstream.http2_stream import UpstreamStream
from proxy.upstream.stream import RequestEncoder, ResetReason, ResponseDecoder

if TYPE_CHECKING:
    from proxy.upstream.connection_pool import ConnectAttempt
    from proxy.upstream.http2_pool import Http2Pool

# A stream may be this far ahead of its client; Envoy's 16 MiB would have to be kept for each client that stops reading.
STREAM_WINDOW_BYTES = 1024 * 1024

# Until so many clients have stopped reading, none of them keeps the others of its connection waiting.
CONNECTION_WINDOW_BYTES = 256 * STREAM_WINDOW_BYTES

_OPTIONS = Http2Options(
    table=RESPONSE_HEADERS,
    max_head_bytes=MAX_HEAD_BYTES,
    stream_window_bytes=STREAM_WINDOW_BYTES,
    connection_window_bytes=CONNECTION_WINDOW_BYTES,
    high_water_bytes=WRITE_HIGH_WATER_BYTES,
)


class Http2Connection(asyncio.Protocol):
    """A connection of an `Http2Pool`; `requests` counts those it has taken."""

    __slots__ = (
        "_attempt",
        "_flush_scheduled",
        "_keepalive",
        "_stream_limit",
        "_streams",
        "_transport",
        "closed",
        "draining",
        "host",
        "idle_since",
        "max_duration_ms",
        "pool",
        "requests",
        "session",
        "writable",
    )

    def __init__(self, pool: "Http2Pool", attempt: "ConnectAttempt") -> None:
        self.pool = pool
        self.host = pool.host
        self.session = Http2Session(client=True, options=_OPTIONS, stats=pool.http2_stats)
        self._attempt = attempt
        self._stream_limit = pool.max_concurrent_streams  # ours; the session has the host's
        self._streams: dict[int, UpstreamStream] = {}
        self._keepalive: Http2Keepalive | None = None
        self._flush_scheduled = False
        self.closed = False
        self.draining = False
        self.idle_since = 0.0
        self.max_duration_ms = 0
        self.requests = 0
        self.writable = True  # the socket takes more

    @property
    def busy(self) -> bool:
        """Whether the connection carries a request."""
        return bool(self._streams)

    @property
    def has_capacity(self) -> bool:
        """Whether the connection can take one more request."""
        return len(self._streams) < self._stream_limit and not self.draining and self.session.can_open_stream

    def attach(self, decoder: ResponseDecoder) -> RequestEncoder:
        """Give a request its stream."""
        stream_id = self.session.open_stream()
        stream = self._streams[stream_id] = UpstreamStream(self, stream_id, decoder)
        self.requests += 1
        self.pool.on_attached(self)
        return stream

    def remove(self, stream: UpstreamStream) -> None:
        """A stream has ended, one way or the other."""
        if self._streams.pop(stream.id, None) is not None:
            stream.on_removed()
            self.pool.on_stream_closed(self)

    def schedule_flush(self) -> None:
        """Write soon: what several requests have to say in one turn of the loop goes out in one piece."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.pool.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what the session has to say."""
        self._flush_scheduled = False
        data = self.session.take_output()
        if data and not self.closed:
            self.pool.stats.upstream_cx_tx_bytes_total += len(data)
            self._transport.write(data)
            if self.writable:
                self.session.on_written()

    def close(self) -> None:
        """Close a connection that carries no request."""
        self._end(ResetReason.CONNECTION_TERMINATION, "", remote=False)

    def terminate(self) -> None:
        """Close at once; requests are reset."""
        self._end(ResetReason.CONNECTION_TERMINATION, "closed by the sidecar", remote=False)

    def on_max_duration(self) -> None:
        """The connection is as old as it may become: closed now, or when its requests are done."""
        if not self.closed:  # in the same sweep
            self.pool.stats.upstream_cx_max_duration_reached += 1
            self._drain()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the pool."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES)
        self.session.start()
        self._keepalive = self.pool.new_keepalive(self._ping, self._on_keepalive_timeout)
        self.pool.on_connected(self, self._attempt)
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Pass on what a read brought."""
        if self.closed:
            return
        self.pool.stats.upstream_cx_rx_bytes_total += len(data)
        if self._keepalive is not None:
            self._keepalive.on_data()
        self._dispatch(self.session.feed(data))
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the requests."""
        self._end(ResetReason.CONNECTION_TERMINATION, str(exc or ""), remote=True)

    def pause_writing(self) -> None:
        """The socket is full."""
        self._on_writable(writable=False)

    def resume_writing(self) -> None:
        """The socket has drained."""
        self.session.on_written()
        self._on_writable(writable=True)

    def _dispatch(self, events: list[Http2Event]) -> None:
        """Pass events on, and at last say to each stream that was read that there is no more."""
        read: dict[int, None] = {}
        for event in events:
            if isinstance(event, StreamData):
                read[event.stream_id] = None
                if (stream := self._streams.get(event.stream_id)) is not None:
                    stream.on_data(event.data)
            elif isinstance(event, StreamHead):
                read[event.stream_id] = None
                if (stream := self._streams.get(event.stream_id)) is not None:
                    stream.on_head(cast("ResponseHead", event.head))
            elif isinstance(event, StreamEnd):
                if (stream := self._streams.get(event.stream_id)) is not None:
                    stream.on_end(event.trailers)
            else:
                self._on_rare_event(event)
            if self.closed:
                return
        for stream_id in read:
            if (stream := self._streams.get(stream_id)) is not None:
                stream.on_read_end()

    def _on_writable(self, *, writable: bool) -> None:
        self.writable = writable
        for stream in tuple(self._streams.values()):
            stream.on_writable()

    def _on_rare_event(self, event: Http2Event) -> None:
        if isinstance(event, StreamReset):
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.on_reset(event.error_code)
        elif isinstance(event, StreamWritable | StreamFlushed):
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.on_window_open()
        elif isinstance(event, SettingsReceived):
            self.pool.on_capacity(self)
        elif isinstance(event, PingAck):
            if self._keepalive is not None:
                self._keepalive.start()
        elif isinstance(event, GoAway):
            self.pool.stats.upstream_cx_close_notify += 1
            self._drain()
        elif isinstance(event, SessionError):
            self.pool.stats.upstream_cx_protocol_error += 1
            self.flush()
            self._end(ResetReason.PROTOCOL_ERROR, event.reason, remote=False)

    def _ping(self, payload: bytes) -> None:
        self.session.ping(payload)
        self.flush()

    def _drain(self) -> None:
        """Take no further request, and close as soon as none is left."""
        self.draining = True
        self.pool.on_capacity(self)
        if not self._streams:
            self.close()

    def _on_keepalive_timeout(self) -> None:
        self.pool.http2_stats.keepalive_timeout += 1
        self._end(ResetReason.CONNECTION_TERMINATION, "no answer to a ping", remote=False)

    def _end(self, reason: ResetReason, detail: str, *, remote: bool) -> None:
        """The connection is gone, and with it every request on it; what is unsent is lost."""
        if self.closed:
            return
        self.closed = True
        streams, self._streams = self._streams, {}
        self.session.close()
        if self._keepalive is not None:
            self._keepalive.stop()
        if not remote:
            self._transport.abort()
        terminated = reason is ResetReason.CONNECTION_TERMINATION
        stats = self.pool.stats
        if terminated:
            stats.upstream_rq_pending_failure_eject += len(streams)
        else:
            stats.upstream_rq_tx_reset += len(streams)
        for _ in streams:
            self.pool.on_request_done()
        self.pool.on_connection_closed(self, remote=remote, busy=terminated and bool(streams))
        for stream in streams.values():
            stream.on_removed()
            stream.lose(reason, detail)
