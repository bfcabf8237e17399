"""A client that sends the bytes it is told to and takes responses apart without judging them."""

import asyncio
import contextlib
import socket
import ssl
import struct
from typing import Self, cast

import attrs

WAIT_S = 30.0


@attrs.frozen(kw_only=True)
class Response:
    """One response as it was on the wire.

    `headers` are pairs in order, names as sent. `interim` holds the 1xx heads before it. `complete` is false when the
    connection ended inside it.
    """

    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes
    trailers: list[tuple[str, str]]
    interim: list["Response"]
    complete: bool

    def header(self, name: str) -> str | None:
        """Return the first value of that name, None when absent."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def header_names(self) -> list[str]:
        return [name for name, _ in self.headers]


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: str, *, receive_buffer_bytes: int | None = None) -> Self:
        """Connect to `ip:port`; a small receive buffer makes it a slow reader."""
        host, _, port = address.rpartition(":")
        if receive_buffer_bytes is None:
            return cls(*await asyncio.open_connection(host, int(port), limit=1 << 20))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        return cls(*await asyncio.open_connection(sock=sock, limit=1_024))

    @classmethod
    async def connect_tls(cls, address: str, context: ssl.SSLContext, server_name: str) -> Self:
        """Connect to `ip:port` and shake hands.

        Raises:
            ssl.SSLError: The handshake has failed.
        """
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=context, server_hostname=server_name))

    def send(self, data: bytes) -> None:
        """Send bytes, as they are."""
        self.writer.write(data)

    async def request(self, data: bytes) -> Response:
        """Send one request and return its response."""
        self.send(data)
        return await self.response(data.split(b" ", 1)[0].decode())

    async def get(self, path: str = "/", *lines: str, method: str = "GET") -> Response:
        """Send a request without a body and return its response."""
        head = [f"{method} {path} HTTP/1.1", "Host: service", *lines, "", ""]
        return await self.request("\r\n".join(head).encode("latin-1"))

    async def response(self, method: str = "GET") -> Response:
        """Read one response, the interim heads before it included.

        Raises:
            EOFError: The connection has ended before a head.
        """
        async with asyncio.timeout(WAIT_S):
            interim = []
            while True:
                status, reason, headers = await self._head()
                if status >= 200 or status == 101:
                    break
                interim.append(
                    Response(
                        status=status, reason=reason, headers=headers, body=b"", trailers=[], interim=[], complete=True
                    )
                )
            body, trailers, complete = await self._body(method, status, dict(headers))
        return Response(
            status=status,
            reason=reason,
            headers=headers,
            body=body,
            trailers=trailers,
            interim=interim,
            complete=complete,
        )

    async def read_to_end(self) -> bytes:
        """Return everything until the other side closes; a reset counts as a close."""
        chunks = []
        async with asyncio.timeout(WAIT_S):
            with contextlib.suppress(ConnectionError):
                while chunk := await self.reader.read(65_536):
                    chunks.append(chunk)
        return b"".join(chunks)

    def abort(self) -> None:
        """Go away at once."""
        cast("asyncio.Transport", self.writer.transport).abort()

    def reset(self) -> None:
        """Go away at once, with RST."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    async def _head(self) -> tuple[int, str, list[tuple[str, str]]]:
        data = await self.reader.readuntil(b"\r\n\r\n")
        status_line, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        version, status, reason = status_line.split(" ", 2)
        assert version == "HTTP/1.1"
        return int(status), reason, _pairs(lines)

    async def _body(
        self, method: str, status: int, headers: dict[str, str]
    ) -> tuple[bytes, list[tuple[str, str]], bool]:
        if method == "HEAD" or status in {101, 204, 304}:
            return b"", [], True
        body = bytearray()
        try:
            if headers.get("transfer-encoding") == "chunked":
                return await self._chunks(body)
            if "content-length" in headers:
                length = int(headers["content-length"])
                while len(body) < length:
                    data = await self.reader.read(min(length - len(body), 1 << 20))
                    if not data:
                        return bytes(body), [], False
                    body += data
                return bytes(body), [], True
            body += await self.read_to_end()
        except (asyncio.IncompleteReadError, ConnectionError):
            return bytes(body), [], False
        return bytes(body), [], True

    async def _chunks(self, body: bytearray) -> tuple[bytes, list[tuple[str, str]], bool]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            assert await self.reader.readexactly(2) == b"\r\n"
        lines = []
        while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
            lines.append(line.decode("latin-1").rstrip("\r\n"))
        return bytes(body), _pairs(lines), True


def _pairs(lines: list[str]) -> list[tuple[str, str]]:
    pairs = (line.partition(": ") for line in lines)
    return [(name, value) for name, _, value in pairs]
