"""What every source has delivered: the good version of each resource, and what was refused.

A source (a folder, a server) holds parts (files, collections); a part is replaced as a whole. A part that cannot be
parsed keeps what it brought last; a resource with errors keeps its last good version. Of several parts of one source
that name a resource, the last in the source's order counts, also when it removes it.
"""

from collections import defaultdict
from collections.abc import Mapping

import attrs

from proxy.config.issue import Issue
from proxy.config.resource import Change, Contents, Key, Resource


@attrs.define
class _Part:
    resources: dict[Key, Resource]
    removed: frozenset[Key]
    issues: tuple[Issue, ...]


class Store:
    """Resources by key, merged over parts and sources."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], _Part] = {}
        self._mentions: dict[Key, set[tuple[str, str]]] = defaultdict(set)
        self._resources: dict[Key, Resource] = {}

    @property
    def resources(self) -> Mapping[Key, Resource]:
        """The resources in force."""
        return self._resources

    def issues(self, source: str) -> list[Issue]:
        """Return every finding on a source's parts as they are now, in their order."""
        return [issue for name in self._names(source) for issue in self._parts[name].issues]

    def keys(self, source: str) -> set[Key]:
        """Return the keys of the resources that a source brings, whether or not another one overrides them."""
        return {key for name in self._names(source) for key in self._parts[name].resources}

    def _names(self, source: str) -> list[tuple[str, str]]:
        return sorted(name for name in self._parts if name[0] == source)

    def put(self, source: str, part: str, contents: Contents) -> list[Change]:
        """Replace a part with what was read; return the resources that changed."""
        name = (source, part)
        old = self._parts.get(name)
        if not contents.readable:
            kept = old or _Part(resources={}, removed=frozenset(), issues=())
            self._parts[name] = attrs.evolve(kept, issues=contents.issues)
            return []
        resources = dict(contents.resources)
        if old is not None:
            for key in contents.rejected:
                if key in old.resources:
                    resources.setdefault(key, old.resources[key])
        return self._replace(name, _Part(resources=resources, removed=contents.removed, issues=contents.issues))

    def remove(self, source: str, part: str) -> list[Change]:
        """Drop a part with everything it brought; return the resources that changed."""
        return self._replace((source, part), None)

    def _replace(self, name: tuple[str, str], part: _Part | None) -> list[Change]:
        old = self._parts.pop(name, None)
        touched: dict[Key, None] = {}
        for known in (old, part):
            if known is not None:
                touched |= dict.fromkeys((*known.resources, *known.removed))
        for key in touched:
            self._mentions[key].discard(name)
        if part is not None:
            self._parts[name] = part
            for key in (*part.resources, *part.removed):
                self._mentions[key].add(name)
        changes: list[Change] = []
        for key in touched:
            before, after = self._resources.get(key), self._winner(key)
            if after is None:
                self._resources.pop(key, None)
            else:
                self._resources[key] = after
            if before != after:
                changes.append((before, after))
        return changes

    def _winner(self, key: Key) -> Resource | None:
        names = self._mentions[key]
        if not names:
            del self._mentions[key]
            return None
        return self._parts[max(names)].resources.get(key)
