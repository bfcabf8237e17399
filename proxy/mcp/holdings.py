"""What a peer has told about one collection, resource by resource: what is in force, what was refused, what is new.

A resource that arrives as it came last time is not decoded again, so a repeated snapshot costs a comparison, and a bad
resource is reported once.
"""

import enum
from collections.abc import Iterable, Mapping

import attrs

from proxy.config.issue import Issue
from proxy.config.resource import Contents
from proxy.mcp.messages import Envelope

_SHOWN_ERRORS = 10  # of one message; a refusal is read by people


class OnInvalid(enum.Enum):
    """What becomes of a resource that decodes and is not valid: KEEP its last good version, or DROP it altogether."""

    KEEP = "keep"
    DROP = "drop"


@attrs.define
class _Held:
    envelope: Envelope
    contents: Contents
    version: str | None  # of what is in force; None when nothing is


@attrs.frozen(kw_only=True)
class Changes:
    """What an update does to the store: parts by resource name to replace, and parts to drop."""

    parts: Mapping[str, Contents] = attrs.field(factory=dict)
    removed: tuple[str, ...] = ()


NO_CHANGES = Changes()


Refusals = Mapping[str, tuple[Issue, ...]]
"""Resources of which nothing is taken, by name, and why."""


class Holdings:
    """One collection of one peer."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._refused: set[str] = set()

    @property
    def names(self) -> Iterable[str]:
        """Every resource that the peer has, in force or with its last good version in force."""
        return self._held.keys()

    def versions(self) -> dict[str, str]:
        """Return the version in force of each resource that has one."""
        return {name: held.version for name, held in self._held.items() if held.version is not None}

    def envelope(self, name: str) -> Envelope | None:
        """Return a resource as it came last."""
        held = self._held.get(name)
        return held.envelope if held is not None else None

    def errors(self, names: Iterable[str], decoded: Mapping[str, Contents]) -> list[Issue]:
        """Return what is wrong with these resources, given what the new ones came to."""
        found: list[Issue] = []
        for name in names:
            held = self._held.get(name)
            contents = decoded.get(name) or (held.contents if held is not None else None)
            found += contents.errors if contents is not None else ()
        return found

    def refuse(self, refusals: Refusals) -> Changes:
        """Note that of these resources nothing is taken; what was in force stays."""
        self._refused |= refusals.keys()
        return Changes(parts={name: Contents(issues=issues, readable=False) for name, issues in refusals.items()})

    def update(
        self,
        upserts: Mapping[str, Envelope],
        removed: Iterable[str],
        decoded: Mapping[str, Contents],
        *,
        on_invalid: OnInvalid = OnInvalid.KEEP,
        refusals: Refusals | None = None,
    ) -> Changes:
        """Take over new content; return what the store must do.

        Args:
            upserts: Resources by name.
            removed: Names of resources that are gone; unknown ones are fine.
            decoded: What each upsert came to; one without is as it was.
            on_invalid: What becomes of a bad one.
            refusals: Resources beside the upserts of which nothing is taken.
        """
        gone = [name for name in removed if self._held.pop(name, None) is not None]
        parts: dict[str, Contents] = {}
        for name, envelope in upserts.items():
            contents = decoded.get(name)
            held = self._held.get(name)
            if contents is None:
                assert held is not None, "what is not known has been decoded"
                continue
            version: str | None = envelope.version
            if contents.errors:
                if on_invalid is OnInvalid.DROP:
                    contents = attrs.evolve(contents, rejected=frozenset())
                else:
                    version = held.version if held is not None else None
            self._held[name] = _Held(envelope, contents, version)
            parts[name] = contents
        for name in self._refused - parts.keys():  # what they were refused for is over
            if name in self._held:
                parts[name] = self._held[name].contents
            else:
                gone.append(name)
        self._refused.clear()
        return Changes(parts={**parts, **self.refuse(refusals or {}).parts}, removed=tuple(gone))


def refusal_text(collection: str, errors: Iterable[Issue]) -> str:
    """Return the message of a refusal: collection, and for each finding resource, field, value and rule."""
    found = list(errors)
    texts = [f"{issue.resource}: {issue.message}" for issue in found[:_SHOWN_ERRORS]]
    if len(found) > _SHOWN_ERRORS:
        texts.append(f"and {len(found) - _SHOWN_ERRORS} more")
    return f"{collection}: " + "; ".join(texts)
