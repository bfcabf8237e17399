"""The server side of one client connection: HTTP/1.1 requests in, responses out, one exchange at a time.

Pipelined requests wait their turn; the client is not read while they do, so memory is bounded by one read. What a
request means is the exchange's; this class decides how long the connection lives and adds the connection manager's
headers. Ports the HTTP/1 half of `ConnectionManagerImpl` and `Http1::ServerConnectionImpl` (Envoy,
source/common/http).
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from proxy.codec.headers import STATUS_LINES, HeaderList, render_head
from proxy.codec.http1_encode import CONTINUE, encode_chunk, encode_last_chunk, encode_response_head
from proxy.codec.http1_parser import End, ProtocolError
from proxy.codec.http1_request import RequestHead, RequestParser
from proxy.codec.http1_response import ResponseHead
from proxy.http.client_socket import ClientSocket
from proxy.http.connection_timers import ConnectionTimers
from proxy.http.request_headers import REQUEST_HEADERS, prepare_request
from proxy.http.response_headers import finish_response
from proxy.router.exchange import Exchange
from proxy.router.local_reply import UPGRADE_REFUSED, LocalReply, protocol_error, stream_idle_timeout

if TYPE_CHECKING:
    from proxy.http.listener import Listener

# Above this much unsent response the host is not read.
WRITE_HIGH_WATER_BYTES = 256 * 1024

# Why the client is not read; bits, since several reasons may hold at once.
_PIPELINE = 1  # a further request waits for the exchange to end
_BODY = 2  # the way to the host is full
_UPGRADE = 4  # the host has not yet answered whether the protocol changes

# What a client may send ahead while another protocol has been asked for and the host has not answered.
MAX_HELD_BYTES = 64 * 1024

_SWITCHING_PROTOCOLS = 101


class DownstreamConnection(asyncio.Protocol):
    """One client; the `ResponseEncoder` of its present exchange."""

    __slots__ = (
        "_chunked",
        "_exchange",
        "_head_request",
        "_listener",
        "_out",
        "_parser",
        "_pumping",
        "_queue",
        "_request_ended",
        "_requests_left",
        "_socket",
        "_time",
        "_timers",
        "_tunnel",
        "_upgrading",
        "_write_paused",
        "active_at",
        "bytes_received",
        "bytes_sent",
        "closing",
        "keep_alive",
        "started_at",
    )

    protocol = "HTTP/1.1"

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._parser = RequestParser(REQUEST_HEADERS)
        self._out: list[bytes] = []  # encoded, not yet written: one write for all that one read of the host brings
        self._queue: deque[Any] = deque()
        self._exchange: Exchange | None = None
        self.keep_alive = True
        self._chunked = self._head_request = False
        self._write_paused = False
        self._upgrading = False  # another protocol is asked for and the host has not answered
        self._tunnel = False  # bytes pass unparsed, both ways
        self._request_ended = True
        self._pumping = False
        self.closing = False
        self.bytes_received = self.bytes_sent = 0
        self.started_at = 0.0  # of the present request or the one before
        deadlines = listener.router.deadlines
        self._time = deadlines.time
        self._timers = ConnectionTimers(self, deadlines, listener.options, listener.stats)
        self._requests_left = listener.options.max_requests_per_connection  # counted down from 0, it never is 0 again
        self.active_at = self._time()  # when bytes of a client or for it passed last

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._exchange is not None

    @property
    def duration_ms(self) -> int:
        """Time since the present request's head."""
        return round((self._time() - self.started_at) * 1000)

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`; empty for a unix socket."""
        return self._socket.remote_address

    @property
    def local_address(self) -> str:
        """The `ip:port` that the client has connected to; empty for a unix socket."""
        return self._socket.local_address

    def close_when_idle(self) -> None:
        """Drain: close now, or behind the response under way."""
        if self._exchange is None and not self._queue:
            self.closing = True
            self._socket.close()
        else:
            self.keep_alive = False

    def abort(self) -> None:
        """Close at once."""
        self._socket.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES)
        self._socket = ClientSocket(transport, self._listener.router.deadlines)
        if self._listener.admit(self):
            self._timers.start()
        else:
            self.closing = True
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Serve what a read brought."""
        if self.closing:
            return
        self.active_at = self._time()
        self._listener.stats.downstream_cx_rx_bytes_total += len(data)
        events = self._parser.feed(data)
        if self._parser.in_head is not self._timers.watching_head:
            self._timers.turn_head()
        if self._upgrading and self._parser.held_bytes > MAX_HELD_BYTES:
            self._socket.disable_read(_UPGRADE)
        idle = self._exchange is None and not self._queue and not self._write_paused
        if idle and len(events) == 1 and type(events[0]) is RequestHead:
            self._begin(events[0])  # by far the most frequent read: one request without a body
        else:
            self._queue.extend(events)
            if not self._pumping:
                self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or we closed."""
        self.closing = True
        self._queue.clear()
        listener = self._listener
        self._socket.on_lost()
        self._timers.stop()
        del self._timers  # it holds us as we hold it; the collector would find out late
        self._parser.close()
        listener.on_disconnected(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            listener.stats.downstream_cx_destroy_active_rq += 1
            listener.stats.downstream_rq_active -= 1
            exchange.on_client_gone()
            listener.log(self, exchange)

    def eof_received(self) -> bool:
        """The client sends no more: the end of everything, as in Envoy, but for a tunnel's other direction."""
        if self._tunnel and self._exchange is not None:
            self._exchange.on_request_end([])
            return self._socket.can_half_close
        return False

    def pause_writing(self) -> None:
        """The client takes no more for now: neither of this response nor of the next one."""
        self._write_paused = True
        if self._exchange is not None:
            self._exchange.on_response_writable(writable=False)

    def resume_writing(self) -> None:
        """The client takes more."""
        self._write_paused = False
        self.active_at = self._time()
        if self._exchange is not None:
            self._exchange.on_response_writable(writable=True)
        else:
            self._go_on()

    # ResponseEncoder

    def encode_interim(self, head: ResponseHead) -> None:
        """Send an interim head."""
        self._socket.write(render_head(STATUS_LINES[head.status], head.headers))

    def encode_headers(self, head: ResponseHead) -> None:
        """Send the response's head, with the connection manager's headers."""
        listener = self._listener
        if self._upgrading and self._exchange is not None:
            self._end_upgrade(self._exchange, head.status)
        if not self._request_ended and not self._tunnel:
            listener.stats.downstream_rq_response_before_rq_complete += 1
            self.keep_alive = False
        elif listener.draining:
            self.keep_alive = False
        # A tunnel's connection ends with it, and the client knows.
        finish_response(head, listener.date, close=not self.keep_alive and not self._tunnel)
        data, self._chunked = encode_response_head(
            head.status,
            head.headers,
            content_length=head.content_length,
            end_stream=head.end_stream,
            head_request=self._head_request,
        )
        listener.stats.count_response(head.status)
        self._out.append(data)
        if head.end_stream:
            self.flush()
            self._on_response_complete()

    def encode_data(self, data: bytes) -> None:
        """Send a piece of the response's body."""
        self.bytes_sent += len(data)
        self._out.append(encode_chunk(data) if self._chunked else data)

    def encode_end(self, trailers: HeaderList) -> None:
        """Finish the response."""
        if self._chunked:
            self._out.append(encode_last_chunk(trailers))
        self.flush()
        self._on_response_complete()

    def flush(self) -> None:
        """Write what was encoded since the last write."""
        out = self._out
        if out:
            self._out = []
            data = out[0] if len(out) == 1 else b"".join(out)
            self.active_at = self._time()
            self._listener.stats.downstream_cx_tx_bytes_total += len(data)
            self._socket.write(data)

    def reset(self) -> None:
        """Cut the response off."""
        self.flush()
        self.keep_alive = False
        self._request_ended = False  # whatever was left of it is not read
        self._on_response_complete()

    def pause_request(self) -> None:
        """Read no more of the request's body for now."""
        self._listener.stats.downstream_flow_control_paused_reading_total += 1
        self._socket.disable_read(_BODY)

    def resume_request(self) -> None:
        """Go on reading it."""
        self._listener.stats.downstream_flow_control_resumed_reading_total += 1
        self._socket.enable_read(_BODY)

    # Requests

    def _pump(self) -> None:
        """Hand queued events on as far as they can go now."""
        queue = self._queue
        self._pumping = True
        while queue and not self.closing:
            event = queue[0]
            kind = type(event)
            if kind is RequestHead:
                if self._exchange is not None or self._write_paused:
                    self._socket.disable_read(_PIPELINE)
                    break
                queue.popleft()
                self._begin(event)
            elif kind is ProtocolError:
                if self._exchange is not None and self._request_ended:
                    self._socket.disable_read(_PIPELINE)
                    break  # it belongs to the next request, and this one is answered first
                self._refuse(event)
            else:
                queue.popleft()
                exchange = self._exchange
                if kind is End:
                    self._request_ended = True
                    if exchange is not None:
                        exchange.on_request_end(event.trailers)
                elif exchange is not None:
                    self.bytes_received += len(event)
                    exchange.on_request_data(event)
        self._pumping = False
        if not self._request_ended and self._exchange is not None:
            self._exchange.on_request_read_end()

    def _begin(self, head: RequestHead) -> None:
        """Start the exchange of one request."""
        listener = self._listener
        stats = listener.stats
        stats.downstream_rq_total += 1
        stats.downstream_rq_http1_total += 1
        stats.downstream_rq_active += 1
        self.started_at = self.active_at  # just now: bytes have come, or the response before has gone
        self.bytes_received = self.bytes_sent = 0
        self._head_request = head.method == b"HEAD"
        self._request_ended = head.end_stream
        if not head.keep_alive or head.method == b"CONNECT":
            self.keep_alive = False
        if head.expects_continue:
            self._socket.write(CONTINUE)
        self._requests_left -= 1
        if not self._requests_left:
            stats.downstream_cx_max_requests_reached += 1
            self.keep_alive = False
        prepare_request(head, listener.scheme, listener.random)
        if head.upgrade and not self._begin_upgrade(head):
            return
        exchange = self._exchange = Exchange(listener.router, self, head)
        exchange.start(listener.virtual_host(head.authority))

    def _begin_upgrade(self, head: RequestHead) -> bool:
        """Decide what becomes of a request for another protocol; return whether the request goes on."""
        if head.upgrade == b"websocket" and head.end_stream:
            self._upgrading = True
            head.end_stream = self._request_ended = False  # what the client sends from here on is the tunnel's
            return True
        upgrade, head.upgrade = head.upgrade, b""
        if head.end_stream:  # or it is a later one whose bytes are held
            self._queue.extendleft(reversed(self._parser.refuse_upgrade()))
            if self._queue:
                self._socket.disable_read(_PIPELINE)
        if upgrade == b"h2c":  # offered, not demanded: Envoy serves the request as it is
            return True
        self._listener.stats.downstream_rq_ws_on_non_ws_route += 1
        self.keep_alive = False
        exchange = self._exchange = Exchange(self._listener.router, self, head)
        exchange.refuse(UPGRADE_REFUSED)
        return False

    def _end_upgrade(self, exchange: Exchange, status: int) -> None:
        """The host has answered a request for another protocol: a tunnel, or a response like any other."""
        self._upgrading = False
        self._socket.enable_read(_UPGRADE)
        if status == _SWITCHING_PROTOCOLS:
            self._tunnel = True
            self.keep_alive = False
            for data in self._parser.accept_upgrade():
                exchange.on_request_data(data)
            exchange.on_request_read_end()
            return
        self._request_ended = True
        self._queue.extend(self._parser.refuse_upgrade())

    def _on_response_complete(self) -> None:
        """The response is out (or cut off): close, or go on with the next request."""
        exchange, self._exchange = self._exchange, None
        listener = self._listener
        if exchange is not None:
            listener.stats.downstream_rq_active -= 1
            listener.log(self, exchange)
        if not self.keep_alive:
            self.closing = True
            (self._socket.close if self._request_ended else self._socket.close_gently)()
            return
        self._go_on()

    def _go_on(self) -> None:
        """Serve what waits, or read."""
        if self._queue and not self._pumping:
            self._pump()
        if not self._queue:
            self._socket.enable_read(_PIPELINE)

    def _refuse(self, error: ProtocolError) -> None:
        """Answer what is not HTTP/1.1 as we accept it, and close."""
        self._listener.stats.downstream_cx_protocol_error += 1
        self.answer_and_close(protocol_error(error.status, error.body, error.details))

    def end_idle_request(self) -> None:
        """Neither side sends anything of the request under way: end it, and the connection where it cannot go on."""
        if self._exchange is not None:
            self._exchange.refuse(stream_idle_timeout(request_ended=self._request_ended))

    def answer_and_close(self, reply: LocalReply) -> None:
        """End the present request, or one that never became a request, with `reply`; then close."""
        self.keep_alive = self._request_ended = False
        self._queue.clear()
        exchange = self._exchange
        if exchange is None:
            self._head_request = False
            self._listener.stats.downstream_rq_active += 1
            self.started_at = self._time()
            self.bytes_received = self.bytes_sent = 0
            exchange = self._exchange = Exchange(self._listener.router, self, RequestHead(b"", b"", b"", [], 0))
        exchange.refuse(reply)
