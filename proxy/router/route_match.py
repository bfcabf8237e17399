"""Whether a request is one that a route means.

Made ready once per route: `compile_match` turns the conditions into one function of the request's head, as small as
the conditions allow. Ports `RouteEntryImplBase::matchRoute`, `HeaderUtility::matchHeaders` and
`ConfigUtility::matchQueryParams` (Envoy, source/common/router/config_impl.cc, source/common/http/header_utility.cc).
"""

from collections.abc import Callable

from proxy.codec.headers import get_header
from proxy.codec.http1_request import RequestHead
from proxy.codec.joined_headers import JOINED_REQUEST_HEADERS, header_values
from proxy.config.re2 import compile_re2, text_of
from proxy.config.route_config import (
    ANY_PATH,
    HeaderMatcher,
    MatchKind,
    QueryParameterMatcher,
    RouteMatch,
    StringMatcher,
)

RequestCondition = Callable[[RequestHead], bool]
TextCondition = Callable[[bytes], bool]

_SCHEMES = frozenset((b"http", b"https"))


def compile_match(match: RouteMatch) -> RequestCondition | None:
    """Return the function that says whether a request matches; None when every request does.

    The request's path begins with a slash: the connection manager answers others itself.

    Raises:
        re.error: An expression cannot be compiled.
    """
    conditions = [] if match.path == ANY_PATH else [_path_condition(match.path)]
    conditions += map(_header_condition, match.headers)
    conditions += map(_query_condition, match.query_parameters)
    if not conditions:
        return None
    if len(conditions) == 1:
        return conditions[0]
    return lambda head: all(condition(head) for condition in conditions)


def compile_string_matcher(matcher: StringMatcher) -> TextCondition:
    """Return the function that says whether a value matches; case is that of ASCII."""
    value = matcher.value.encode()
    match matcher.kind:
        case MatchKind.PRESENT:
            return lambda _: True
        case MatchKind.REGEX:
            fullmatch = compile_re2(matcher.value).fullmatch
            return lambda text: fullmatch(text_of(text)) is not None
        case MatchKind.EXACT if matcher.ignore_case:
            lowered = value.lower()
            return lambda text: text.lower() == lowered
        case MatchKind.EXACT:
            return value.__eq__
        case MatchKind.PREFIX if matcher.ignore_case:
            lowered = value.lower()
            return lambda text: text.lower().startswith(lowered)
        case MatchKind.PREFIX:
            return lambda text: text.startswith(value)


def request_scheme(head: RequestHead) -> bytes:
    """Return the scheme: what `x-forwarded-proto` says, which the connection manager has added if nobody had."""
    value = (get_header(head.headers, b"x-forwarded-proto") or b"").lower()
    return value if value in _SCHEMES else b"http"


def _path_condition(matcher: StringMatcher) -> RequestCondition:
    value = matcher.value.encode()
    if matcher.kind is MatchKind.PREFIX and not matcher.ignore_case and b"?" not in value:
        return lambda head: head.path.startswith(value)  # what it matches lies before the query anyhow
    matches = compile_string_matcher(matcher)
    return lambda head: matches(head.path.partition(b"?")[0])


def _header_condition(matcher: HeaderMatcher) -> RequestCondition:
    values_of = _header_values(matcher.name)
    invert, missing_is_empty = matcher.invert, matcher.missing_is_empty
    if matcher.matcher.kind is MatchKind.PRESENT:
        return lambda head: (missing_is_empty or bool(values_of(head))) is not invert
    matches = compile_string_matcher(matcher.matcher)
    of_a_missing_one = missing_is_empty and matches(b"") is not invert  # false also when inverted

    def condition(head: RequestHead) -> bool:
        values = values_of(head)
        return any(map(matches, values)) is not invert if values else of_a_missing_one

    return condition


def _header_values(name: str) -> Callable[[RequestHead], list[bytes]]:
    """Return the function that lists the values of a header; each of them may satisfy a condition."""
    key = name.encode()
    match key:
        case b":method":
            return lambda head: [head.method]
        case b":authority" | b"host":
            return lambda head: [head.authority]
        case b":scheme":
            return lambda head: [request_scheme(head)]
    return lambda head: header_values(head.headers, key, JOINED_REQUEST_HEADERS)


def _query_condition(matcher: QueryParameterMatcher) -> RequestCondition:
    name = matcher.name.encode()
    matches = compile_string_matcher(matcher.matcher)

    def condition(head: RequestHead) -> bool:
        value = query_parameter(head.path, name)
        return value is not None and matches(value)

    return condition


def query_parameter(path: bytes, name: bytes) -> bytes | None:
    """Return the first value of a query parameter, undecoded; empty if it has none, None if it is not there."""
    for parameter in path.partition(b"?")[2].split(b"&"):
        key, _, value = parameter.partition(b"=")
        if key == name:
            return value
    return None
