"""Clients that count each answer: steady ones, slow readers, and some that leave in the middle."""

import asyncio
import collections
import contextlib
import re
import socket

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
SLOW_READ_BYTES = 65_536
SLOW_READ_PAUSE_S = 0.05


class Counter:
    """Answers by what they were, and how many more requests may be started; any number while `more` is set."""

    def __init__(self, body_bytes: int) -> None:
        self.answers: collections.Counter[str] = collections.Counter()
        self.remaining: float = float("inf")
        self.more = False
        self.body_bytes = body_bytes

    def take(self) -> bool:
        """Return whether one more request may be started, and count it as started."""
        if self.remaining <= 0 and not self.more:
            return False
        self.remaining -= 1
        return True

    def count(self, status: int, body: bytes) -> None:
        """Count a complete answer."""
        if status == 200:
            whole = len(body) == self.body_bytes and not body.strip(b"x")
            self.answers["200" if whole else f"200 with a wrong body of {len(body)} bytes"] += 1
        else:
            self.answers[f"{status} {body[:200].decode('latin-1')}"] += 1


class SteadyClient(asyncio.Protocol):
    """One keep-alive connection that sends the next request when the last one is answered; `pause_s` apart, at best.

    A lost connection is opened again. `done` is set when the counter allows no more requests.
    """

    def __init__(self, address: tuple[str, int], request: bytes, counter: Counter, pause_s: float) -> None:
        self._address = address
        self._request = request
        self._counter = counter
        self._pause_s = pause_s
        self._buffer = b""
        self._pending = False
        self._next_at = 0.0
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.done = self._loop.create_future()

    async def connect(self) -> None:
        """Open the connection and start."""
        try:
            await self._loop.create_connection(lambda: self, *self._address)
        except OSError as error:
            # Envoy never refuses a connection, so this is told and not forgiven.
            self._counter.answers[f"no connection: {error.strerror}"] += 1
            await asyncio.sleep(0.1)
            self._reconnect()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Send the first request."""
        self._transport = transport
        self._buffer = b""
        self._send_next()

    def data_received(self, data: bytes) -> None:
        """Count an answer once it is whole, and go on."""
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._buffer, 0, end + 2)
        size = int(length.group(1)) if length else 0
        if len(self._buffer) < end + 4 + size:
            return
        body = self._buffer[end + 4 : end + 4 + size]
        self._counter.count(int(self._buffer[9:12]), body)
        self._buffer = self._buffer[end + 4 + size :]
        self._pending = False
        self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count what was lost, and connect again."""
        self._transport = None
        if self._pending:
            status = self._buffer[9:12].decode("latin-1")
            self._counter.answers[f"{status} cut" if status else "connection lost before an answer"] += 1
            self._pending = False
        if not self.done.done():
            self._reconnect()

    def _reconnect(self) -> None:
        self._connecting = self._loop.create_task(self.connect())

    def _send_next(self) -> None:
        now = self._loop.time()
        if self._pause_s and now < self._next_at:
            self._loop.call_later(self._next_at - now, self._send)
            return
        self._send()

    def _send(self) -> None:
        if self._transport is None or self._transport.is_closing() or self._pending:
            return
        if not self._counter.take():
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self._pending = True
        self._next_at = max(self._next_at + self._pause_s, self._loop.time())
        self._transport.write(self._request)


async def read_slowly(address: tuple[str, int], request: bytes, expected_bytes: int, counter: Counter) -> None:
    """Ask for a large body and read it a piece at a time; an answer that is not whole is counted by its status."""
    buffer = 0
    status = ""
    with contextlib.suppress(OSError):
        with socket.socket() as small:
            small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_READ_BYTES)
            small.setblocking(False)
            await asyncio.get_running_loop().sock_connect(small, address)
            reader, writer = await asyncio.open_connection(sock=small.dup(), limit=SLOW_READ_BYTES)
        writer.write(request)
        with contextlib.closing(writer):
            while buffer < expected_bytes and (data := await reader.read(SLOW_READ_BYTES)):
                status = status or data[9:12].decode("latin-1")
                buffer += len(data)
                if status != "200":
                    break
                await asyncio.sleep(SLOW_READ_PAUSE_S)
    whole = buffer >= expected_bytes or (status and status != "200")
    counter.answers[f"slow reader: {status or 'nothing'}{'' if whole else ' cut'}"] += 1


async def leave_early(address: tuple[str, int], request: bytes, counter: Counter, *, after_head: bool) -> None:
    """Send a request and close the connection: before the answer, or when its first bytes are there."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request)
        if after_head:
            await reader.read(100)
        writer.transport.abort()
    counter.answers["left early"] += 1
