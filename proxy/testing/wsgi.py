"""Serves a WSGI application from an aiohttp handler (PEP 3333); each call runs in a thread, whole bodies both ways."""

import asyncio
import io
import sys
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_UNPREFIXED = {"CONTENT_TYPE", "CONTENT_LENGTH"}


class WsgiAdapter:
    """Calls the application once a request."""

    def __init__(self, app: WsgiApplication) -> None:
        self._app = app

    def application(self) -> web.Application:
        """Return the aiohttp application that stands before it."""
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{path:.*}", self._handle)
        return application

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        environ = _environ(request, await request.read())
        status, headers, body = await asyncio.to_thread(self._call, environ)
        response = web.Response(status=status, body=None if request.method == "HEAD" else body)
        for name, value in headers:
            if name.lower() != "content-length":
                response.headers.add(name, value)
        return response

    def _call(self, environ: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
        started: list[tuple[int, list[tuple[str, str]]]] = []
        written: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], *_exc_info: object) -> Callable[[bytes], None]:
            # Nothing has been sent yet, so an error's headers may always take the place of the first ones.
            started[:] = [(int(status.split(" ", 1)[0]), headers)]
            return written.append

        result = self._app(environ, start_response)
        try:
            written += result
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        status, headers = started[0]
        return status, headers, b"".join(written)


def _environ(request: web.Request, body: bytes) -> dict[str, Any]:
    path, _, query = request.raw_path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(request.url.port or 80),
        "SERVER_PROTOCOL": f"HTTP/{request.version.major}.{request.version.minor}",
        "REMOTE_ADDR": request.remote or "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in request.raw_headers:
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        key = name if name in _UNPREFIXED else f"HTTP_{name}"
        value = raw_value.decode("latin-1")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    environ["CONTENT_LENGTH"] = str(len(body))
    return environ
