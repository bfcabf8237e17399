"""The collections of a source as the resources of an xDS server."""

from collections.abc import Mapping

from proxy.config.feed_mode import FeedMode
from proxy.config.resource import Kind
from proxy.mcp.source import CollectionSnapshot
from proxy.mcp.wire import pack_envelope
from proxy.mcp.xds_server import VersionedResource
from proxy.mcp.xds_types import kind_of, type_url_of


class ServedCollections:
    """Implements `XdsContent` for MCP over xDS.

    Args:
        snapshots: The content by collection; changes as the source does.
        mode: PILOT knows one version of each type URL, as istiod does; otherwise all versions mean the same.
    """

    def __init__(self, snapshots: Mapping[str, CollectionSnapshot | None], mode: FeedMode = FeedMode.SPEC) -> None:
        self._snapshots = snapshots
        self._mode = mode
        self._packed: dict[str, tuple[CollectionSnapshot, dict[str, VersionedResource]]] = {}

    def _kind(self, type_url: str) -> Kind | None:
        kind = kind_of(type_url)
        if kind is not None and self._mode is FeedMode.PILOT and type_url != type_url_of(kind):
            return None
        return kind

    def version(self, type_url: str) -> str:
        """Return the version of a collection; empty without one."""
        kind = self._kind(type_url)
        snapshot = self._snapshots.get(kind.collection) if kind is not None else None
        return snapshot.version if snapshot is not None else ""

    def resources(self, type_url: str, names: frozenset[str]) -> Mapping[str, VersionedResource]:
        """Return the resources of a collection, whatever names are asked for, as istiod does."""
        kind = self._kind(type_url)
        snapshot = self._snapshots.get(kind.collection) if kind is not None else None
        if snapshot is None or kind is None:
            return {}
        known = self._packed.get(kind.name)
        if known is None or known[0] is not snapshot:
            packed = {
                name: VersionedResource(envelope.version, pack_envelope(envelope))
                for name, envelope in snapshot.resources.items()
            }
            known = self._packed[kind.name] = (snapshot, packed)
        return known[1]
