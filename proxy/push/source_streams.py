"""The state machines of a source's streams, in bytes: what a stream to a sink says, whatever the protocol."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from proxy.config.feed_mode import FeedMode
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


class Machine(Protocol):
    """One stream's state."""

    protocol: str

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


class McpMachine:
    """MCP; `dialled` says that it was the source that opened the stream."""

    protocol = "mcp"

    def __init__(self, snapshots: Mapping[str, CollectionSnapshot | None], mode: FeedMode, *, dialled: bool) -> None:
        self._snapshots = snapshots
        self._stream = SourceStream(snapshots, mode)
        self._dialled = dialled

    def opened(self) -> Iterable[bytes]:
        """Send a trigger where Istio's source would."""
        return map(resources_to_bytes, self._stream.dialled()) if self._dialled else ()

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Answer a `RequestResources`."""
        return map(resources_to_bytes, self._stream.receive(request_from_bytes(data)))

    def publish(self) -> Iterable[bytes]:
        """Send the collections that changed."""
        for collection in self._snapshots:
            yield from map(resources_to_bytes, self._stream.publish(collection))


class XdsMachine:
    """xDS, state of the world."""

    protocol = "xds"

    def __init__(self, content: XdsContent, stats: XdsServerStats) -> None:
        self._stream = XdsServerStream(content, stats)

    def opened(self) -> Iterable[bytes]:
        """Send nothing."""
        return ()

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Answer a `DiscoveryRequest`."""
        return map(discovery_response_to_bytes, self._stream.receive(discovery_request_from_bytes(data)))

    def publish(self) -> Iterable[bytes]:
        """Send the types that changed, in the order of their subscription."""
        for type_url in tuple(self._stream.subscribed):
            yield from map(discovery_response_to_bytes, self._stream.publish(type_url))


class DeltaMachine:
    """xDS, incremental."""

    protocol = "xds-delta"

    def __init__(self, content: XdsContent, stats: XdsServerStats) -> None:
        self._stream = XdsDeltaServerStream(content, stats)

    def opened(self) -> Iterable[bytes]:
        """Send nothing."""
        return ()

    def receive(self, data: bytes) -> Iterable[bytes]:
        """Answer a `DeltaDiscoveryRequest`."""
        return map(delta_response_to_bytes, self._stream.receive(delta_request_from_bytes(data)))

    def publish(self) -> Iterable[bytes]:
        """Send the types that changed, in the order of their subscription."""
        for type_url in tuple(self._stream.subscribed):
            yield from map(delta_response_to_bytes, self._stream.publish(type_url))
