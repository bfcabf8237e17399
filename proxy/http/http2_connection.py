"""The server side of one HTTP/2 connection: many exchanges at once, each on a stream of its own.

What a request means is the exchange's, what a frame means the session's (`codec.http2_session`); this class decides
how long the connection lives and when what is written. Ports the HTTP/2 half of `ConnectionManagerImpl` and
`Http2::ServerConnectionImpl` (Envoy, source/common/http).
"""

import asyncio
from typing import TYPE_CHECKING

from proxy.codec.http1_request import RequestHead
from proxy.codec.http2_events import (
    Http2Event,
    PingAck,
    SessionError,
    StreamData,
    StreamEnd,
    StreamFlushed,
    StreamHead,
    StreamRefused,
    StreamReset,
    StreamWritable,
)
from proxy.codec.http2_frames import MAX_STREAM_ID, ErrorCode
from proxy.codec.http2_options import Http2Options
from proxy.codec.http2_session import Http2Session
from proxy.http.client_socket import ClientSocket
from proxy.http.connection_timers import DRAIN_TIMEOUT_MS, ConnectionTimers
from proxy.http.http2_stream import WINDOW_FULL, DownstreamStream
from proxy.http.premature_resets import PrematureResets
from proxy.http.request_headers import REQUEST_HEADERS
from proxy.router.exchange import Exchange
from proxy.router.local_reply import LocalReply, protocol_error

if TYPE_CHECKING:
    from proxy.http.listener import Listener

_OPTIONS = Http2Options(table=REQUEST_HEADERS)

_DRAIN_PING = b"draining"

# Envoy's details of a stream that ended for what was sent on it.
_MALFORMED = "http2.violation.of.messaging.rule"


class Http2Connection(asyncio.Protocol):
    """One client; its streams are `DownstreamStream`s."""

    __slots__ = (
        "_drain_ended",
        "_draining",
        "_feeding",
        "_flushing",
        "_idle_since",
        "_last_begun",
        "_listener",
        "_premature_resets",
        "_requests_left",
        "_streams",
        "_time",
        "_timers",
        "_touched",
        "_transport",
        "_write_scheduled",
        "closing",
        "session",
        "socket",
        "started_at",
        "write_paused",
    )

    def __init__(self, listener: "Listener", transport: asyncio.Transport) -> None:
        self._listener = listener
        self._transport = transport
        deadlines = listener.router.deadlines
        self._time = deadlines.time
        self._timers = ConnectionTimers(self, deadlines, listener.options, listener.stats)
        self._streams: dict[int, DownstreamStream] = {}  # whose exchange is under way
        self._flushing: dict[int, float] = {}  # answered, but the client has not taken all: since when it takes nothing
        self._touched: list[DownstreamStream] = []  # that the present read has brought body for
        self._feeding = False
        self._write_scheduled = False
        self._draining = False
        self._drain_ended = False  # the last stream that is served has been told
        self._requests_left = listener.options.max_requests_per_connection  # counted down from 0, it never is 0 again
        self._premature_resets = PrematureResets()
        self._idle_since = self._time()
        self._last_begun = 0  # the last stream that became a request
        self.session = Http2Session(client=False, options=_OPTIONS, stats=listener.stats.http2)
        self.socket = ClientSocket(transport, deadlines)
        self.write_paused: bool = False
        self.closing = False
        self.started_at = 0.0  # of the first request

    def start(self) -> None:
        """Greet the client."""
        stats = self._listener.stats
        stats.downstream_cx_http2_total += 1
        stats.downstream_cx_http2_active += 1
        self._timers.start()
        self.session.start()
        self.write()

    # The connection, as timers and listener see it

    @property
    def busy(self) -> bool:
        """Whether a request is under way, or the client has yet to take an answer."""
        return bool(self._streams or self._flushing)

    @property
    def active_at(self) -> float:
        """When bytes of the least active stream passed last; without streams, when the last one ended."""
        if not self.busy:
            return self._idle_since
        return min([*(stream.active_at for stream in self._streams.values()), *self._flushing.values()])

    @property
    def keep_alive(self) -> bool:
        """Whether the connection is meant to go on; set to False, the client is told that it is not."""
        return not self._draining

    @keep_alive.setter
    def keep_alive(self, keep_alive: bool) -> None:
        if not keep_alive:
            self._start_drain()

    def close_when_idle(self) -> None:
        """Drain: close now, or behind the responses under way; requests that are on their way are still served."""
        if self.closing:
            return
        if self.busy and not self._draining:
            self._start_drain()
        else:
            self._end_drain()

    def abort(self) -> None:
        """Close at once."""
        self.socket.abort()

    def end_idle_request(self) -> None:
        """End the streams on which nothing has passed for too long."""
        limit = self._listener.options.stream_idle_timeout_ms / 1000
        too_old = self._time() - limit
        for stream in tuple(self._streams.values()):
            if stream.active_at <= too_old:
                stream.end_idle()
        for stream_id, since in tuple(self._flushing.items()):
            if since <= too_old:
                self._listener.stats.http2.tx_flush_timeout += 1
                self.session.reset_stream(stream_id, ErrorCode.NO_ERROR)
                self._on_flushed(stream_id)
        self.write()

    def answer_and_close(self, reply: LocalReply) -> None:
        """End a connection whose client does not finish a head."""
        self._go_away_and_close(ErrorCode.NO_ERROR)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Serve what a read brought."""
        if self.closing:
            return
        stats = self._listener.stats
        stats.downstream_cx_rx_bytes_total += len(data)
        if not self._transport.get_write_buffer_size():
            self.session.on_written()
        self._feeding = True
        for event in self.session.feed(data):
            self._dispatch(event)
        touched, self._touched = self._touched, []
        for stream in touched:
            stream.on_read_end()
        self._feeding = False
        if self.session.in_head is not self._timers.watching_head:
            self._timers.turn_head()
        self._close_if_done()
        self.write()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or we closed."""
        self.closing = True
        listener = self._listener
        self.socket.on_lost()
        self._timers.stop()
        listener.router.deadlines.clear(self._end_drain, DRAIN_TIMEOUT_MS)
        del self._timers  # it holds us as we hold it; the collector would find out late
        self.session.close()
        listener.on_disconnected(self)
        listener.stats.downstream_cx_http2_active -= 1
        if self._streams:
            listener.stats.downstream_cx_destroy_active_rq += 1
        self._end_streams()

    def pause_writing(self) -> None:
        """The client takes no more for now, on any stream."""
        self.write_paused = True
        for stream in tuple(self._streams.values()):
            stream.on_socket_writable(writable=False)

    def resume_writing(self) -> None:
        """The client takes more."""
        self.session.on_written()
        self.write_paused = False
        now = self._time()
        for stream in tuple(self._streams.values()):
            stream.active_at = now
            stream.on_socket_writable(writable=True)
        for stream_id in self._flushing:
            self._flushing[stream_id] = now

    # For streams

    def schedule_write(self) -> None:
        """Write soon: what several streams have to say in one turn of the loop goes out in one piece."""
        if not self._feeding and not self._write_scheduled:
            self._write_scheduled = True
            self._listener.router.loop.call_soon(self.write)

    def write(self) -> None:
        """Write what the session has to say."""
        self._write_scheduled = False
        if not self._feeding and not self.closing:
            self._write_output()

    def _write_output(self) -> None:
        data = self.session.take_output()
        if data and not self._transport.is_closing():
            self._listener.stats.downstream_cx_tx_bytes_total += len(data)
            self.socket.write(data)
            if not self._transport.get_write_buffer_size():
                self.session.on_written()

    def on_stream_done(self, stream: DownstreamStream, *, reset: bool = False) -> None:
        """A stream's exchange has ended; `reset` by the client, or for what the client sent on it."""
        del self._streams[stream.stream_id]
        self._listener.stats.downstream_rq_active -= 1
        self._listener.log(stream, stream.exchange)
        now = self._time()
        if self.session.has_stream(stream.stream_id):
            self._flushing[stream.stream_id] = now
        self._idle_since = now
        unanswered = reset and not stream.exchange.status
        del stream.exchange  # the two hold each other
        if self._premature_resets.on_stream_end(reset_unanswered=unanswered, lifetime_ms=stream.duration_ms):
            self._listener.stats.downstream_rq_too_many_premature_resets += not self.closing
            self._go_away_and_close(ErrorCode.ENHANCE_YOUR_CALM)
        if not self._feeding:
            self._close_if_done()
            self.schedule_write()

    # Own

    def _dispatch(self, event: Http2Event) -> None:
        """Pass one event on to whom it concerns."""
        if isinstance(event, StreamHead):
            assert isinstance(event.head, RequestHead), "a server's session"
            self._begin(event.stream_id, event.head, None)
        elif isinstance(event, StreamRefused):
            error = event.error
            reply = protocol_error(error.status, error.body, error.details)
            self._begin(event.stream_id, RequestHead(b"", b"", b"", [], 0), reply)
        elif isinstance(event, SessionError):
            self._listener.stats.downstream_cx_protocol_error += 1
            self._end_streams(protocol_error=True)
            self._go_away_and_close(None)
        elif isinstance(event, PingAck):
            if self._draining and event.payload == _DRAIN_PING:
                self._end_drain()
        elif isinstance(event, (StreamData, StreamEnd, StreamFlushed, StreamReset, StreamWritable)):
            stream = self._streams.get(event.stream_id)
            if stream is not None:
                self._dispatch_to(stream, event)
            elif event.stream_id in self._flushing and isinstance(event, (StreamFlushed, StreamReset)):
                self._on_flushed(event.stream_id)
            elif isinstance(event, StreamData):
                self.session.consume(event.stream_id, len(event.data))  # nobody wants it any more
            elif isinstance(event, StreamReset) and event.stream_id > self._last_begun and not self.closing:
                self._note_malformed(event.stream_id)

    def _dispatch_to(
        self, stream: DownstreamStream, event: StreamData | StreamEnd | StreamFlushed | StreamReset | StreamWritable
    ) -> None:
        stream.active_at = self._time()
        if isinstance(event, StreamData):
            if not stream.touched:
                stream.touched = True
                self._touched.append(stream)
            stream.on_data(event.data)
        elif isinstance(event, StreamEnd):
            stream.on_end(event.trailers)
        elif isinstance(event, StreamWritable):
            stream.block(WINDOW_FULL, blocked=False)
        elif isinstance(event, StreamReset):
            if event.remote:
                self._listener.stats.downstream_rq_rx_reset += 1
                stream.on_gone(reset=True)
            else:
                stream.on_protocol_error(_MALFORMED)
            self.on_stream_done(stream, reset=True)

    def _begin(self, stream_id: int, head: RequestHead, refusal: LocalReply | None) -> None:
        """Start the exchange of one request, or answer what is not to be served."""
        if self.closing:
            return
        stats = self._listener.stats
        stream = self._add_stream(stream_id)
        self._last_begun = stream_id
        self._requests_left -= 1
        if not self._requests_left:
            stats.downstream_cx_max_requests_reached += 1
            self._start_drain()
        elif self._listener.draining:
            self._start_drain()
        stream.begin(head, refusal)

    def _note_malformed(self, stream_id: int) -> None:
        """Count and log what never became a request."""
        stream = self._add_stream(stream_id)
        stream.exchange = Exchange(self._listener.router, stream, RequestHead(b"", b"", b"", [], 0))
        stream.on_protocol_error(_MALFORMED)
        self.on_stream_done(stream, reset=True)

    def _add_stream(self, stream_id: int) -> DownstreamStream:
        stats = self._listener.stats
        stats.downstream_rq_total += 1
        stats.downstream_rq_http2_total += 1
        stats.downstream_rq_active += 1
        stream = self._streams[stream_id] = DownstreamStream(self, self._listener, stream_id, self._time())
        self.started_at = self.started_at or stream.started_at
        return stream

    def _end_streams(self, *, protocol_error: bool = False) -> None:
        """Nobody can be answered any more."""
        streams, self._streams = self._streams, {}
        self._flushing.clear()
        self._listener.stats.downstream_rq_active -= len(streams)
        for stream in streams.values():
            if protocol_error:
                stream.on_protocol_error("http2.protocol_error")
            else:
                stream.on_gone()
            self._listener.log(stream, stream.exchange)
            del stream.exchange  # the two hold each other

    def _on_flushed(self, stream_id: int) -> None:
        """The client has taken the last of an answer, or wants no more of it."""
        del self._flushing[stream_id]
        self._idle_since = self._time()

    def _start_drain(self) -> None:
        """Ask the client for no further streams; those that it opens before it hears of it are served.

        A ping tells when it has heard. Envoy waits its drain time instead, which is the limit here.
        """
        if self._draining or self.closing:
            return
        self._draining = True
        self.session.go_away(ErrorCode.NO_ERROR, MAX_STREAM_ID)
        self.session.ping(_DRAIN_PING)
        self._listener.router.deadlines.set(self._end_drain, DRAIN_TIMEOUT_MS)
        self.schedule_write()

    def _end_drain(self) -> None:
        """Say which stream is the last, and close behind it."""
        if self._drain_ended or self.closing:
            return
        self._draining = self._drain_ended = True
        self.session.go_away()
        if not self._feeding:
            self._close_if_done()
            self.schedule_write()

    def _close_if_done(self) -> None:
        """Close a drained connection behind its last response."""
        if self._drain_ended and not self.busy and not self.closing:
            self._go_away_and_close(None)

    def _go_away_and_close(self, error_code: ErrorCode | None) -> None:
        """Close once the client has had time to read what is written; None if it has been told why already."""
        if self.closing:
            return
        if error_code is not None:
            self.session.go_away(error_code)
        self._write_output()
        self.closing = True
        self.socket.close_gently()
