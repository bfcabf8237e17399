"""Answers sent in pieces, so that a page over thousands of hosts does not hold up the requests that flow meanwhile."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from proxy.turns import Turns

TEXT = "text/plain; charset=UTF-8"
JSON = "application/json"
_WRITE_BYTES = 65_536


async def stream(request: web.Request, pieces: Iterable[str], content_type: str = TEXT) -> web.StreamResponse:
    """Send the pieces as they are made; a HEAD request gets the head only, a reader that has gone no more of them."""
    response = web.StreamResponse(headers={"content-type": content_type})
    await response.prepare(request)
    if request.method != "HEAD":
        with contextlib.suppress(ConnectionResetError):
            await _write(response, pieces)
    return response


async def _write(response: web.StreamResponse, pieces: Iterable[str]) -> None:
    turns = Turns()
    buffer: list[str] = []
    size = 0
    for piece in pieces:
        buffer.append(piece)
        size += len(piece)
        if size >= _WRITE_BYTES:
            await response.write("".join(buffer).encode())
            buffer.clear()
            size = 0
        if turns.over():
            await turns.give()
    await response.write("".join(buffer).encode())
    await response.write_eof()


async def stream_json(request: web.Request, value: Any) -> web.StreamResponse:
    """Send a value as Envoy prints its messages: one space of indentation, a newline at the end."""
    return await stream(request, _json_pieces(value), JSON)


def _json_pieces(value: Any) -> Iterable[str]:
    yield from json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(value)
    yield "\n"


def text(body: str, status: int = 200) -> web.Response:
    """Return a short plain answer."""
    return web.Response(text=body, status=status, headers={"content-type": TEXT})
