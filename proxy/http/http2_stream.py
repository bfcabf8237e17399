"""The client's side of one exchange in HTTP/2: a stream of its connection."""

from typing import TYPE_CHECKING

from proxy.codec.headers import HeaderList
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.http2_frames import ErrorCode
from proxy.codec.http2_headers import response_lines
from proxy.http.request_headers import prepare_request
from proxy.http.response_headers import finish_response
from proxy.response_flags import ResponseFlag
from proxy.router.exchange import Exchange
from proxy.router.local_reply import LocalReply, stream_idle_timeout

if TYPE_CHECKING:
    from proxy.http.http2_connection import Http2Connection
    from proxy.http.listener import Listener

# Why the response is not taken; bits, since both may hold at once.
WINDOW_FULL = 1  # the client has not acknowledged what this stream has sent
SOCKET_FULL = 2


class DownstreamStream:
    """The `ResponseEncoder` of one exchange. `active_at` is when bytes of it passed last."""

    __slots__ = (
        "_blocked",
        "_connection",
        "_done",
        "_held_bytes",
        "_listener",
        "_paused",
        "_request_ended",
        "active_at",
        "bytes_received",
        "bytes_sent",
        "exchange",
        "started_at",
        "stream_id",
        "touched",
    )

    protocol = "HTTP/2"
    exchange: Exchange

    def __init__(self, connection: "Http2Connection", listener: "Listener", stream_id: int, now: float) -> None:
        self._connection = connection
        self._listener = listener
        self._request_ended = False
        self._paused = False
        self._held_bytes = 0  # passed on while paused: the client may not yet send as many
        self._blocked = SOCKET_FULL if connection.write_paused else 0
        self._done = False
        self.stream_id = stream_id
        self.started_at = self.active_at = now
        self.bytes_received = 0
        self.bytes_sent = 0
        self.touched = False  # the present read has brought body

    @property
    def duration_ms(self) -> int:
        """Time since the request's head."""
        return round((self._listener.router.deadlines.time() - self.started_at) * 1000)

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`; empty for a unix socket."""
        return self._connection.socket.remote_address

    @property
    def local_address(self) -> str:
        """The `ip:port` that the client has connected to; empty for a unix socket."""
        return self._connection.socket.local_address

    # From the connection

    def begin(self, head: RequestHead, refusal: LocalReply | None) -> None:
        """Start the exchange."""
        listener = self._listener
        self.exchange = exchange = Exchange(listener.router, self, head)
        if refusal is not None:
            exchange.refuse(refusal)
            return
        self._request_ended = head.end_stream
        if head.expects_continue:
            self._connection.session.send_headers(self.stream_id, response_lines(100, []), end_stream=False)
        prepare_request(head, listener.scheme, listener.random)
        exchange.start(listener.virtual_host(head.authority))

    def on_data(self, data: bytes) -> None:
        """Pass on a piece of the request's body."""
        self.bytes_received += len(data)
        if self._paused:
            self._held_bytes += len(data)
        else:
            self._connection.session.consume(self.stream_id, len(data))
        self.exchange.on_request_data(data)

    def on_read_end(self) -> None:
        """No more has arrived yet."""
        self.touched = False
        if not self._request_ended and not self._done:
            self.exchange.on_request_read_end()

    def on_end(self, trailers: HeaderList) -> None:
        """The request is complete."""
        self._request_ended = True
        self.exchange.on_request_end(trailers)

    def on_gone(self, *, reset: bool = False) -> None:
        """The client can get no answer, or wants none: `reset`."""
        self._done = True
        self.exchange.on_client_gone(reset=reset)

    def on_protocol_error(self, details: str) -> None:
        """The client has broken the protocol, and gets no answer."""
        self.on_gone()
        self.exchange.flags = (ResponseFlag.DOWNSTREAM_PROTOCOL_ERROR,)
        self.exchange.details = details

    def on_socket_writable(self, *, writable: bool) -> None:
        """The connection's socket is full, or has drained."""
        self.block(SOCKET_FULL, blocked=not writable)

    def block(self, reason: int, *, blocked: bool) -> None:
        """Note that the response is not taken for a reason, or for that one no longer."""
        before = self._blocked
        self._blocked = before | reason if blocked else before & ~reason
        if bool(before) is not bool(self._blocked) and not self._done:
            self.exchange.on_response_writable(writable=not self._blocked)

    def end_idle(self) -> None:
        """Neither side sends anything: end the exchange."""
        self.exchange.refuse(stream_idle_timeout(request_ended=self._request_ended))

    # ResponseEncoder

    def encode_interim(self, head: ResponseHead) -> None:
        """Send an interim head."""
        self._connection.session.send_headers(
            self.stream_id, response_lines(head.status, head.headers), end_stream=False
        )
        self._connection.schedule_write()
        if self._blocked:
            self.exchange.on_response_writable(writable=False)  # this host has not been told yet

    def encode_headers(self, head: ResponseHead) -> None:
        """Send the response's head, with the connection manager's headers."""
        listener = self._listener
        if not self._request_ended:
            listener.stats.downstream_rq_response_before_rq_complete += 1
        finish_response(head, listener.date, close=False)
        listener.stats.count_response(head.status)
        self.active_at = listener.router.deadlines.time()
        self._connection.session.send_headers(
            self.stream_id, response_lines(head.status, head.headers), end_stream=head.end_stream
        )
        if head.end_stream:
            self._finish()
        elif self._blocked:
            self.exchange.on_response_writable(writable=False)  # this host has not been told yet

    def encode_data(self, data: bytes) -> None:
        """Send a piece of the response's body."""
        self.bytes_sent += len(data)
        if not self._connection.session.send_data(self.stream_id, data):
            self.block(WINDOW_FULL, blocked=True)

    def encode_end(self, trailers: HeaderList) -> None:
        """Finish the response."""
        self._connection.session.send_end(self.stream_id, trailers)
        self._finish()

    def flush(self) -> None:
        """Let what was encoded be written."""
        self.active_at = self._listener.router.deadlines.time()
        self._connection.schedule_write()

    def reset(self) -> None:
        """Cut the response off."""
        self._connection.session.reset_stream(self.stream_id, ErrorCode.INTERNAL_ERROR)
        self._finish()

    def pause_request(self) -> None:
        """Let the client send no more than its window."""
        self._listener.stats.downstream_flow_control_paused_reading_total += 1
        self._paused = True

    def resume_request(self) -> None:
        """Let it go on."""
        self._listener.stats.downstream_flow_control_resumed_reading_total += 1
        self._paused = False
        held, self._held_bytes = self._held_bytes, 0
        if held:
            self._connection.session.consume(self.stream_id, held)
            self._connection.schedule_write()

    def _finish(self) -> None:
        self._done = True
        self._connection.on_stream_done(self)
