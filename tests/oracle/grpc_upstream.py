"""A gRPC host on loopback that does with each request what a script says, frame by frame."""

import asyncio
import socket
import struct
from collections.abc import Callable

import h2.config
import h2.connection
import h2.errors
import h2.events

from tests.oracle.upstream import Server
from tests.oracle.wire import Headers


class Stream:
    """One request as a script answers it."""

    def __init__(self, connection: h2.connection.H2Connection, transport: asyncio.Transport, number: int) -> None:
        self.connection = connection
        self.transport = transport
        self.number = number


Move = Callable[[Stream], None]
Script = tuple[Move, ...]  # a script of nothing keeps silent


def head(
    *fields: tuple[str, str], status: int = 200, content_type: str = "application/grpc", end: bool = False
) -> Move:
    """Send response headers; `end` makes them the whole response (trailers-only)."""
    headers = [(":status", str(status)), ("content-type", content_type), *fields]
    return lambda stream: stream.connection.send_headers(stream.number, headers, end_stream=end)


def message(body: bytes = b"reply") -> Move:
    """Send one gRPC message, not compressed."""
    framed = struct.pack(">BI", 0, len(body)) + body
    return lambda stream: stream.connection.send_data(stream.number, framed)


def trailers(*fields: tuple[str, str]) -> Move:
    """Send trailers, which end the response."""
    return lambda stream: stream.connection.send_headers(stream.number, fields, end_stream=True)


def reset(code: h2.errors.ErrorCodes) -> Move:
    """Send RST_STREAM."""
    return lambda stream: stream.connection.reset_stream(stream.number, code)


def go_away(last_stream: int | None = None) -> Move:
    """Send GOAWAY; the last stream that is still served is this one unless said otherwise."""
    return lambda stream: stream.connection.close_connection(
        last_stream_id=stream.number if last_stream is None else last_stream
    )


def hang_up(stream: Stream) -> None:
    """Close the connection once everything before is sent."""
    stream.transport.write(stream.connection.data_to_send())
    stream.transport.close()


def drop(stream: Stream) -> None:
    """Reset the connection."""
    stream.transport.write(stream.connection.data_to_send())
    peer = stream.transport.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.transport.abort()


def garble(stream: Stream) -> None:
    """Send what is no frame of HTTP/2."""
    stream.transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class GrpcUpstream(Server):
    """A server that speaks HTTP/2 with prior knowledge; `script` is asked once for each request, by its headers."""

    def __init__(self, script: Callable[[Headers], Script]) -> None:
        super().__init__()
        self.script = script

    def make_connection(self) -> asyncio.Protocol:
        return _Connection(self)


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: GrpcUpstream) -> None:
        self._upstream = upstream
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self._requests: dict[int, Headers] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._upstream.connections.add(transport)
        self._h2.initiate_connection()
        transport.write(self._h2.data_to_send())

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self._requests[event.stream_id] = event.headers
            elif isinstance(event, h2.events.DataReceived):
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                stream = Stream(self._h2, self._transport, event.stream_id)
                for move in self._upstream.script(self._requests.pop(event.stream_id)):
                    move(stream)
        if not self._transport.is_closing():
            self._transport.write(self._h2.data_to_send())
