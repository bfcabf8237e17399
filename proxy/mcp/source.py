"""The source's side of MCP: what to send to one sink, and when.

Pure. At most one response of a collection is unanswered; what was refused is not sent again; snapshots that come
meanwhile replace each other. Ports `connection` (Istio 1.4, pkg/mcp/source/source.go).
"""

import itertools
from collections.abc import Mapping

import attrs

from proxy.config.feed_mode import FeedMode
from proxy.mcp.messages import Code, Envelope, RequestResources, Resources, StreamRefusedError

# Istio from 1.2 on: some servers open a stream only at the client's first message, so a source that dials sends one
# for a collection that nobody has.
TRIGGER_COLLECTION = "$triggerCollection"


@attrs.frozen
class CollectionSnapshot:
    """The whole content of a collection, by name, and a version that changes with it."""

    version: str
    resources: Mapping[str, Envelope]

    def versions(self) -> dict[str, str]:
        """Return the version of each resource."""
        return {name: envelope.version for name, envelope in self.resources.items()}


@attrs.frozen
class _Pending:
    nonce: str
    snapshot: CollectionSnapshot


@attrs.define
class _Watch:
    """One collection of one stream; `version` is what the sink has answered last, None before the first request."""

    incremental: bool = False
    version: str | None = None
    pending: _Pending | None = None
    acked: dict[str, str] = attrs.field(factory=dict)


class SourceStream:
    """One stream to one sink.

    Args:
        snapshots: The current content by collection, shared by all streams. A collection that is there without a
            snapshot (None) has no answer yet; one that is not there is not supported.
        mode: PILOT ignores `initial_resource_versions`, and takes a repeated first request for an ACK.
    """

    def __init__(self, snapshots: Mapping[str, CollectionSnapshot | None], mode: FeedMode = FeedMode.SPEC) -> None:
        self._snapshots = snapshots
        self._mode = mode
        self._watches: dict[str, _Watch] = {}
        self._nonces = itertools.count(1)

    def dialled(self) -> list[Resources]:
        """Return what to send first when it was the source that dialled."""
        return [Resources(collection=TRIGGER_COLLECTION)] if self._mode is FeedMode.PILOT else []

    def receive(self, request: RequestResources) -> list[Resources]:
        """Return what to send after a request.

        Raises:
            StreamRefusedError: The collection is not supported.
        """
        name = request.collection
        if name == TRIGGER_COLLECTION and request.error_detail is not None:
            return []
        if name not in self._snapshots:
            raise StreamRefusedError(Code.INVALID_ARGUMENT, f"unsupported collection {name!r}")
        watch = self._watches.setdefault(name, _Watch())
        if request.response_nonce:
            if watch.pending is None or watch.pending.nonce != request.response_nonce:
                return []  # stale
            self._answered(watch, acked=request.error_detail is None)
        elif watch.pending is not None:
            if self._mode is not FeedMode.PILOT:
                watch.incremental = request.incremental
                return []  # what is under way is the answer to this request too
            self._answered(watch, acked=True)
        else:
            watch.version = ""
            known = request.initial_resource_versions
            watch.acked = {} if self._mode is FeedMode.PILOT else dict(known)
        watch.incremental = request.incremental
        return self.publish(name)

    def publish(self, collection: str) -> list[Resources]:
        """Return what to send now that the snapshot of a collection may have changed."""
        watch = self._watches.get(collection)
        snapshot = self._snapshots[collection]
        if watch is None or watch.pending is not None or snapshot is None or snapshot.version == watch.version:
            return []
        nonce = str(next(self._nonces))
        watch.pending = _Pending(nonce, snapshot)
        resources, removed = list(snapshot.resources.values()), list[str]()
        if watch.incremental:
            resources = [envelope for envelope in resources if watch.acked.get(envelope.name) != envelope.version]
            removed = [name for name in watch.acked if name not in snapshot.resources]
        return [
            Resources(
                collection=collection,
                nonce=nonce,
                system_version_info=snapshot.version,
                resources=tuple(resources),
                removed_resources=tuple(removed),
                incremental=watch.incremental,
            )
        ]

    def _answered(self, watch: _Watch, *, acked: bool) -> None:
        assert watch.pending is not None
        snapshot = watch.pending.snapshot
        watch.version = snapshot.version  # also when refused: the same is not sent again
        watch.pending = None
        if acked:
            watch.acked = snapshot.versions()
