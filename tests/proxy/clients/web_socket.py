"""WebSocket clients and servers of two libraries behind one face each, so that every pair of them can be tried.

Servers answer the client's commands: `close CODE REASON` closes, `ping` pings and says so when the pong is here,
`abort` drops the connection, `chosen` tells the subprotocol; anything else is sent back as it came.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

import aiohttp
import websockets
from aiohttp import web
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

SUBPROTOCOLS = ("chat.v2", "chat.v1")
MAX_BYTES = 4 << 20


@contextlib.asynccontextmanager
async def websockets_server(closed: "asyncio.Queue[int | None]") -> AsyncIterator[str]:
    """Run a server of `websockets`; yield its address. `closed` gets the code that each client closed with."""

    async def handle(connection: ServerConnection) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            await talk(connection)
        await connection.wait_closed()
        closed.put_nowait(connection.close_code)

    async def talk(connection: ServerConnection) -> None:
        async for message in connection:
            match str(message).split(" ", 2) if isinstance(message, str) else ():
                case ["close", code, reason]:
                    await connection.close(int(code), reason)
                case ["ping"]:
                    await (await connection.ping(b"are you there"))
                    await connection.send("pong")
                case ["abort"]:
                    connection.transport.abort()
                case ["chosen"]:
                    await connection.send(connection.subprotocol or "")
                case _:
                    await connection.send(message)

    def select(_: ServerConnection, offered: Sequence[websockets.Subprotocol]) -> websockets.Subprotocol | None:
        return next((name for name in offered if name in SUBPROTOCOLS), None)

    async with serve(handle, "127.0.0.1", 0, select_subprotocol=select, max_size=MAX_BYTES) as server:
        host, port = next(iter(server.sockets)).getsockname()
        yield f"{host}:{port}"


@contextlib.asynccontextmanager
async def aiohttp_server(closed: "asyncio.Queue[int | None]") -> AsyncIterator[str]:
    """Run a server of aiohttp; yield its address."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=SUBPROTOCOLS, max_msg_size=MAX_BYTES, autoping=False)
        await socket.prepare(request)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is aiohttp.WSMsgType.PONG:
                await socket.send_str("pong")
            elif message.type is aiohttp.WSMsgType.BINARY:
                await socket.send_bytes(message.data)
            else:
                await answer(request, socket, message.data)
        closed.put_nowait(socket.close_code)
        return socket

    async def answer(request: web.Request, socket: web.WebSocketResponse, text: str) -> None:
        match text.split(" ", 2):
            case ["close", code, reason]:
                await socket.close(code=int(code), message=reason.encode())
            case ["ping"]:
                await socket.ping(b"are you there")
            case ["abort"]:
                assert request.transport is not None
                request.transport.abort()
            case ["chosen"]:
                await socket.send_str(socket.ws_protocol or "")
            case _:
                await socket.send_str(text)

    application = web.Application()
    application.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


SERVERS = (websockets_server, aiohttp_server)


class WebSocketClient:
    """One connection; `async with`. `subprotocol` and `extensions` are what the server has agreed to."""

    def __init__(self, address: str, *, subprotocols: Sequence[str] = (), deflate: bool = False) -> None:
        self._url = f"ws://{address}/chat?room=1"
        self._subprotocols = subprotocols
        self._deflate = deflate
        self.subprotocol: str | None = None
        self.extensions = ""

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        raise NotImplementedError

    async def send(self, message: str | bytes) -> None:
        """Send a message of text or of bytes."""
        raise NotImplementedError

    async def send_fragments(self, fragments: Sequence[str]) -> None:
        """Send a message in several frames."""
        raise NotImplementedError

    async def receive(self) -> str | bytes | tuple[int, str]:
        """Return the next message, or code and reason of the close; 1006 for a connection that is just gone."""
        raise NotImplementedError

    async def ping(self) -> bool:
        """Send a ping and return whether its pong came back."""
        raise NotImplementedError

    async def close(self, code: int, reason: str) -> None:
        """Close with a code, and wait for the server's close."""
        raise NotImplementedError

    def abort(self) -> None:
        """Drop the connection without a word."""
        raise NotImplementedError


class WebsocketsClient(WebSocketClient):
    """That of `websockets`."""

    _connection: ClientConnection

    async def __aenter__(self) -> Self:
        self._connection = await connect(
            self._url,
            subprotocols=[websockets.Subprotocol(name) for name in self._subprotocols] or None,
            compression="deflate" if self._deflate else None,
            max_size=MAX_BYTES,
            proxy=None,
        )
        self.subprotocol = self._connection.subprotocol
        response = self._connection.response
        assert response is not None
        self.extensions = response.headers.get("sec-websocket-extensions", "")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def send(self, message: str | bytes) -> None:
        await self._connection.send(message)

    async def send_fragments(self, fragments: Sequence[str]) -> None:
        await self._connection.send(fragments)

    async def receive(self) -> str | bytes | tuple[int, str]:
        try:
            return await self._connection.recv()
        except websockets.ConnectionClosed as closed:
            return (1006, "") if closed.rcvd is None else (closed.rcvd.code, closed.rcvd.reason)

    async def ping(self) -> bool:
        await (await self._connection.ping(b"here"))
        return True

    async def close(self, code: int, reason: str) -> None:
        await self._connection.close(code, reason)

    def abort(self) -> None:
        self._connection.transport.abort()


class AiohttpClient(WebSocketClient):
    """That of aiohttp."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(
            self._url,
            protocols=self._subprotocols,
            compress=15 if self._deflate else 0,
            max_msg_size=MAX_BYTES,
            autoping=False,
        )
        self.subprotocol = self._socket.protocol
        self.extensions = "permessage-deflate" if self._socket.compress else ""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        await self._session.close()

    async def send(self, message: str | bytes) -> None:
        await (self._socket.send_str(message) if isinstance(message, str) else self._socket.send_bytes(message))

    async def send_fragments(self, fragments: Sequence[str]) -> None:
        await self._socket.send_str("".join(fragments))  # it has no way to send a message in frames

    async def receive(self) -> str | bytes | tuple[int, str]:
        while True:
            message = await self._socket.receive()
            if message.type is aiohttp.WSMsgType.PING:
                await self._socket.pong(message.data)
                continue
            if message.type is aiohttp.WSMsgType.CLOSE:
                return message.data, message.extra or ""
            if message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR):
                return 1006, ""
            data: Any = message.data
            return data

    async def ping(self) -> bool:
        await self._socket.ping(b"here")
        message = await self._socket.receive()
        return message.type is aiohttp.WSMsgType.PONG and bytes(message.data) == b"here"

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code=code, message=reason.encode())

    def abort(self) -> None:
        transport = self._socket._conn.transport  # no public way is as abrupt
        assert transport is not None
        transport.abort()


WEB_SOCKET_CLIENTS = (WebsocketsClient, AiohttpClient)
