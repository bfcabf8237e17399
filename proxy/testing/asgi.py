"""Serves an ASGI application from an aiohttp handler.

Follows the ASGI specification, HTTP connection scope 2.3 and lifespan 2.0. An application that does not know lifespan
may raise for it, as the specification allows.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[Message, Receive, Send], Awaitable[None]]

_VERSION = {"version": "3.0", "spec_version": "2.3"}
_FRAMING = frozenset({b"transfer-encoding", b"connection"})  # the server's business


class AsgiAdapter:
    """Calls the application once a request."""

    def __init__(self, app: AsgiApplication) -> None:
        self._app = app
        self._state: dict[str, Any] = {}

    def application(self) -> web.Application:
        """Return the aiohttp application that stands before it."""
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        application.cleanup_ctx.append(self._lifespan)
        return application

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse | None = None
        head_request = request.method == "HEAD"
        received = False
        responded = asyncio.Event()

        async def receive() -> Message:
            nonlocal received
            if received:
                await responded.wait()  # an application may listen for the client's leaving while it responds
                return {"type": "http.disconnect"}
            chunk, end = await request.content.readchunk()
            received = request.content.at_eof() or not (chunk or end)
            return {"type": "http.request", "body": chunk, "more_body": not received}

        async def send(message: Message) -> None:
            nonlocal response
            if message["type"] == "http.response.start":
                response = web.StreamResponse(status=message["status"])
                for key, value in message.get("headers", ()):
                    if key.lower() not in _FRAMING:
                        response.headers.add(key.decode("latin-1"), value.decode("latin-1"))
            elif message["type"] == "http.response.body":
                assert response is not None
                if not response.prepared:
                    await response.prepare(request)
                if message.get("body") and not head_request:
                    await response.write(message["body"])
                if not message.get("more_body", False):
                    await response.write_eof()
                    responded.set()

        await self._app(_scope(request, self._state), receive, send)
        if response is None:
            raise RuntimeError("the application sent no response")
        return response

    async def _lifespan(self, _application: web.Application) -> AsyncIterator[None]:
        """Run start-up and shutdown; a start-up that the application says has failed is an error."""
        incoming: asyncio.Queue[Message] = asyncio.Queue()
        outgoing: asyncio.Queue[Message] = asyncio.Queue()
        scope: Message = {"type": "lifespan", "asgi": _VERSION, "state": self._state}
        task = asyncio.ensure_future(self._app(scope, incoming.get, outgoing.put))
        await incoming.put({"type": "lifespan.startup"})
        supported = await _answer(task, outgoing, "lifespan.startup.failed")
        yield
        if supported:
            await incoming.put({"type": "lifespan.shutdown"})
            await _answer(task, outgoing, "lifespan.shutdown.failed")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(task, return_exceptions=True)


async def _answer(task: "asyncio.Future[None]", outgoing: "asyncio.Queue[Message]", failure: str) -> bool:
    """Return whether the application answered; False when it has ended or raised instead."""
    getting = asyncio.ensure_future(outgoing.get())
    either: set[asyncio.Future[Any]] = {task, getting}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not getting.done():
        getting.cancel()
        return False
    message = getting.result()
    if message["type"] == failure:
        raise RuntimeError(message.get("message") or failure)
    return True


def _scope(request: web.Request, state: dict[str, Any]) -> Message:
    raw_path, _, query = request.raw_path.partition("?")
    transport = request.transport
    assert transport is not None
    return {
        "type": "http",
        "asgi": _VERSION,
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": "http",
        "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
        "raw_path": raw_path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": transport.get_extra_info("peername")[:2],
        "server": transport.get_extra_info("sockname")[:2],
        "state": dict(state),
    }
