"""An upstream that is a coroutine over a stream: for what `FaultyUpstream` cannot be told to do."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Self, cast

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawUpstream:
    """Runs `serve` for each connection; use as `async with`. Every connection ends with it.

    Args:
        serve: One connection's server.
        sock: A bound socket to listen on; None makes one.
        limit: Bytes above which a stream that nobody reads takes no more.
        tls: Context of a server; None is plain text.
    """

    def __init__(
        self,
        serve: Serve,
        *,
        sock: socket.socket | None = None,
        limit: int = 65_536,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._serve = serve
        self._limit = limit
        self._tls = tls
        self._sock = sock or socket.create_server(("127.0.0.1", 0))
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._on_connection, sock=self._sock, limit=self._limit, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            cast("asyncio.Transport", writer.transport).abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.add(asyncio.ensure_future(self._run(reader, writer)))

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer)


class GatedUpstream(RawUpstream):
    """Answers a request only after `release`, so that what is under way is known.

    Args:
        body: Body of every answer.
        held: Only requests for paths that begin so are held; others are answered at once.
        statuses: Path -> status, where it is not 200.
    """

    def __init__(self, body: bytes = b"late", *, held: str = "/", statuses: Mapping[str, int] | None = None) -> None:
        super().__init__(self._answer)
        self._body = body
        self._held = held
        self._statuses = statuses or {}
        self._gate = asyncio.Event()
        self.paths: list[str] = []  # of the requests so far
        self.paths_of_connections: list[list[str]] = []
        self.connection_count = 0
        self.open_connections = 0

    def release(self) -> None:
        """Answer what is held, and from now on everything at once."""
        self._gate.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        self.open_connections += 1
        paths: list[str] = []
        self.paths_of_connections.append(paths)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                self.paths.append(path)
                paths.append(path)
                if path.startswith(self._held):
                    await self._gate.wait()
                status = self._statuses.get(path, 200)
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(self._body), self._body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open_connections -= 1
            writer.close()
