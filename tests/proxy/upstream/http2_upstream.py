"""An HTTP/2 host made of single frames: it answers as a test says, also in ways that no library would send.

Headers go through hpack and frames through hyperframe; no state machine stands between a test and the wire.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD_BYTES = 9
MAX_FRAME_BYTES = 16_384

MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4  # settings

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR = 0, 1, 2
REFUSED_STREAM, CANCEL, CONNECT_ERROR, ENHANCE_YOUR_CALM = 7, 8, 10, 11

Pairs = Sequence[tuple[str, str]]


@attrs.define(eq=False)
class Http2Request:
    """One stream as it arrived; `complete` once the client has ended it, `reset_code` once it has reset it.

    `sent` is how much body has gone to the client, `granted` how much more it has allowed than at first.
    """

    connection: "Http2Connection"
    stream_id: int
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    trailers: dict[str, str] = attrs.field(factory=dict)
    complete: bool = False
    reset_code: int | None = None
    sent: int = 0
    granted: int = 0

    @property
    def path(self) -> str:
        """The request target."""
        return self.headers[":path"]

    def respond(self, status: int = 200, body: bytes = b"", headers: Pairs = (), trailers: Pairs = ()) -> None:
        """Send a whole response."""
        self.send_headers([(":status", str(status)), *headers], end_stream=not body and not trailers)
        if body:
            self.send_data(body, end_stream=not trailers)
        if trailers:
            self.send_headers(trailers, end_stream=True)

    def send_headers(self, headers: Pairs, *, end_stream: bool = False) -> None:
        """Send a head, an interim head or trailers."""
        frame = HeadersFrame(self.stream_id, self.connection.encoder.encode(headers), flags=["END_HEADERS"])
        if end_stream:
            frame.flags.add("END_STREAM")
        self.connection.send(frame)

    def send_data(self, body: bytes, *, end_stream: bool = False) -> None:
        """Send a body, in frames, whatever the client's window says."""
        pieces = [body[at : at + MAX_FRAME_BYTES] for at in range(0, len(body), MAX_FRAME_BYTES)] or [b""]
        for piece in pieces:
            frame = DataFrame(self.stream_id, piece)
            if end_stream and piece is pieces[-1]:
                frame.flags.add("END_STREAM")
            self.sent += len(piece)
            self.connection.send(frame)

    def reset(self, code: int) -> None:
        """Send RST_STREAM."""
        self.connection.send(RstStreamFrame(self.stream_id, code))

    def update_window(self, size: int) -> None:
        """Let the client send that much more on this stream and on the connection."""
        self.connection.send(WindowUpdateFrame(self.stream_id, size), WindowUpdateFrame(0, size))


class Http2Connection(asyncio.Protocol):
    """One client's connection.

    `frames` are all that have come; `requests` the streams by number. `settings` are those of the client, `pings` how
    many it has sent.
    """

    def __init__(self, upstream: "Http2Upstream") -> None:
        self._upstream = upstream
        self._buffer = b""
        self._greeted = False
        self._decoder = Decoder()
        self.encoder = Encoder()
        self.frames: list[Frame] = []
        self.requests: dict[int, Http2Request] = {}
        self.settings: dict[int, int] = {}
        self.pings = 0
        self.closed = False

    def send(self, *frames: Frame) -> None:
        """Send frames in one write."""
        self.write(b"".join(frame.serialize() for frame in frames))

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self.closed:
            self._transport.write(data)

    def go_away(self, last_stream_id: int, code: int = NO_ERROR) -> None:
        """Send GOAWAY."""
        self.send(GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code))

    @property
    def alpn(self) -> str | None:
        """What both sides have agreed on in TLS."""
        secured: Any = self._transport.get_extra_info("ssl_object")
        return None if secured is None else secured.selected_alpn_protocol()

    def later(self, wait_s: float, call: Callable[..., None], *args: Any) -> None:
        """Call something after a while."""
        asyncio.get_running_loop().call_later(wait_s, call, *args)

    def close(self) -> None:
        """Close in order, behind what was sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._upstream.connections.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._greeted:
            if len(self._buffer) < len(PREFACE):
                return
            if not self._buffer.startswith(PREFACE):
                self.abort()  # not HTTP/2
                return
            self._buffer = self._buffer[len(PREFACE) :]
            self._greeted = True
            self._greet()
        while len(self._buffer) >= FRAME_HEAD_BYTES:
            frame, length = Frame.parse_frame_header(memoryview(self._buffer[:FRAME_HEAD_BYTES]))
            end = FRAME_HEAD_BYTES + length
            if len(self._buffer) < end:
                return
            frame.parse_body(memoryview(self._buffer[FRAME_HEAD_BYTES:end]))
            self._buffer = self._buffer[end:]
            self.frames.append(frame)
            self._on_frame(frame)

    def _greet(self) -> None:
        greeting = self._upstream.greeting
        if greeting is not None:
            self.write(greeting)
        else:
            self.send(SettingsFrame(0, settings=dict(self._upstream.settings)))

    def _on_frame(self, frame: Frame) -> None:
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.settings |= frame.settings
            if self._upstream.greeting is None:
                self.send(SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self.pings += 1
            if self._upstream.answers_pings:
                self.send(PingFrame(0, frame.opaque_data, flags=["ACK"]))
        elif isinstance(frame, HeadersFrame):
            self._on_headers(frame)
        elif isinstance(frame, DataFrame):
            request = self.requests[frame.stream_id]
            request.body += frame.data
            if frame.data and self._upstream.opens_windows:
                request.update_window(len(frame.data))
            self._end_if_last(frame, request)
        elif isinstance(frame, RstStreamFrame):
            self.requests[frame.stream_id].reset_code = frame.error_code
        elif isinstance(frame, WindowUpdateFrame) and frame.stream_id:
            request = self.requests[frame.stream_id]
            request.granted += frame.window_increment
            if self._upstream.on_window is not None:
                self._upstream.on_window(request)
        else:
            assert isinstance(frame, SettingsFrame | PingFrame | WindowUpdateFrame | GoAwayFrame | PriorityFrame), frame

    def _on_headers(self, frame: HeadersFrame) -> None:
        assert "END_HEADERS" in frame.flags, "a head of more than one frame"
        headers = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
        request = self.requests.get(frame.stream_id)
        if request is None:
            request = self.requests[frame.stream_id] = Http2Request(self, frame.stream_id, headers)
            if self._upstream.on_head is not None:
                self._upstream.on_head(request)
        else:
            request.trailers = headers
        self._end_if_last(frame, request)

    def _end_if_last(self, frame: Frame, request: Http2Request) -> None:
        if "END_STREAM" in frame.flags:
            request.complete = True
            self._upstream.answer(request)


class Http2Upstream:
    """One listening address; an async context manager.

    Args:
        answer: Called with each complete request.
        on_head: Called with each request when its head is there.
        on_window: Called with a request when its client allows more of the response.
        settings: Of the server, by number.
        greeting: Bytes to send instead of SETTINGS; nothing is acknowledged then.
        answers_pings: Whether pings are acknowledged.
        opens_windows: Whether what has arrived is given back to the client's windows.
        tls: What it speaks TLS with; None is plain text.
    """

    def __init__(
        self,
        answer: Callable[[Http2Request], None] = Http2Request.respond,
        *,
        on_head: Callable[[Http2Request], None] | None = None,
        on_window: Callable[[Http2Request], None] | None = None,
        settings: Mapping[int, int] | None = None,
        greeting: bytes | None = None,
        answers_pings: bool = True,
        opens_windows: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self.on_head = on_head
        self.on_window = on_window
        self.settings = dict(settings or {})
        self.greeting = greeting
        self.answers_pings = answers_pings
        self.opens_windows = opens_windows
        self._tls = tls
        self.connections: list[Http2Connection] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """`ip:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Http2Request]:
        """All streams of all connections, in the order of their connections."""
        return [request for connection in self.connections for request in connection.requests.values()]

    async def __aenter__(self) -> "Http2Upstream":
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Http2Connection(self), "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        for connection in self.connections:
            if not connection.closed:
                connection.abort()
        await asyncio.sleep(0)
