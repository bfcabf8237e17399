"""From a VirtualService's match to Envoy's route match.

Ports `TranslateRouteMatch`, `sourceMatchHTTP` and `translateHeaderMatch` (Istio, pilot/pkg/networking/core/route).
"""

from collections.abc import Iterator, Mapping

from proxy.config.node import NodeConfig
from proxy.config.route_config import (
    ANY_PATH,
    ANY_REQUEST,
    HeaderMatcher,
    MatchKind,
    QueryParameterMatcher,
    RouteMatch,
    StringMatcher,
)
from proxy.config.validate_virtual_service import MESH_GATEWAY
from proxy.config.virtual_service import HttpMatchRequest, StringMatch


def concerns_client(match: HttpMatchRequest, node: NodeConfig, listener_port: int) -> bool:
    """Whether a match can hold for requests of this sidecar to that port at all; the rest is decided per request."""
    if match.port and match.port != listener_port:
        return False
    if match.gateways:  # then labels are not looked at
        return MESH_GATEWAY in match.gateways
    if match.source_namespace and match.source_namespace != node.namespace:
        return False
    return match.source_labels.items() <= node.labels.items()


def convert_match(match: HttpMatchRequest | None) -> RouteMatch:
    """Return the conditions of a match; None matches everything."""
    if match is None:
        return ANY_REQUEST
    path = ANY_PATH if match.uri is None else convert_string(match.uri, ignore_case=match.ignore_uri_case)
    return RouteMatch(
        path=path,
        headers=tuple(_headers(match)),
        query_parameters=tuple(
            QueryParameterMatcher(name, convert_string(value)) for name, value in match.query_params.items()
        ),
    )


def convert_string(match: StringMatch | None, *, ignore_case: bool = False) -> StringMatcher:
    """Return the condition on a value; null, an empty message and the regex `*` ask for presence."""
    if match is None:
        return StringMatcher(MatchKind.PRESENT)
    if match.exact is not None:
        return StringMatcher(MatchKind.EXACT, match.exact, ignore_case)
    if match.prefix is not None:
        return StringMatcher(MatchKind.PREFIX, match.prefix, ignore_case)
    if match.regex is not None and match.regex != "*":
        return StringMatcher(MatchKind.REGEX, match.regex)
    return StringMatcher(MatchKind.PRESENT)


def _headers(match: HttpMatchRequest) -> Iterator[HeaderMatcher]:
    yield from _header_map(match.headers)
    for name, value in match.without_headers.items():
        matcher = convert_string(value)
        # Compared as empty, a missing header does not match, and so passes; presence is inverted by itself.
        empty = matcher.kind is not MatchKind.PRESENT
        yield HeaderMatcher(name.lower(), matcher, invert=True, missing_is_empty=empty)
    for name, part in ((":method", match.method), (":authority", match.authority), (":scheme", match.scheme)):
        if part is not None:
            yield HeaderMatcher(name, convert_string(part))


def _header_map(matches: Mapping[str, StringMatch | None]) -> Iterator[HeaderMatcher]:
    for name, value in matches.items():
        yield HeaderMatcher(name.lower(), convert_string(value))
