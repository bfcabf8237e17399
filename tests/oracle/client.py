"""A client that sends bytes as they are and shows bytes as they came."""

import asyncio
import contextlib

import attrs

from tests.oracle.wire import Head, Headers, take_body, take_head


@attrs.frozen(kw_only=True)
class Response:
    """What came back for one request.

    `complete` is false when the connection ended inside the message. `closed` tells that the peer closed the
    connection at or before the end of the response (looked at only when asked for).
    """

    status: int
    reason: str
    head: Head
    body: bytes
    trailers: Headers = ()
    interim: tuple[Head, ...] = ()
    complete: bool = True
    closed: bool = False


class NoResponseError(Exception):
    """Raised when the peer closed the connection, or said nothing for the whole wait, before a response head."""


class Client:
    """One keep-alive connection to a proxy, reopened when it is gone."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._data = b""  # received behind the last response

    async def send(self, data: bytes) -> None:
        """Write raw bytes on the current connection, or a new one."""
        if self._writer is None or self._reader is None or self._reader.at_eof() or self._writer.is_closing():
            await self.close()
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self, *, method: str = "GET", wait_s: float = 10.0) -> Response:
        """Read one final response and the interim ones before it.

        Raises:
            NoResponseError: The connection ended, or `wait_s` seconds passed, without a response head.
        """
        try:
            return await asyncio.wait_for(self._receive(method), wait_s)
        except TimeoutError:
            await self.close()
            raise NoResponseError("silence") from None

    async def exchange(self, data: bytes, *, method: str = "GET", wait_s: float = 10.0) -> Response:
        """Send one request and read its response; a keep-alive connection closed meanwhile is replaced once."""
        reused = self._writer is not None
        await self.send(data)
        try:
            return await self.receive(method=method, wait_s=wait_s)
        except NoResponseError as error:
            if not reused or str(error) == "silence":
                raise
        await self.close()
        await self.send(data)
        return await self.receive(method=method, wait_s=wait_s)

    async def wait_closed(self, wait_s: float) -> bool:
        """Return whether the peer closes the connection within `wait_s` seconds."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._read(), wait_s) == b""
        return False

    async def close(self) -> None:
        """Drop the connection, in the middle of a response too."""
        writer, self._reader, self._writer, self._data = self._writer, None, None, b""
        if writer is not None:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _read(self) -> bytes:
        if self._reader is None:
            return b""
        try:
            return await self._reader.read(65_536)
        except ConnectionError:
            return b""

    async def _receive(self, method: str) -> Response:
        data = self._data
        interim: list[Head] = []
        while True:
            while (taken := take_head(data)) is None:
                more = await self._read()
                if not more:
                    await self.close()
                    raise NoResponseError("closed")
                data += more
            head, data = taken
            status, _, reason = head.start_line.partition(b" ")[2].partition(b" ")
            code = int(status)
            if code >= 200 or code == 101:
                break
            interim.append(head)
        bodiless = method == "HEAD" or code in (101, 204, 304)
        body = (b"", (), data) if bodiless else take_body(head, data, until_close=True)
        ended = False
        while body is None and not ended:
            more = await self._read()
            ended = not more
            data += more
            body = take_body(head, data, until_close=True)
        framed = head.get(b"content-length") is not None or head.get(b"transfer-encoding") is not None
        if ended:
            await self.close()
        self._data = b"" if body is None else body[2]
        return Response(
            status=code,
            reason=reason.decode("latin-1"),
            head=head,
            body=data if body is None else body[0],
            trailers=() if body is None else body[1],
            interim=tuple(interim),
            complete=body is not None or not framed,
            closed=ended,
        )
