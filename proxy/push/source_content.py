"""What a folder comes to as the collections that a source serves.

The last good version of each resource is served while a newer one is bad. A resource's version is a hash of it, so that
equal content has an equal version wherever and whenever it is read.
"""

from collections.abc import Iterable, Mapping

import attrs
import xxhash

from proxy.config.issue import Issue
from proxy.config.resource import KINDS_BY_COLLECTION, Contents, Key, Resource
from proxy.config.store import Store
from proxy.mcp.bodies import encode_body
from proxy.mcp.messages import Envelope
from proxy.mcp.source import CollectionSnapshot

_SOURCE = "folder"


def envelope_of(resource: Resource) -> Envelope:
    """Return a resource as it goes on the wire."""
    envelope = Envelope(
        name=resource.full_name,
        create_time_ms=resource.created_ms,
        labels=resource.labels,
        annotations=resource.annotations,
        body=encode_body(resource.kind, resource.body),
    )
    digest = xxhash.xxh3_64(envelope.body.value)
    metadata = (resource.created_ms, sorted(resource.labels.items()), sorted(resource.annotations.items()))
    digest.update(repr(metadata).encode())
    return attrs.evolve(envelope, version=digest.hexdigest())


class SourceContent:
    """The collections, and which of them a change touches."""

    def __init__(self) -> None:
        self.snapshots: dict[str, CollectionSnapshot | None] = dict.fromkeys(KINDS_BY_COLLECTION)
        self._store = Store()
        self._envelopes: dict[str, dict[str, Envelope]] = {name: {} for name in KINDS_BY_COLLECTION}

    def issues(self) -> list[Issue]:
        """Return every finding on the files as they are now."""
        return self._store.issues(_SOURCE)

    def update(self, parts: Mapping[str, Contents], removed: Iterable[str] = ()) -> list[str]:
        """Take over files that changed and drop others; return the collections that are different now.

        The first call makes every collection known: an empty one is empty, not unknown.
        """
        changed: dict[Key, Resource | None] = {}
        for part in removed:
            changed |= _after(self._store.remove(_SOURCE, part))
        for part, contents in parts.items():
            changed |= _after(self._store.put(_SOURCE, part, contents))
        touched = dict.fromkeys(name for name, snapshot in self.snapshots.items() if snapshot is None)
        for (collection, namespace, name), resource in changed.items():
            full_name = f"{namespace}/{name}"
            if resource is None:
                self._envelopes[collection].pop(full_name, None)
            else:
                self._envelopes[collection][full_name] = envelope_of(resource)
            touched[collection] = None
        for collection in touched:
            self.snapshots[collection] = self._snapshot(collection)
        return list(touched)

    def _snapshot(self, collection: str) -> CollectionSnapshot:
        resources = dict(self._envelopes[collection])
        digest = xxhash.xxh3_64()
        for name in sorted(resources):
            digest.update(f"{name} {resources[name].version}\n".encode())
        return CollectionSnapshot(digest.hexdigest(), resources)


def _after(changes: Iterable[tuple[Resource | None, Resource | None]]) -> dict[Key, Resource | None]:
    return {(after or before).key: after for before, after in changes}  # type: ignore[union-attr]
