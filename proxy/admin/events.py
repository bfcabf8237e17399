"""`/events`: what happens, as it happens, over server-sent events.

A reader says where it stopped with `?since=<id>` or, as browsers do when they reconnect, with `Last-Event-ID`, and gets
the events it missed as far as they are kept. A reader that does not keep up is let go; it comes back by itself and
catches up.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator

from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.streaming import stream_json, text
from proxy.event_stream import StreamEvent

HEARTBEAT_S = 15.0  # below the idle timeouts of the proxies a reader may sit behind
MAX_BACKLOG = 1_000


class _Reader:
    """One connection's events that are yet to be sent; None ends it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()

    def put(self, event: StreamEvent) -> None:
        size = self.queue.qsize()
        if size < MAX_BACKLOG:
            self.queue.put_nowait(event)
        elif size == MAX_BACKLOG:
            self.end()

    def end(self) -> None:
        self.queue.put_nowait(None)

    async def next(self) -> StreamEvent | None:
        return await self.queue.get()


READERS: web.AppKey[set[_Reader]] = web.AppKey("readers")


async def handle_events(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/events`: `since=<id>`, `kind=<kind>[,<kind>]`; `format=json` answers with the kept events and ends."""
    last_id = request.query.get("since") or request.headers.get("last-event-id") or ""
    if last_id and not last_id.isdecimal():
        return text("since must be the id of an event\n", 400)
    kinds = frozenset(request.query["kind"].split(",")) if "kind" in request.query else None
    if request.query.get("format") == "json":
        kept = _of_kinds(context.events.since(int(last_id or 0)), kinds)
        return await stream_json(request, [event_as_dict(event) for event in kept])
    return await _follow(context, request, int(last_id) if last_id else context.events.last_id, kinds)


async def _follow(
    context: AdminContext, request: web.Request, since: int, kinds: frozenset[str] | None
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-accel-buffering": "no"})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    reader = _Reader()
    readers = request.app[READERS]
    readers.add(reader)
    backlog = context.events.since(since)
    context.events.subscribe(reader.put)
    try:
        await response.write(b"retry: 1000\n\n" + _as_sse(_of_kinds(backlog, kinds)))
        while True:
            try:
                event = await asyncio.wait_for(reader.next(), HEARTBEAT_S)
            except TimeoutError:
                await response.write(b": still here\n\n")
                continue
            if event is None:
                break
            await response.write(_as_sse(_of_kinds([event], kinds)))
    except ConnectionResetError:
        pass  # the reader has gone
    finally:
        context.events.unsubscribe(reader.put)
        readers.discard(reader)
    return response


async def end_streams(application: web.Application) -> None:
    """Let every reader go, so that a sidecar that stops does not wait for them."""
    readers = application[READERS]
    for reader in tuple(readers):
        reader.end()


def event_as_dict(event: StreamEvent) -> dict[str, object]:
    """Return the event as one flat JSON object."""
    return {"id": event.id, "system_ms": event.system_ms, "kind": event.kind, **event.data}


def _of_kinds(events: Iterable[StreamEvent], kinds: frozenset[str] | None) -> Iterator[StreamEvent]:
    return (event for event in events if kinds is None or event.kind in kinds)


def _as_sse(events: Iterable[StreamEvent]) -> bytes:
    return "".join(
        f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event_as_dict(event), ensure_ascii=False)}\n\n"
        for event in events
    ).encode()
