"""A client that keeps connections as Go's `http.Transport` does.

Two idle connections for each host, the last one used first. An idle connection is listened to: its end takes it out of
the pool, and bytes on it, which nobody has asked for, are an error in Go's log. A request on a connection that was used
before is sent once more on another one if that connection ended before the first byte of an answer, and if it may be:
a GET, HEAD, OPTIONS or TRACE, one with an `Idempotency-Key`, or one of which nothing was written.
"""

import asyncio
import contextlib

from tests.proxy.http.client import WAIT_S, Client, Response

MAX_IDLE = 2
_REPLAYABLE = (b"GET ", b"HEAD ", b"OPTIONS ", b"TRACE ")


class ConnectionLostError(Exception):
    """Raised when a connection ended before an answer and the request may not be sent again."""


class GoTransport:
    """One host's connections; `async with`.

    `sent` counts requests written, those written again included; `unsolicited` are bytes that came on idle connections.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._idle: dict[Client, asyncio.Task[None]] = {}  # in order of use
        self._open: set[Client] = set()
        self.sent = 0
        self.unsolicited: list[bytes] = []

    async def __aenter__(self) -> "GoTransport":
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._idle.values():
            watch.cancel()
        await asyncio.gather(*self._idle.values(), return_exceptions=True)
        for client in tuple(self._open):
            await self._close(client)

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        return len(self._idle)

    async def round_trip(self, request: bytes) -> Response:
        """Send a request and return its answer.

        Raises:
            ConnectionLostError: There is none, and the request may not be sent again.
        """
        while True:
            client, reused = await self._connection()
            client.send(request)
            self.sent += 1
            try:
                response = await client.response(request.split(b" ", 1)[0].decode())
            except (EOFError, ConnectionError) as error:
                await self._close(client)
                replayable = request.startswith(_REPLAYABLE) or b"\r\nidempotency-key:" in request.lower()
                if not (reused and replayable):
                    raise ConnectionLostError from error
                continue
            await self._put_back(client, response)
            return response

    async def _connection(self) -> tuple[Client, bool]:
        if self._idle:
            client, watch = self._idle.popitem()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            return client, True
        client = await Client.connect(self._address)
        self._open.add(client)
        return client, False

    async def _put_back(self, client: Client, response: Response) -> None:
        if response.header("connection") == "close" or not response.complete or len(self._idle) >= MAX_IDLE:
            await self._close(client)
        else:
            self._idle[client] = asyncio.ensure_future(self._listen(client))

    async def _listen(self, client: Client) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = await client.reader.read(100)
        if data:
            self.unsolicited.append(data)
        del self._idle[client]
        await self._close(client)

    async def _close(self, client: Client) -> None:
        self._open.discard(client)
        client.writer.close()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(client.writer.wait_closed(), WAIT_S)
