"""What a failing test should say: which hosts are out, since when and why, and what happened before."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from proxy.event_stream import StreamEvent

EJECTION_KINDS = frozenset({"ejection", "unejection", "detection"})
_VERBS = {
    "ejection": "ejected",
    "unejection": "unejected",
    "detection": "not ejected",
    "shadow_ejection": "would be ejected",
    "shadow_unejection": "would be unejected",
    "shadow_detection": "would not be ejected",
}


class Addressed(Protocol):
    """An upstream that is running; its address is `host:port`."""

    @property
    def address(self) -> str:
        """Where it listens."""


Endpoint = Addressed | str


def address_of(endpoint: Endpoint) -> str:
    """Return the address of an endpoint, which may be the address itself."""
    return endpoint if isinstance(endpoint, str) else endpoint.address


class Explained(Protocol):
    """Who can say why a host is, or is not, ejected."""

    def explain(self, endpoint: Endpoint) -> str:
        """Return the reasons, a line each."""

    def timeline(self) -> str:
        """Return what happened so far, a line each."""


class EjectedHosts(list[Endpoint]):
    """The hosts ejected at one moment; a list that can explain itself when an assertion on it fails."""

    def __init__(self, hosts: Iterable[Endpoint], explained: Explained) -> None:
        super().__init__(hosts)
        self._explained = explained

    def difference(self, expected: Sequence[Endpoint]) -> list[str]:
        """Return, in lines, how `expected` differs from these hosts, with the reasons of each host in question."""
        lines = [f"ejected:  {names(self)}", f"expected: {names(expected)}"]
        for verb, hosts, others in (("should be", expected, self), ("should not be", self, expected)):
            addresses = {address_of(other) for other in others}
            for host in hosts:
                if address_of(host) not in addresses:
                    lines += [f"{name(host)} {verb} ejected:", *_indented(self._explained.explain(host))]
        return [*lines, *_indented(self._explained.timeline(), "")]


def name(endpoint: Endpoint) -> str:
    """Return how messages call an endpoint."""
    return endpoint if isinstance(endpoint, str) else repr(endpoint)


def names(endpoints: Sequence[Endpoint]) -> str:
    """Return the names of several, `none` for no endpoint."""
    return ", ".join(map(name, endpoints)) or "none"


def timeline_text(events: Sequence[StreamEvent], start_ms: int) -> str:
    """Return ejections, returns and detections without ejection, those of a shadow rule too, a line each.

    Args:
        events: In order; those of other kinds are left out.
        start_ms: Wall clock at the moment that is shown as 0 s.
    """
    lines = ["ejection timeline:"]
    for event in events:
        if event.kind in _VERBS:
            at_s = (event.system_ms - start_ms) / 1000
            data = event.data
            lines.append(f"{at_s:10.3f} s  {data['upstream_url']}  {_VERBS[event.kind]}  {data['reason']}")
    return "\n".join(lines if len(lines) > 1 else [lines[0] + " nothing was detected"])


def _indented(text: str, indent: str = "  ") -> list[str]:
    return [indent + line for line in text.splitlines()]
