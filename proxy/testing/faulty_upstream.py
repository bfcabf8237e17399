"""An HTTP/1.1 upstream that misbehaves to order, on real sockets.

For tests, the demo and comparisons with other proxies. What it answers is `reply`'s business, what it reads is
`request`'s; here are the sockets. Port and address stay the same while it refuses connections, so that "the process
died" and "it came back" are one call each.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, cast

import attrs

from proxy.testing.reply import End, Reply, Step, informational_heads, plan
from proxy.testing.request import RecordedRequest, RequestReader
from proxy.testing.threaded import ThreadedFaultyUpstream

_LINGER_ZERO = struct.pack("ii", 1, 0)  # close() then sends RST instead of FIN


@attrs.define
class _Script:
    """Replies for some requests: first the queue, then for ever the last word."""

    then: Reply | None = None
    queue: deque[Reply] = attrs.Factory(deque)

    def take(self) -> Reply | None:
        return self.queue.popleft() if self.queue else self.then


class FaultyUpstream:
    """An upstream whose answers are scripted; use as `async with`, or as `with` for its twin in a thread.

    >>> async with FaultyUpstream() as good, FaultyUpstream(status=503) as bad:  # doctest: +SKIP
    ...     bad.for_next(3, fault="reset")         # then 503 again
    ...     bad.set(path="/health", status=200)    # this path is fine
    ...     await bad.refuse()                     # connection refused ...
    ...     await bad.accept()                     # ... until here, on the same port

    Args:
        host: Address to listen on.
        port: 0 picks a free one.
        max_recorded: Keep at most so many requests in `requests`, the newest; None keeps all.
        fields: The fields of `Reply` that every request is answered with until `set` says otherwise.

    `requests` holds what was received in order of arrival; a request is there as soon as its head is.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, max_recorded: int | None = None, **fields: Any
    ) -> None:
        self._host = host
        self._wanted_port = port
        self._script = _Script(Reply(**fields))
        self._path_scripts: dict[str, _Script] = {}
        self._reservation: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._accepting = False
        self._connections: set[_Connection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._threaded: ThreadedFaultyUpstream | None = None
        self.requests: deque[RecordedRequest] = deque(maxlen=max_recorded)
        self.request_count = 0
        self.connection_count = 0

    def __repr__(self) -> str:
        return f"FaultyUpstream({self.address if self._reservation else 'not started'})"

    @property
    def port(self) -> int:
        """The port; known once started, and kept while refusing."""
        if self._reservation is None:
            raise RuntimeError("FaultyUpstream is not started; use `async with`")
        port: int = self._reservation.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """`host:port`, or `[v6]:port`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self.port}"

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> ThreadedFaultyUpstream:
        self._threaded = ThreadedFaultyUpstream(self)
        return self._threaded.__enter__()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._threaded is not None
        self._threaded.__exit__(exc_type, exc, traceback)

    async def start(self) -> None:
        """Bind and accept.

        Raises:
            OSError: The port is taken.
        """
        # Bound but never listening: it keeps the port ours while connections are refused.
        self._reservation = self._bind(self._wanted_port)
        try:
            await self.accept()
        except OSError:
            await self.close()
            raise

    async def close(self) -> None:
        """Refuse, close every connection and give the port back."""
        await self.refuse()
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None

    async def accept(self) -> None:
        """Accept connections (again); nothing happens when it does."""
        if self._accepting:
            return
        self._accepting = True
        loop = asyncio.get_running_loop()
        sock = self._bind(self.port)
        try:
            self._server = await loop.create_server(lambda: _Connection(self), sock=sock, backlog=1024)
        except OSError:
            self._accepting = False
            sock.close()
            raise

    async def refuse(self, *, reset: bool = False) -> None:
        """Refuse new connections and end the present ones, with FIN or with RST, as if the process had died."""
        self._accepting = False
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self.drop_connections(reset=reset)
        await self._all_closed.wait()

    def drop_connections(self, *, reset: bool = False) -> None:
        """End every present connection, with FIN or with RST; new ones are still accepted."""
        for connection in tuple(self._connections):
            connection.end(End.RESET if reset else End.CLOSE)

    def set(self, reply: Reply | None = None, *, path: str | None = None, **fields: Any) -> None:
        """From the next request on, answer with `reply` or with `Reply(**fields)`; what was scripted before is dropped.

        With `path` (without query), only requests for that path are meant; they no longer use up the general script.
        """
        script = _Script(reply or Reply(**fields))
        if path is None:
            self._script = script
        else:
            self._path_scripts[path] = script

    def for_next(self, count: int, reply: Reply | None = None, *, path: str | None = None, **fields: Any) -> None:
        """Answer `count` requests, after those scripted already, with `reply` or with `Reply(**fields)`."""
        self.sequence([reply or Reply(**fields)] * count, path=path)

    def sequence(self, replies: Iterable[Reply], *, path: str | None = None) -> None:
        """Answer the next requests with these replies, one each, after those scripted already."""
        script = self._script if path is None else self._path_scripts.setdefault(path, _Script())
        script.queue.extend(replies)

    async def wait_requests(self, count: int) -> None:
        """Wait until so many requests have arrived since the start, heads at least."""
        if self.request_count < count:
            future = asyncio.get_running_loop().create_future()
            self._waiters.append((count, future))
            await future

    def _bind(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Lets the listener share the port with the reservation; a port that somebody listens on still fails.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind((self._host, port))
        except OSError:
            sock.close()
            raise
        return sock

    def _connection_made(self, connection: "_Connection") -> int:
        self._connections.add(connection)
        self._all_closed.clear()
        self.connection_count += 1
        return self.connection_count

    def _connection_lost(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def _request_arrived(self, request: RecordedRequest) -> Reply:
        self.requests.append(request)
        self.request_count += 1
        if self._waiters:
            self._wake_waiters()
        path_script = self._path_scripts.get(request.path)
        reply = (path_script and path_script.take()) or self._script.take()
        assert reply is not None
        return reply

    def _wake_waiters(self) -> None:
        for waiter in tuple(self._waiters):
            count, future = waiter
            if self.request_count >= count:
                self._waiters.remove(waiter)
                if not future.done():
                    future.set_result(None)


class _Connection(asyncio.Protocol):
    """Server side of one connection: answers requests one after the other, in order."""

    def __init__(self, upstream: FaultyUpstream) -> None:
        self._upstream = upstream
        self._transport: asyncio.Transport
        self._reader: RequestReader
        self._replies: deque[tuple[RecordedRequest, Reply]] = deque()
        self._steps: Iterator[Step] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not derive from it
        self._reader = RequestReader(self._upstream._connection_made(self))
        if not self._upstream._accepting:  # the kernel had accepted it before the listener was closed
            self.end(End.CLOSE)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._upstream._connection_lost(self)

    def data_received(self, data: bytes) -> None:
        for request in self._reader.feed(data):
            reply = self._upstream._request_arrived(request)
            self._replies.append((request, reply))
            self._transport.write(informational_heads(reply, request))
        self._answer()

    def end(self, end: End) -> None:
        """End the connection; a hang keeps it and never answers again."""
        if self._timer is not None:
            self._timer.cancel()
        self._steps = iter(())  # stays "busy": nothing more is answered here
        if end is End.CLOSE:
            self._transport.close()
        elif end is End.RESET:
            # Not at once: uvloop sends what was written at the end of its turn, and an abort before that would lose it.
            asyncio.get_running_loop().call_soon(self._reset)

    def _reset(self) -> None:
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    def _answer(self) -> None:
        while self._steps is None and self._replies:
            request, reply = self._replies[0]
            if not (request.complete or reply.early):
                return
            self._steps = plan(reply, request)
            self._advance(self._steps)

    def _advance(self, steps: Iterator[Step]) -> None:
        """Take steps until one has to be waited for, or until the reply has ended."""
        for step in steps:
            if step.delay_ms:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(step.delay_ms / 1000, self._resume, step, steps)
                return
            self._take(step)

    def _resume(self, step: Step, steps: Iterator[Step]) -> None:
        self._take(step)
        self._advance(steps)
        self._answer()

    def _take(self, step: Step) -> None:
        if step.data:
            self._transport.write(step.data)
        if step.end is End.KEEP_ALIVE:
            self._replies.popleft()
            self._steps = None
        elif step.end is not None:
            self.end(step.end)
