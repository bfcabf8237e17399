"""Start cases: sources that answer, are silent or are not there, in virtual time, without a network."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from outlier import SeededRandom
from proxy.config.durations import NS_PER_MS, parse_duration_ns
from proxy.config.feed_mode import FeedMode
from proxy.config.resource import KINDS_BY_COLLECTION, Contents
from proxy.config.store import Store
from proxy.mcp.backoff import EXPONENTIAL, FIXED, Backoff
from proxy.mcp.feed import Feed, SourceUnreachableError
from proxy.mcp.messages import Code, DiscoveryResponse, Resources
from proxy.mcp.sessions import McpSession, XdsSession
from proxy.mcp.stream import Stream, StreamError
from proxy.mcp.wire import (
    discovery_request_from_bytes,
    discovery_response_to_bytes,
    pack_envelope,
    request_from_bytes,
    resources_to_bytes,
)
from proxy.mcp.xds_types import kind_of
from tests.conformance.mcp_bodies import envelope, expect_same
from tests.virtual_time import run_in_virtual_time

_START_TIMEOUT_MS = 2_000
_LOOK_AFTER_S = 2
_LONGEST_WAIT_S = 90
_RULE = {"name": "ns/a", "version": "1"}


def run_start(case: Mapping[str, Any], mode: FeedMode, protocol: str) -> None:
    """Run one case and compare."""
    run_in_virtual_time(_start(case, mode, protocol))


class _FakeStream:
    """A stream to a source that answers each first request once, or never."""

    def __init__(self, protocol: str, *, silent: bool) -> None:
        self._protocol = protocol
        self._silent = silent
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def send(self, data: bytes) -> None:
        if self._silent:
            return
        if self._protocol == "mcp":
            request = request_from_bytes(data)
            kind = KINDS_BY_COLLECTION[request.collection]
            resources = (envelope(_RULE, kind),) if kind.name == "DestinationRule" else ()
            answer = resources_to_bytes(Resources(collection=request.collection, nonce="1", resources=resources))
            first = not request.response_nonce
        else:
            discovery = discovery_request_from_bytes(data)
            known = kind_of(discovery.type_url)
            rules = known is not None and known.name == "DestinationRule"
            packed = (pack_envelope(envelope(_RULE, known)),) if known is not None and rules else ()
            answer = discovery_response_to_bytes(
                DiscoveryResponse(type_url=discovery.type_url, nonce="1", resources=packed)
            )
            first = discovery.response_nonce != "1"
        if first:
            self._inbox.put_nowait(answer)

    async def receive(self) -> bytes | None:
        return await self._inbox.get()

    def cancel(self) -> None:
        self._inbox.put_nowait(None)

    async def wait_closed(self) -> None:
        self.cancel()


class _Source:
    """One configured source, its feed, and when it was dialled."""

    def __init__(self, state: str, mode: FeedMode, protocol: str, store: Store) -> None:
        self.state = state
        self.dials: list[float] = []
        self.streams: list[_FakeStream] = []
        self._protocol = protocol
        self.session: McpSession | XdsSession[Any, Any]

        def update(parts: Mapping[str, Contents], removed: Iterable[str], _arrived_ms: int) -> None:
            for part in removed:
                store.remove(str(id(self)), part)
            for part, contents in parts.items():
                store.put(str(id(self)), part, contents)

        if protocol == "mcp":
            self.session = McpSession("peer", update, mode=mode, node_id="")
        else:
            self.session = XdsSession.sotw("peer", update, mode=mode, node_id="node")
        settings = FIXED if mode is FeedMode.PILOT and protocol == "mcp" else EXPONENTIAL
        self.feed = Feed("peer", self._dial, self.session, Backoff(settings, SeededRandom(1)))

    async def _dial(self) -> Stream:
        self.dials.append(asyncio.get_running_loop().time())
        if self.state == "down":
            raise StreamError(Code.UNAVAILABLE, "nobody listens")
        self.streams.append(_FakeStream(self._protocol, silent=self.state == "silent"))
        return self.streams[-1]


async def _start(case: Mapping[str, Any], mode: FeedMode, protocol: str) -> None:
    store = Store()
    sources = [_Source(state, mode, protocol, store) for state in case["start"]["sources"]]
    expected = case["expect"]
    try:
        for source in sources:
            await source.feed.connect(_START_TIMEOUT_MS)
        outcome = "succeeds"
    except SourceUnreachableError:
        outcome = "fails"
    expect_same(expected.get("start", "succeeds"), outcome, "start")
    if outcome == "fails":
        return
    tasks = [asyncio.create_task(source.feed.run()) for source in sources]
    await asyncio.sleep(_LOOK_AFTER_S)
    expect_same(expected.get("synced", True), all(source.session.synced for source in sources), "synced")
    if "then" in case:
        await _lose(case, mode, sources[0], store)
    expect_same(True, not any(task.done() for task in tasks), "running")
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _lose(case: Mapping[str, Any], mode: FeedMode, source: _Source, store: Store) -> None:
    kept = dict(store.resources)
    lost_s = asyncio.get_running_loop().time()
    source.state = "down"
    source.streams[-1].cancel()
    await asyncio.sleep(_seconds(case["then"]["down"]))
    expect_same(kept, dict(store.resources), "store while down")
    source.state = "up"
    await asyncio.sleep(_LONGEST_WAIT_S)
    expect_same(True, source.feed.status().connected, "connected again")
    expect_same(kept, dict(store.resources), "store when up again")
    if mode is FeedMode.PILOT:
        times = [lost_s, *(time for time in source.dials if time > lost_s)]
        waits = [after - before for before, after in pairwise(times)]
        _expect_waits(case["expect"]["redial"], waits)


def _expect_waits(redial: Any, waits: list[float]) -> None:
    for number, wait in enumerate(waits):
        if isinstance(redial, str):
            low = high = _seconds(redial)
        else:
            base = min(_seconds(redial["initial"]) * redial["factor"] ** number, _seconds(redial["max"]))
            low, high = base * (1 - redial["jitter"]), base * (1 + redial["jitter"])
        tolerance_s = 0.001
        expect_same(True, low - tolerance_s <= wait <= high + tolerance_s, f"wait {number}: {wait} in {low}..{high}")


def _seconds(text: str) -> float:
    return parse_duration_ns(text) / NS_PER_MS / 1000
