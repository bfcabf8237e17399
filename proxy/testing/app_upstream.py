"""A test's own web application as an upstream: aiohttp, ASGI (FastAPI, Starlette) or WSGI (Flask), in one line.

aiohttp serves all three; an ASGI or WSGI application is called from a handler that takes every path. Made for tests:
HTTP requests and lifespan, no WebSockets into ASGI applications.
"""

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from proxy.testing.asgi import AsgiAdapter
from proxy.testing.threaded import LoopThread
from proxy.testing.wsgi import WsgiAdapter


class Upstream:
    """An application on a port of its own; `async with` serves it in the test's loop, `with` in a thread.

    >>> async with Upstream.for_app(app) as upstream:  # doctest: +SKIP
    ...     async with Sidecar(outlier_detection={}, endpoints=[upstream]) as sidecar:
    ...         response = await sidecar.get("/items/1")

    Make it with `for_app`. `request_count` counts the requests answered so far.
    """

    def __init__(self, app: web.Application, label: str) -> None:
        self._app = app
        self._label = label
        self._runner: web.AppRunner | None = None
        self._thread: LoopThread | None = None
        self._port = 0
        self.request_count = 0

    def __repr__(self) -> str:
        return f"Upstream({self._label}, {self.address if self._port else 'not started'})"

    @classmethod
    def for_app(cls, app: web.Application | Callable[..., Any]) -> Self:
        """Return an upstream that serves `app`.

        Args:
            app: An `aiohttp.web.Application`, an ASGI application (called with scope, receive, send), or a WSGI one
                (called with environ, start_response; it runs in threads).

        Raises:
            TypeError: It is none of these.
        """
        label = type(app).__name__
        if isinstance(app, web.Application):
            return cls(app, label)
        match _parameter_count(app):
            case 3:
                return cls(AsgiAdapter(app).application(), label)
            case 2:
                return cls(WsgiAdapter(app).application(), label)
        raise TypeError(f"{app!r} is no aiohttp application and takes neither an ASGI nor a WSGI call")

    @property
    def port(self) -> int:
        """The port; known once started."""
        if not self._port:
            raise RuntimeError("Upstream is not started; use `async with` or `with`")
        return self._port

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self._thread = LoopThread("upstream")
        try:
            self._thread.run(self.start())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._thread.run(self.close())
        self._thread.close()
        self._thread = None

    async def start(self) -> None:
        """Run the application's start-up, then listen."""
        self._app.on_response_prepare.append(self._count)
        self._runner = web.AppRunner(self._app, access_log=None, handle_signals=False, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop, and run the application's shutdown."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _count(self, _request: web.Request, _response: web.StreamResponse) -> None:
        self.request_count += 1


def _parameter_count(app: Callable[..., Any]) -> int:
    """Return how many positional arguments a call of `app` needs at least; 0 for what cannot be called."""
    try:
        parameters = inspect.signature(app).parameters.values()
    except (TypeError, ValueError):
        return 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds and parameter.default is parameter.empty for parameter in parameters)
