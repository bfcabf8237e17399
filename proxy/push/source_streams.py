"""The state machines of a source's streams, in bytes: what a stream to a sink says, whatever the protocol."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from proxy.config.feed_mode import FeedMode
from proxy.mcp.journal import Journal, JournalEntry
from proxy.mcp.messages import Status
from proxy.mcp.source import CollectionSnapshot, SourceStream
from proxy.mcp.wire import (
    delta_request_from_bytes,
    delta_response_to_bytes,
    discovery_request_from_bytes,
    discovery_response_to_bytes,
    request_from_bytes,
    resources_to_bytes,
)
from proxy.mcp.xds_server import XdsContent, XdsDeltaServerStream, XdsServerStats, XdsServerStream


@attrs.define
class SourceStats:
    """Answers of all sinks, by collection or type; refusals by code too."""

    acks: Counter[str] = attrs.field(factory=Counter)
    nacks: Counter[tuple[str, int]] = attrs.field(factory=Counter)


class _Recorder:
    """Notes the requests of one stream: the last ones for people, all of them as counts."""

    def __init__(self, stats: SourceStats) -> None:
        self.journal = Journal()
        self._stats = stats

    def _record(self, collection: str, nonce: str, error: Status | None) -> None:
        time_ms = time.time_ns() // 1_000_000
        self.journal.record(JournalEntry(time_ms=time_ms, collection=collection, nonce=nonce, error=error))
        if error is not None:
            self._stats.nacks[collection, error.code] += 1
        elif nonce:
            self._stats.acks[collection] += 1


class Machine(Protocol):
    """One stream's state."""

    protocol: str
    journal: Journal

    def opened(self) -> Iterable[bytes]:
        """Return what to send first."""
        ...

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Return what to send after a request.

        Raises:
            WireError: It is no request.
            StreamRefusedError: It must end the stream.
        """
        ...

    def publish(self) -> Iterable[bytes]:
        """Return what to send now that something may have changed."""
        ...


class McpMachine(_Recorder):
    """MCP; `dialled` says that it was the source that opened the stream."""

    protocol = "mcp"

    def __init__(
        self,
        snapshots: Mapping[str, CollectionSnapshot | None],
        mode: FeedMode,
        stats: SourceStats,
        *,
        dialled: bool,
    ) -> None:
        super().__init__(stats)
        self._snapshots = snapshots
        self._stream = SourceStream(snapshots, mode)
        self._dialled = dialled

    def opened(self) -> Iterable[bytes]:
        """Send a trigger where Istio's source would."""
        return map(resources_to_bytes, self._stream.dialled()) if self._dialled else ()

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Answer a `RequestResources`."""
        request = request_from_bytes(data)
        self._record(request.collection, request.response_nonce, request.error_detail)
        return map(resources_to_bytes, self._stream.receive(request))

    def publish(self) -> Iterable[bytes]:
        """Send the collections that changed."""
        for collection in self._snapshots:
            yield from map(resources_to_bytes, self._stream.publish(collection))


class XdsMachine(_Recorder):
    """xDS, state of the world."""

    protocol = "xds"

    def __init__(self, content: XdsContent, xds_stats: XdsServerStats, stats: SourceStats) -> None:
        super().__init__(stats)
        self._stream = XdsServerStream(content, xds_stats)

    def opened(self) -> Iterable[bytes]:
        """Send nothing."""
        return ()

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Answer a `DiscoveryRequest`."""
        request = discovery_request_from_bytes(data)
        self._record(request.type_url, request.response_nonce, request.error_detail)
        return map(discovery_response_to_bytes, self._stream.receive(request))

    def publish(self) -> Iterable[bytes]:
        """Send the types that changed, in the order of their subscription."""
        for type_url in tuple(self._stream.subscribed):
            yield from map(discovery_response_to_bytes, self._stream.publish(type_url))


class DeltaMachine(_Recorder):
    """xDS, incremental."""

    protocol = "xds-delta"

    def __init__(self, content: XdsContent, xds_stats: XdsServerStats, stats: SourceStats) -> None:
        super().__init__(stats)
        self._stream = XdsDeltaServerStream(content, xds_stats)

    def opened(self) -> Iterable[bytes]:
        """Send nothing."""
        return ()

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Answer a `DeltaDiscoveryRequest`."""
        request = delta_request_from_bytes(data)
        self._record(request.type_url, request.response_nonce, request.error_detail)
        return map(delta_response_to_bytes, self._stream.receive(request))

    def publish(self) -> Iterable[bytes]:
        """Send the types that changed, in the order of their subscription."""
        for type_url in tuple(self._stream.subscribed):
            yield from map(delta_response_to_bytes, self._stream.publish(type_url))
