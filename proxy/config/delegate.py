"""Routes that one VirtualService delegates to another.

The delegate has no hosts of its own. Each of its routes is narrowed by the delegating route's match, and takes over
whatever it leaves unset. Ports `mergeVirtualServicesIfNeeded` (Istio, pilot/pkg/model/virtualservice.go).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from proxy.config.virtual_service import HttpMatchRequest, HttpRoute, StringMatch

_INHERITED = (
    "rewrite",
    "timeout",
    "retries",
    "fault",
    "mirror",
    "mirrors",
    "mirror_percent",
    "mirror_percentage",
    "cors_policy",
    "headers",
)
_TEXTS = ("uri", "scheme", "method", "authority")
_MAPS = ("headers", "without_headers", "query_params")


def merge_routes(root: HttpRoute, delegated: Sequence[HttpRoute | None]) -> Iterator[HttpRoute]:
    """Yield what each delegated route comes to under the route that delegates; one that contradicts it is left out."""
    for route in delegated:
        if route is None or route.delegate is not None:
            continue
        matches = _merge_matches(_present(root.match), _present(route.match))
        if matches is None:
            continue
        inherited = {name: getattr(root, name) for name in _INHERITED if getattr(route, name) in (None, ())}
        yield attrs.evolve(route, name=_joined(root.name, route.name), match=matches, **inherited)


def _present(matches: Sequence[HttpMatchRequest | None]) -> tuple[HttpMatchRequest, ...]:
    return tuple(match for match in matches if match is not None)


def _joined(root: str, leaf: str) -> str:
    return f"{root}-{leaf}" if root and leaf else root or leaf


def _merge_matches(
    roots: tuple[HttpMatchRequest, ...], leaves: tuple[HttpMatchRequest, ...]
) -> tuple[HttpMatchRequest, ...] | None:
    """Return the matches of both; None when a delegated match lies in none of the delegating ones."""
    if not roots or not leaves:
        return roots or leaves
    merged: list[HttpMatchRequest] = []
    for leaf in leaves:
        fitting = [_merge_match(root, leaf) for root in roots if not _contradicts(root, leaf)]
        if not fitting:
            return None
        merged += fitting
    return tuple(merged)


def _merge_match(root: HttpMatchRequest, leaf: HttpMatchRequest) -> HttpMatchRequest:
    parts: dict[str, Any] = {name: getattr(root, name) for name in _TEXTS if getattr(leaf, name) is None}
    parts |= {name: {**getattr(root, name), **getattr(leaf, name)} for name in _MAPS}
    return attrs.evolve(leaf, name=_joined(root.name, leaf.name), port=leaf.port or root.port, **parts)


def _contradicts(root: HttpMatchRequest, leaf: HttpMatchRequest) -> bool:
    if any(_outside(getattr(root, name), getattr(leaf, name)) for name in _TEXTS):
        return True
    # Conditions on missing headers are held against the delegating route's headers, as in Istio.
    pairs: tuple[tuple[Mapping[str, StringMatch | None], Mapping[str, StringMatch | None]], ...] = (
        (root.headers, leaf.headers),
        (root.headers, leaf.without_headers),
        (root.query_params, leaf.query_params),
    )
    if any(_outside(above.get(name), value) for above, below in pairs for name, value in below.items()):
        return True
    ports_differ = bool(root.port and leaf.port) and root.port != leaf.port
    return ports_differ or root.ignore_uri_case != leaf.ignore_uri_case


def _outside(root: StringMatch | None, leaf: StringMatch | None) -> bool:
    """Whether a text that the delegated condition takes may not be one that the delegating takes."""
    if root is None or leaf is None:
        return False
    if root.regex or leaf.regex:
        return True
    if root.exact:
        return bool(leaf.prefix) or leaf.exact != root.exact
    if root.prefix:
        return not (leaf.prefix or leaf.exact or "").startswith(root.prefix)
    return True
