"""A mapping that never changes, and whose successor with a few other items costs little however big it is.

Most of it is a dictionary that many versions share; a small one of each version's own says what differs. A version
whose own one has grown beyond the square root of the whole is written out as a dictionary again, so that a change
costs about that root at most, on average over many. What differs between two versions is found just as cheaply.
"""

import math
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_SMALLEST_LIMIT = 64  # below it a dictionary is copied faster than one thinks about it


class _Marker:
    """Stands where a value would."""


_SHARED: Final = _Marker()
_REMOVED: Final = _Marker()


class LayeredMapping(Mapping[K, V]):
    """An immutable mapping; keys come in the order in which they were added, but for those that went and came back.

    >>> numbers = LayeredMapping({"one": 1, "two": 2})
    >>> dict(numbers.replaced({"two": None, "three": 3}))
    {'one': 1, 'three': 3}
    >>> len(numbers)
    2
    """

    __slots__ = ("_before", "_length", "_own", "_shared", "_written_out")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._shared: dict[K, V] = dict(items or {})
        self._own: dict[K, V | _Marker] = {}
        self._length = len(self._shared)
        # By which `_shared` is known, and by which the one before it was: that one itself is not kept alive. With the
        # latter go the keys of what had become different when `_shared` was written out.
        self._written_out = object()
        self._before: tuple[object, tuple[K, ...]] = (object(), ())

    def replaced(self, changes: Mapping[K, V | None]) -> "LayeredMapping[K, V]":
        """Return the mapping with other values for some keys; None removes a key, which need not be there."""
        version: LayeredMapping[K, V] = LayeredMapping.__new__(LayeredMapping)
        own, shared, length = dict(self._own), self._shared, self._length
        for key, value in changes.items():
            length += (value is not None) - (key in self)
            if value is not None:
                own[key] = value
            elif key in shared:
                own[key] = _REMOVED
            else:
                own.pop(key, None)
        version._shared, version._own, version._length = shared, own, length
        version._written_out, version._before = self._written_out, self._before
        if len(own) > max(_SMALLEST_LIMIT, math.isqrt(len(shared))):
            version._shared, version._own = version.plain(), {}
            version._written_out, version._before = object(), (self._written_out, tuple(own))
        return version

    def candidates(self, before: "LayeredMapping[K, V]") -> Mapping[K, Any] | None:
        """Return the keys (of any value) that may differ from an older version; None when that is not known."""
        if before._written_out is self._written_out:
            return {**before._own, **self._own}
        token, keys = self._before
        if before._written_out is token:
            return {**before._own, **dict.fromkeys(keys), **self._own}
        return None

    def plain(self) -> dict[K, V]:
        """Return all items as a dictionary, which nobody must change."""
        if not self._own:
            return self._shared
        plain: dict[Any, Any] = self._shared | self._own
        for key, value in self._own.items():
            if value is _REMOVED:
                del plain[key]
        return plain

    def __getitem__(self, key: K) -> V:
        value = self._own.get(key, _SHARED)
        if value is _SHARED:
            return self._shared[key]
        if isinstance(value, _Marker):
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        value = self._own.get(key, _SHARED)  # type: ignore[arg-type]  # a key of another type is not there
        return key in self._shared if value is _SHARED else value is not _REMOVED

    def __iter__(self) -> Iterator[K]:
        return iter(self.plain())

    def items(self) -> ItemsView[K, V]:
        """All items, at the price of one copy."""
        return self.plain().items()

    def values(self) -> ValuesView[V]:
        """All values, at the price of one copy."""
        return self.plain().values()

    def __len__(self) -> int:
        return self._length


def differing_keys(before: Mapping[K, V], after: Mapping[K, V]) -> list[K]:
    """Return the keys whose values are not the same object in both, or that only one has.

    Costs little for successive versions of a `LayeredMapping`, one look at every item for other mappings.
    """
    if isinstance(before, LayeredMapping) and isinstance(after, LayeredMapping):
        candidates = after.candidates(before)
        if candidates is not None:
            return [key for key in candidates if before.get(key) is not after.get(key)]
    old, new = _as_dict(before), _as_dict(after)
    return [key for key, value in new.items() if old.get(key) is not value] + [key for key in old if key not in new]


def _as_dict(mapping: Mapping[K, V]) -> Mapping[K, V]:
    """Return what is looked up fastest."""
    return mapping.plain() if isinstance(mapping, LayeredMapping) else mapping
