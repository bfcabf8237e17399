"""An upstream that is a coroutine over a stream: for what `FaultyUpstream` cannot be told to do."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Self, cast

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawUpstream:
    """Runs `serve` for each connection; use as `async with`. Every connection ends with it.

    Args:
        serve: One connection's server.
        sock: A bound socket to listen on; None makes one.
        limit: Bytes above which a stream that nobody reads takes no more.
    """

    def __init__(self, serve: Serve, *, sock: socket.socket | None = None, limit: int = 65_536) -> None:
        self._serve = serve
        self._limit = limit
        self._sock = sock or socket.create_server(("127.0.0.1", 0))
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._on_connection, sock=self._sock, limit=self._limit)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
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
