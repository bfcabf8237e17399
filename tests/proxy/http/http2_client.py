"""An HTTP/2 client made of package h2: an implementation that is not the sidecar's own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self, cast

import attrs
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from proxy.codec.headers import HeaderList
from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import WAIT_S, Sidecar, until

GET: HeaderList = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]
POST: HeaderList = [(b":method", b"POST"), *GET[1:]]


@attrs.define
class Response:
    """What has come on one stream so far."""

    interim: list[bytes] = attrs.field(factory=list)
    headers: HeaderList = attrs.field(factory=list)
    body: bytearray = attrs.field(factory=bytearray)
    trailers: HeaderList = attrs.field(factory=list)
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(dict(self.headers)[b":status"])

    @property
    def over(self) -> bool:
        return self.ended or self.reset is not None


class Http2Client(asyncio.Protocol):
    """One connection; `consuming` acknowledges what comes, so that the sidecar may send on."""

    def __init__(self) -> None:
        self.h2 = H2Connection(
            H2Configuration(header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False)
        )
        self.responses: dict[int, Response] = {}
        self.events: list[Event] = []
        self.goaways: list[ConnectionTerminated] = []
        self.consuming = True
        self.closed = False
        self._received = b""

    @classmethod
    async def connect(cls, sidecar: Sidecar) -> Self:
        address = sidecar.listener.address
        _, client = await asyncio.get_running_loop().create_connection(cls, address.host, address.port)
        client.h2.initiate_connection()
        client.flush()
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 9 and len(self._received) >= (
            size := 9 + int.from_bytes(self._received[:3], "big")
        ):
            frame, self._received = self._received[:size], self._received[size:]
            for event in self.h2.receive_data(frame):
                self.events.append(event)
                if isinstance(event, ConnectionTerminated):
                    self.goaways.append(event)
                    # Package h2 is done with a connection then; a client is not done with its streams.
                    self.h2.state_machine.state = ConnectionState.CLIENT_OPEN
                elif (response := self.responses.get(getattr(event, "stream_id", None) or 0)) is not None:
                    self._take(response, event)
            self.flush()

    def _take(self, response: Response, event: Event) -> None:
        if isinstance(event, InformationalResponseReceived):
            response.interim.append(dict(event.headers)[b":status"])
        elif isinstance(event, ResponseReceived):
            response.headers = [tuple(line) for line in event.headers]
        elif isinstance(event, DataReceived):
            response.body += event.data
            if self.consuming:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, TrailersReceived):
            response.trailers = [tuple(line) for line in event.headers]
        elif isinstance(event, StreamEnded):
            response.ended = True
        elif isinstance(event, StreamReset):
            response.reset = int(event.error_code)

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.transport.write(data)

    def request(self, lines: HeaderList = GET, *, end_stream: bool = True) -> int:
        """Send a head; return its stream."""
        stream_id = self.h2.get_next_available_stream_id()
        self.responses[stream_id] = Response()
        self.h2.send_headers(stream_id, lines, end_stream=end_stream)
        self.flush()
        return stream_id

    def send(self, stream_id: int, data: bytes, *, end_stream: bool = False) -> None:
        """Send body that the windows allow now."""
        while data or end_stream:
            size = self.h2.max_outbound_frame_size
            piece, data = data[:size], data[size:]
            self.h2.send_data(stream_id, piece, end_stream=end_stream and not data)
            if not data:
                break
        self.flush()

    def end(self, stream_id: int, trailers: HeaderList | None = None) -> None:
        if trailers:
            self.h2.send_headers(stream_id, trailers, end_stream=True)
        else:
            self.h2.end_stream(stream_id)
        self.flush()

    def reset(self, stream_id: int) -> None:
        self.h2.reset_stream(stream_id, 8)
        self.flush()

    async def response(self, stream_id: int) -> Response:
        """Return a response once it is over."""
        response = self.responses[stream_id]
        await until(lambda: response.over or self.closed)
        return response

    async def get(self, lines: HeaderList = GET) -> Response:
        return await self.response(self.request(lines))

    async def wait_closed(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await until(lambda: self.closed)

    def abort(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.transport.abort()


@contextlib.asynccontextmanager
async def connected(*upstreams: FaultyUpstream | str, **fields: Any) -> AsyncIterator[tuple[Sidecar, Http2Client]]:
    """Yield a sidecar and a client of it."""
    async with Sidecar(*upstreams, **fields) as sidecar:
        client = await Http2Client.connect(sidecar)
        yield sidecar, client
        client.abort()
