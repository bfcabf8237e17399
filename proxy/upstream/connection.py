"""One HTTP/1.1 connection to an upstream host: it carries one request at a time.

Turns the bytes that arrive into calls of a `ResponseDecoder`, and a request into bytes. What a status or a reset
means for the request, the host or the client is decided above. Ports the client side of Envoy's `CodecClient` and
`Http1::ClientConnectionImpl`.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from proxy.codec.headers import FRAMING_HEADERS, NOTED_FIRST, HeaderList, HeaderTable
from proxy.codec.http1_encode import encode_chunk, encode_last_chunk, encode_request_head
from proxy.codec.http1_parser import End
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead, ResponseParser
from proxy.codec.joined_headers import JOINED_RESPONSE_HEADERS
from proxy.upstream.stream import RequestEncoder, ResetReason, ResponseDecoder

if TYPE_CHECKING:
    from proxy.upstream.connection_pool import ConnectAttempt, ConnectionPool

# Headers of a response that the router or the connection manager looks at; their bits in `ResponseHead.marks`.
SERVER = NOTED_FIRST
DATE = NOTED_FIRST << 1
SERVICE_TIME = NOTED_FIRST << 2
DEGRADED = NOTED_FIRST << 3
GRPC_STATUS = NOTED_FIRST << 4
RATE_LIMITED = NOTED_FIRST << 5
IMMEDIATE_HEALTH_CHECK_FAIL = NOTED_FIRST << 6

_RESPONSE_MARKS = FRAMING_HEADERS | {
    b"server": SERVER,
    b"date": DATE,
    b"x-envoy-upstream-service-time": SERVICE_TIME,
    b"x-envoy-degraded": DEGRADED,
    b"grpc-status": GRPC_STATUS,
    b"x-envoy-ratelimited": RATE_LIMITED,
    b"x-envoy-immediate-health-check-fail": IMMEDIATE_HEALTH_CHECK_FAIL,
}
del _RESPONSE_MARKS[b"host"], _RESPONSE_MARKS[b"te"], _RESPONSE_MARKS[b"expect"]
RESPONSE_HEADERS = HeaderTable(_RESPONSE_MARKS, JOINED_RESPONSE_HEADERS)

MAX_HEAD_BYTES = 80 * 1024  # Envoy's max_response_headers_kb

# Above this much unsent data the sender of a body is paused.
WRITE_HIGH_WATER_BYTES = 256 * 1024


class UpstreamConnection(asyncio.Protocol):
    """A `RequestEncoder` while a request is attached, otherwise idle in its pool."""

    __slots__ = (
        "_attempt",
        "_chunked",
        "_decoder",
        "_out",
        "_parser",
        "_paused",
        "_pool",
        "_request_sent",
        "_transport",
        "_tunnel",
        "closed",
        "draining",
        "host",
        "idle_since",
        "max_duration_ms",
        "requests",
    )

    def __init__(self, pool: "ConnectionPool", attempt: "ConnectAttempt") -> None:
        self._pool = pool
        self._attempt = attempt
        self._parser = ResponseParser(RESPONSE_HEADERS, max_head_bytes=MAX_HEAD_BYTES)
        self._decoder: ResponseDecoder | None = None
        self._out: list[bytes] = []  # encoded, not yet written: one write for all that one read of the client brings
        self._chunked = False
        self._paused = False
        self._tunnel = False
        self._request_sent = True
        self.host = pool.host
        self.closed = False
        self.draining = False
        self.idle_since = 0.0
        self.max_duration_ms = 0  # the limit that a deadline is set for; 0 when none is
        self.requests = 0

    def attach(self, decoder: ResponseDecoder) -> RequestEncoder:
        """Give the connection to a request."""
        self._decoder = decoder
        self.requests += 1
        return self

    # RequestEncoder

    def encode_headers(self, head: RequestHead, headers: HeaderList, *, end_stream: bool) -> None:
        """Send the head."""
        method = head.method
        self._parser.expect(head_request=method == b"HEAD", upgrade=bool(head.upgrade))
        data, self._chunked = encode_request_head(
            method,
            head.path,
            headers,
            content_length=head.content_length,
            end_stream=end_stream,
            upgrade=head.upgrade,
        )
        self._tunnel = bool(head.upgrade)
        self._request_sent = end_stream
        self._out.append(data)
        if end_stream:
            self.flush()

    def encode_data(self, data: bytes) -> None:
        """Send a piece of body."""
        self._out.append(encode_chunk(data) if self._chunked else data)

    def encode_end(self, trailers: HeaderList) -> None:
        """Finish the body."""
        self._request_sent = True
        if self._chunked:
            self._out.append(encode_last_chunk(trailers))
        self.flush()
        if self._tunnel and self._transport.can_write_eof():  # TLS has no half-closed connections
            self._transport.write_eof()

    def flush(self) -> None:
        """Write what was encoded since the last write."""
        out = self._out
        if out:
            self._out = []
            data = out[0] if len(out) == 1 else b"".join(out)
            self._pool.stats.upstream_cx_tx_bytes_total += len(data)
            self._transport.write(data)

    def reset(self) -> None:
        """Drop the request, and with it the connection: its response could still come."""
        self._detach()
        self._close(busy=True)

    def pause_reading(self) -> None:
        """Take no more of the response for now."""
        self._pool.stats.upstream_flow_control_paused_reading_total += 1
        self._paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading."""
        self._pool.stats.upstream_flow_control_resumed_reading_total += 1
        self._paused = False
        self._transport.resume_reading()

    def close(self) -> None:
        """Close an idle connection."""
        self._close(busy=False)

    def on_max_duration(self) -> None:
        """The connection is as old as it may become: closed now, or when its request is done."""
        if self.closed:
            return  # in the same sweep
        self._pool.stats.upstream_cx_max_duration_reached += 1
        self.draining = True
        if self._decoder is None:
            self.close()

    def terminate(self) -> None:
        """Close a busy connection; its request is reset."""
        self._fail(ResetReason.CONNECTION_TERMINATION, "closed by the sidecar")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the pool."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES)
        self._pool.on_connected(self, self._attempt)

    def data_received(self, data: bytes) -> None:
        """Pass on what a read brought."""
        decoder = self._decoder
        if decoder is None:
            self._close(busy=False)  # bytes that nobody asked for
            return
        self._pool.stats.upstream_cx_rx_bytes_total += len(data)
        events = self._parser.feed(data)
        for event in events:
            kind = type(event)
            if kind is bytes:
                decoder.on_response_data(event)
            elif kind is ResponseHead:
                if event.end_stream and event.status >= 200:
                    self._release(clean=event is events[-1])
                    decoder.on_response_headers(event)
                    return
                decoder.on_response_headers(event)
            elif kind is End:
                self._release(clean=event is events[-1])
                decoder.on_response_end(event.trailers)
                return
            else:
                self._pool.stats.upstream_cx_protocol_error += 1
                self._fail(ResetReason.PROTOCOL_ERROR, str(event))
                return
            if self._decoder is not decoder:
                return  # given up while hearing the event
        decoder.on_response_read_end()

    def eof_received(self) -> None:
        """The host closes; a body of unstated length ends by that."""
        decoder = self._decoder
        if decoder is None:
            return
        if self._parser.end_of_stream():
            self._release(clean=False)
            decoder.on_response_end([])
        elif self._parser.started and not self._tunnel:
            self._pool.stats.upstream_cx_protocol_error += 1
            self._fail(ResetReason.PROTOCOL_ERROR, "closed in the middle of a response")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request, or leave the pool quietly."""
        self._parser.close()
        if self.closed:
            return
        self.closed = True
        decoder = self._detach()
        self._pool.on_connection_closed(self, remote=True, busy=decoder is not None)
        if decoder is not None:
            in_head = self._parser.in_head
            reason = ResetReason.PROTOCOL_ERROR if in_head else ResetReason.CONNECTION_TERMINATION
            decoder.on_response_reset(reason, str(exc or ""))

    def pause_writing(self) -> None:
        """The socket is full."""
        if self._decoder is not None:
            self._decoder.on_request_writable(writable=False)

    def resume_writing(self) -> None:
        """The socket has drained."""
        if self._decoder is not None:
            self._decoder.on_request_writable(writable=True)

    def _release(self, *, clean: bool) -> None:
        """The response is complete: back to the pool, or closed if it cannot carry another request.

        `clean` says that nothing came behind it: bytes that nobody asked for must not answer the next request.
        """
        self._detach()
        if self._paused:
            self.resume_reading()  # the client was slow to take this response, not the next one
        limit = self._pool.config.max_requests_per_connection
        if limit and self.requests >= limit:
            self._pool.stats.upstream_cx_max_requests += 1
            self.draining = True
        parser = self._parser
        if clean and parser.keep_alive and not parser.in_head and self._request_sent and not self.draining:
            self._pool.on_connection_free(self)
        else:
            self._close(busy=False)

    def _detach(self) -> ResponseDecoder | None:
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            self._pool.on_request_done()
        return decoder

    def _fail(self, reason: ResetReason, detail: str) -> None:
        decoder = self._detach()
        self._close(busy=decoder is not None)
        if decoder is not None:
            decoder.on_response_reset(reason, detail)

    def _close(self, *, busy: bool) -> None:
        """Close at once; what is unsent is lost."""
        if not self.closed:
            self.closed = True
            self._transport.abort()
            self._pool.on_connection_closed(self, remote=False, busy=busy)
