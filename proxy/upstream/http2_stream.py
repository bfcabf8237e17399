"""One request on an HTTP/2 connection, as the router's `RequestEncoder`.

Holds back what the host may send while the client does not read, and tells the client's side when the host's window or
the socket is full. Ports `Http2::ConnectionImpl::ClientStreamImpl` and the stream half of `MultiplexedActiveClientBase`
(Envoy, source/common/http/http2/codec_impl.cc, source/common/http/conn_pool_base.cc).
"""

from typing import TYPE_CHECKING

from proxy.codec.headers import HeaderList, get_header
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.http2_frames import ErrorCode
from proxy.codec.http2_headers import request_lines
from proxy.upstream.http2_upgrade import switching_protocols, upgrade_lines
from proxy.upstream.stream import ResetReason, ResponseDecoder

if TYPE_CHECKING:
    from proxy.upstream.http2_connection import Http2Connection

_RESET_REASONS: dict[int, ResetReason] = {
    ErrorCode.PROTOCOL_ERROR: ResetReason.PROTOCOL_ERROR,
    ErrorCode.REFUSED_STREAM: ResetReason.REMOTE_REFUSED_STREAM_RESET,
    ErrorCode.CONNECT_ERROR: ResetReason.CONNECT_ERROR,
}


# A host that owes only the end of a stream, or has only the rest of a request to take, is given so long.
END_TIMEOUT_MS = 5_000


class UpstreamStream:
    """A stream from its attachment to its end; `decoder` is None once the router needs no more of it."""

    __slots__ = (
        "_awaits_end",
        "_connection",
        "_head_request",
        "_reading",
        "_request_sent",
        "_unconsumed",
        "_upgrade",
        "_window_open",
        "_writable",
        "decoder",
        "host",
        "id",
    )

    def __init__(self, connection: "Http2Connection", stream_id: int, decoder: ResponseDecoder) -> None:
        self._awaits_end = False
        self._connection = connection
        self._head_request = False
        self._reading = True
        self._request_sent = False
        self._upgrade = b""
        self._unconsumed = 0  # received while the client does not read
        self._window_open = True  # the session takes more of the body
        self._writable = True  # as the decoder was told last
        self.decoder: ResponseDecoder | None = decoder
        self.host = connection.host
        self.id = stream_id

    # RequestEncoder

    def encode_headers(self, head: RequestHead, headers: HeaderList, *, end_stream: bool) -> None:
        """Send the head; its scheme is that of the client's request."""
        self._head_request = head.method == b"HEAD"
        self._upgrade = head.upgrade
        scheme = b"https" if get_header(headers, b"x-forwarded-proto") == b"https" else b"http"
        lines = upgrade_lines(head, headers, scheme) if head.upgrade else request_lines(head, headers, scheme)
        end_stream = end_stream and not head.upgrade
        self._request_sent = end_stream
        connection = self._connection
        connection.session.send_headers(self.id, lines, end_stream=end_stream)
        if end_stream:
            connection.schedule_flush()
        else:
            self.on_writable()

    def encode_data(self, data: bytes) -> None:
        """Send a piece of body."""
        if not self._connection.session.send_data(self.id, data):
            self._window_open = False
            self.on_writable()

    def encode_end(self, trailers: HeaderList) -> None:
        """Finish the body."""
        self._request_sent = True
        connection = self._connection
        connection.session.send_end(self.id, trailers)
        connection.schedule_flush()

    def flush(self) -> None:
        """Write what was encoded since the last write."""
        self._connection.schedule_flush()

    def reset(self) -> None:
        """Give the request up; the connection and its other requests go on."""
        self.decoder = None
        self._reset()
        self._connection.remove(self)
        self._connection.schedule_flush()

    def pause_reading(self) -> None:
        """Take no more of the response than the stream's window lets come."""
        self._connection.pool.stats.upstream_flow_control_paused_reading_total += 1
        self._reading = False

    def resume_reading(self) -> None:
        """Go on reading."""
        self._connection.pool.stats.upstream_flow_control_resumed_reading_total += 1
        self._reading = True
        size, self._unconsumed = self._unconsumed, 0
        if size:
            self._connection.session.consume(self.id, size)
            self._connection.schedule_flush()

    # From the connection

    def on_head(self, head: ResponseHead) -> None:
        """Pass a head on; one that ends the stream, or has no body by its nature, is the whole response."""
        decoder = self.decoder
        if decoder is None:
            return
        if self._upgrade and head.status == 200:
            ends = head.end_stream
            decoder.on_response_headers(switching_protocols(head, self._upgrade))
            if ends and self.decoder is not None:
                self.on_end([])
            return
        if head.status >= 200:
            ends = head.end_stream
            if self._head_request or head.status in (204, 304):
                head.end_stream = True  # an empty frame may follow, which HTTP/1.1 has no place for
            if head.end_stream:
                self.decoder = None
                self._finish(ended=ends)
        decoder.on_response_headers(head)

    def on_data(self, data: bytes) -> None:
        """Pass a piece of body on; the host may send as much again once the client takes it."""
        decoder = self.decoder
        if decoder is None:
            self._reset(ErrorCode.PROTOCOL_ERROR)  # a body where none may be; the response is over
            self._connection.remove(self)
            return
        decoder.on_response_data(data)
        if self._reading:
            self._connection.session.consume(self.id, len(data))
        else:
            self._unconsumed += len(data)

    def on_read_end(self) -> None:
        """No more of the response has arrived yet."""
        if self.decoder is not None:
            self.decoder.on_response_read_end()

    def on_end(self, trailers: HeaderList) -> None:
        """The host has done its part."""
        decoder, self.decoder = self.decoder, None
        self._finish(ended=True)
        if decoder is not None:
            decoder.on_response_end(trailers)

    def on_reset(self, error_code: int) -> None:
        """The host has reset the stream, or sent what could not be taken."""
        reason = _RESET_REASONS.get(error_code, ResetReason.REMOTE_RESET)
        stats = self._connection.pool.stats
        if reason is ResetReason.PROTOCOL_ERROR:
            stats.upstream_rq_tx_reset += 1
        elif reason is ResetReason.REMOTE_RESET and not self._awaits_end:
            stats.upstream_rq_rx_reset += 1
        self._connection.remove(self)
        self.lose(reason, "")

    def on_window_open(self) -> None:
        """What waited for the host's window has gone out."""
        self._window_open = True
        self.on_writable()
        if self._awaits_end and not self._connection.session.has_stream(self.id):
            self._connection.remove(self)

    def on_removed(self) -> None:
        """The connection has forgotten the stream."""
        if self._awaits_end:
            self._awaits_end = False
            self._connection.pool.deadlines.clear(self._on_overdue, END_TIMEOUT_MS)

    def on_writable(self) -> None:
        """Tell the decoder whether more of the request can be sent, if that has changed."""
        writable = self._window_open and self._connection.writable
        if writable is not self._writable:
            self._writable = writable
            if self.decoder is not None and (writable or not self._request_sent):
                self.decoder.on_request_writable(writable=writable)

    def lose(self, reason: ResetReason, detail: str) -> None:
        """Tell the decoder that the stream is gone."""
        decoder, self.decoder = self.decoder, None
        if decoder is not None:
            decoder.on_response_reset(reason, detail)

    def _finish(self, *, ended: bool) -> None:
        """The response is complete; what the client has not sent of its request has no reader.

        The stream goes on for a while if the host has not `ended` it, or has not taken what was sent.
        """
        if not self._request_sent:
            self._reset()
        elif not ended or self._connection.session.has_stream(self.id):
            self._await_end()
            return
        self._connection.remove(self)

    def _await_end(self) -> None:
        if not self._awaits_end:
            self._awaits_end = True
            self._connection.pool.deadlines.set(self._on_overdue, END_TIMEOUT_MS)

    def _on_overdue(self) -> None:
        if self._awaits_end:  # not ended in the same sweep
            self._reset()
            self._connection.remove(self)
            self._connection.schedule_flush()

    def _reset(self, error_code: ErrorCode = ErrorCode.INTERNAL_ERROR) -> None:
        self._connection.pool.stats.upstream_rq_tx_reset += 1
        self._connection.session.reset_stream(self.id, error_code)
