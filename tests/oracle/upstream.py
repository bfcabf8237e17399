"""Upstream servers on loopback that misbehave on command and remember each request that reached them."""

import asyncio
import contextlib
import enum
import socket
import struct
from collections.abc import Callable

import attrs

from tests.oracle.wire import Head, Headers, take_body, take_head


class After(enum.Enum):
    """What becomes of the connection once the answer is sent."""

    KEEP = "keep"
    FIN = "fin"
    RST = "rst"
    HOLD = "hold"  # nothing more is sent, and the connection stays open


@attrs.frozen
class Answer:
    """Bytes to send for one request, then the fate of the connection."""

    data: bytes = b""
    after: After = After.KEEP


@attrs.frozen
class Request:
    """A request as it arrived: framing removed from the body, everything else untouched."""

    head: Head
    body: bytes
    trailers: Headers

    @property
    def path(self) -> str:
        """The request target, as sent."""
        return self.head.start_line.split(b" ")[1].decode("latin-1")


class Server:
    """One listening address; the port stays reserved while connections are refused.

    Subclasses make what answers on a connection; it keeps its transport in `connections` while that is open.
    """

    def __init__(self) -> None:
        self.connections: set[asyncio.Transport] = set()
        self._server: asyncio.Server | None = None
        self._reservation = _bound_socket(0)
        self.port: int = self._reservation.getsockname()[1]

    def make_connection(self) -> asyncio.Protocol:
        """Return what answers on a new connection."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """`ip:port`, as proxies print it."""
        return f"127.0.0.1:{self.port}"

    async def accept(self) -> None:
        """Listen; no effect when listening already."""
        if self._server is None:
            listener = _bound_socket(self.port)
            self._server = await asyncio.get_running_loop().create_server(self.make_connection, sock=listener)

    def refuse(self) -> None:
        """Stop listening and close all connections: the next connect is refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in tuple(self.connections):
            transport.close()

    def close(self) -> None:
        """Free the port."""
        self.refuse()
        self._reservation.close()


class Upstream(Server):
    """A server that sends the bytes of `answer` for each request."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        super().__init__()
        self.answer = answer

    def make_connection(self) -> asyncio.Protocol:
        return _Connection(self)


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._upstream.connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (taken := take_head(self._buffer)) is not None:
            head, rest = taken
            body = take_body(head, rest)
            if body is None:
                return
            self._buffer = body[2]
            self._answer(self._upstream.answer(Request(head, body[0], body[1])))

    def _answer(self, answer: Answer) -> None:
        if answer.data:
            self._transport.write(answer.data)
        if answer.after is After.FIN:
            self._transport.close()
        elif answer.after is After.RST:
            peer = self._transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()


def _bound_socket(port: int) -> socket.socket:
    # SO_REUSEPORT lets the listener share the port with the socket that reserves it and never listens.
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with contextlib.ExitStack() as stack:
        stack.callback(bound.close)
        bound.bind(("127.0.0.1", port))
        bound.setblocking(False)
        stack.pop_all()
    return bound
