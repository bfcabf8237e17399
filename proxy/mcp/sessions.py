"""The protocols of sources as sessions: bytes in, configuration out, bytes back.

A big message is decoded and judged on a thread, and the store is fed in slices, so the loop stays free.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from proxy.config.feed_mode import FeedMode
from proxy.config.resource import KINDS, KINDS_BY_COLLECTION, Contents, Kind
from proxy.mcp.bodies import UndecodableError, decode_resource
from proxy.mcp.feed import refused
from proxy.mcp.holdings import Changes
from proxy.mcp.journal import Journal, JournalEntry
from proxy.mcp.messages import (
    DeltaRequest,
    DeltaResponse,
    DiscoveryRequest,
    DiscoveryResponse,
    Envelope,
    RequestResources,
    Status,
)
from proxy.mcp.sink import Sink, SinkAnswer
from proxy.mcp.wire import (
    WireError,
    delta_request_to_bytes,
    delta_response_from_bytes,
    discovery_request_to_bytes,
    discovery_response_from_bytes,
    request_to_bytes,
    resources_from_bytes,
)
from proxy.mcp.xds_client import ClientAnswer, Outcome, Unpacked, XdsClient, good_ones
from proxy.mcp.xds_delta_client import XdsDeltaClient

TakenT = TypeVar("TakenT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
_ResponseT_contra = TypeVar("_ResponseT_contra", contravariant=True)

Update = Callable[[Mapping[str, Contents], Iterable[str], int], None]
"""Takes parts of the source to replace, by name; names of parts to drop; and when they arrived, monotonic ms."""

_INLINE_BYTES = 16_384  # below this, a hop to a thread costs more than decoding
_SLICE = 100  # parts that go into the store before others get a turn: well under 5 ms


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Source:
    """What the sessions of one source share."""

    def __init__(self, source: str, update: Update, mode: FeedMode, collections: int) -> None:
        self.journal = Journal()
        self.acks: Counter[str] = Counter()  # by collection
        self.nacks: Counter[tuple[str, int]] = Counter()  # by collection and code
        self._source = source
        self._update = update
        self._mode = mode
        self._collections = collections
        self._synced = asyncio.Event()
        self._answered: set[str] = set()

    @property
    def complete(self) -> bool:
        """Whether each collection has come over the current stream."""
        return len(self._answered) == self._collections

    @property
    def synced(self) -> bool:
        """Whether every collection has had a response that was taken."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once every collection has had a response that was taken."""
        await self._synced.wait()

    def _note_received(self, kind: Kind | None, synced: frozenset[str]) -> None:
        if kind is not None:
            self._answered.add(kind.name)
        if len(synced) == self._collections:
            self._synced.set()

    def _record(self, collection: str, nonce: str, error: Status | None) -> None:
        self.journal.record(JournalEntry(time_ms=_system_ms(), collection=collection, nonce=nonce, error=error))
        if error is not None:
            self.nacks[collection, error.code] += 1
        elif nonce:
            self.acks[collection] += 1

    def _decode(self, envelopes: Iterable[Envelope], kind: Kind) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for envelope in envelopes:
            try:
                outcomes[envelope.name] = decode_resource(envelope, kind, self._source, self._mode)
            except UndecodableError as exc:
                outcomes[envelope.name] = exc
        return outcomes

    async def _store(self, kind: Kind, changes: Changes, arrived_ms: int) -> None:
        parts = iter(changes.parts.items())
        removed = iter(changes.removed)
        while True:
            some = {f"{kind.collection}/{name}": contents for name, contents in islice(parts, _SLICE)}
            gone = [f"{kind.collection}/{name}" for name in islice(removed, _SLICE)]
            if not some and not gone:
                return
            self._update(some, gone, arrived_ms)
            await asyncio.sleep(0)


class McpSession(_Source):
    """MCP, as sink.

    Args:
        source: URL of the source, for findings.
        update: Takes what changes.
        mode: What becomes of bad resources.
        incremental: Whether to ask for incremental responses.
        node_id: Who asks.
    """

    def __init__(self, source: str, update: Update, *, mode: FeedMode, node_id: str, incremental: bool = True) -> None:
        super().__init__(source, update, mode, len(KINDS_BY_COLLECTION))
        self._node_id = node_id
        self._sink = Sink(dict.fromkeys(KINDS_BY_COLLECTION, incremental), mode)

    def open(self) -> Iterable[bytes]:
        """Ask for every collection."""
        self._answered.clear()
        return [self._request(request) for request in self._sink.open()]

    async def receive(self, data: bytes) -> Iterable[bytes]:
        """Take over a `Resources`; answer it."""
        arrived_ms = _monotonic_ms()
        kind, answer = await _off_the_loop(self._take, data)
        if kind is not None:
            await self._store(kind, answer.changes, arrived_ms)
        self._note_received(kind, self._sink.synced)
        return [self._request(answer.request)]

    def _take(self, data: bytes) -> tuple[Kind | None, SinkAnswer]:
        try:
            message = resources_from_bytes(data)
        except WireError as exc:
            raise refused(str(exc)) from exc
        kind = KINDS_BY_COLLECTION.get(message.collection)
        outcomes = self._decode(self._sink.fresh(message), kind) if kind is not None else {}
        bad = next((outcome for outcome in outcomes.values() if isinstance(outcome, UndecodableError)), None)
        return kind, self._sink.receive(message, bad or good_ones(outcomes))

    def _request(self, request: RequestResources) -> bytes:
        self._record(request.collection, request.response_nonce, request.error_detail)
        return request_to_bytes(request, self._node_id)


class _XdsProtocol(Protocol[RequestT, _ResponseT_contra]):
    """What `XdsClient` and `XdsDeltaClient` have in common."""

    @property
    def synced(self) -> frozenset[str]: ...
    def open(self) -> Sequence[RequestT]: ...
    def kind(self, response: _ResponseT_contra, /) -> Kind | None: ...
    def unpack(self, response: _ResponseT_contra, /) -> Unpacked: ...
    def fresh(self, response: _ResponseT_contra, unpacked: Unpacked, /) -> list[Envelope]: ...
    def receive(
        self, response: _ResponseT_contra, unpacked: Unpacked, decoded: Mapping[str, Outcome], /
    ) -> ClientAnswer[RequestT]: ...


class XdsSession(_Source, Generic[RequestT, ResponseT]):
    """MCP over xDS; `sotw` and `delta` make the two variants.

    Args:
        source: URL of the source, for findings.
        update: Takes what changes.
        mode: What becomes of bad resources.
        client: The protocol's state.
        parse: Bytes to responses.
        serialize: Requests to bytes.
    """

    def __init__(
        self,
        source: str,
        update: Update,
        *,
        mode: FeedMode,
        client: _XdsProtocol[RequestT, ResponseT],
        parse: Callable[[bytes], ResponseT],
        serialize: Callable[[RequestT], bytes],
    ) -> None:
        super().__init__(source, update, mode, len(KINDS))
        self._client = client
        self._parse = parse
        self._serialize = serialize

    @staticmethod
    def sotw(
        source: str, update: Update, *, mode: FeedMode, node_id: str
    ) -> "XdsSession[DiscoveryRequest, DiscoveryResponse]":
        """Return a session that gets the state of the world."""
        return XdsSession(
            source,
            update,
            mode=mode,
            client=XdsClient(tuple(KINDS.values()), node_id=node_id, mode=mode),
            parse=discovery_response_from_bytes,
            serialize=discovery_request_to_bytes,
        )

    @staticmethod
    def delta(
        source: str, update: Update, *, mode: FeedMode, node_id: str
    ) -> "XdsSession[DeltaRequest, DeltaResponse]":
        """Return a session that gets what changes."""
        return XdsSession(
            source,
            update,
            mode=mode,
            client=XdsDeltaClient(tuple(KINDS.values()), node_id=node_id, mode=mode),
            parse=delta_response_from_bytes,
            serialize=delta_request_to_bytes,
        )

    def open(self) -> Iterable[bytes]:
        """Ask for every type."""
        self._answered.clear()
        return [self._request(request) for request in self._client.open()]

    async def receive(self, data: bytes) -> Iterable[bytes]:
        """Take over a response; answer it."""
        arrived_ms = _monotonic_ms()
        kind, answer = await _off_the_loop(self._take, data)
        if kind is not None:
            await self._store(kind, answer.changes, arrived_ms)
        self._note_received(kind, self._client.synced)
        return [] if answer.request is None else [self._request(answer.request)]

    def _take(self, data: bytes) -> tuple[Kind | None, ClientAnswer[RequestT]]:
        try:
            response = self._parse(data)
        except WireError as exc:
            raise refused(str(exc)) from exc
        kind = self._client.kind(response)
        unpacked = self._client.unpack(response)
        outcomes = self._decode(self._client.fresh(response, unpacked), kind) if kind is not None else {}
        return kind, self._client.receive(response, unpacked, outcomes)

    def _request(self, request: RequestT) -> bytes:
        assert isinstance(request, DiscoveryRequest | DeltaRequest)
        self._record(request.type_url, request.response_nonce, request.error_detail)
        return self._serialize(request)


async def _off_the_loop(take: Callable[[bytes], TakenT], data: bytes) -> TakenT:
    """Return what a message comes to; nobody else touches a session's state meanwhile."""
    return take(data) if len(data) < _INLINE_BYTES else await asyncio.to_thread(take, data)
