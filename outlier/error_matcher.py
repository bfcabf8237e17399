"""Which responses a cluster calls errors, where "500 and above" is not the rule.

Pure predicates over one response's status and headers; what follows from a match is `reporting`'s.
Ports the response part of `envoy.config.common.matcher.v3.MatchPredicate` and `HeaderMatcher` as `error_matcher` uses
them (Envoy 1.36, source/common/http/header_utility.cc,
api/envoy/extensions/upstreams/http/v3/http_protocol_options.proto).
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Self

import attrs

from outlier.errors import ConfigError

# Looks up a response header by its lower-case name: all values joined by ",", None when absent.
Headers = Callable[[str], str | None]


@attrs.frozen
class ErrorMatcher:
    """A predicate over one response.

    >>> matcher = ErrorMatcher.for_statuses({429, 503})
    >>> matcher.matches(429, {}.get), matcher.matches(500, {}.get)
    (True, False)
    """

    _predicate: Callable[[int, Headers], bool] = attrs.field(repr=False)

    @classmethod
    def for_statuses(cls, statuses: Collection[int]) -> Self:
        """Return the matcher of exactly these HTTP statuses."""
        wanted = frozenset(statuses)
        return cls(lambda status, _headers: status in wanted)

    @classmethod
    def from_dict(cls, predicate: Mapping[str, Any], path: str = "error_matcher") -> Self:
        """Return the matcher that a `MatchPredicate` in proto JSON means.

        Response headers can be matched, and combined by `or_match`, `and_match`, `not_match` and `any_match`.

        Raises:
            ConfigError: Another predicate is asked for (requests and bodies are not seen here), or a value is refused.
        """
        return cls(_predicate(predicate, path))

    def matches(self, status: int, headers: Headers) -> bool:
        """Return whether the response is an error.

        Args:
            status: HTTP status; headers named `:status` match it.
            headers: Looks up a header by lower-case name.
        """
        return self._predicate(status, headers)


def _predicate(data: Mapping[str, Any], path: str) -> Callable[[int, Headers], bool]:
    if len(data) != 1:
        raise ConfigError(path, sorted(data), "value must be exactly one predicate")
    ((kind, value),) = data.items()
    path = f"{path}.{kind}"
    match kind:
        case "any_match":
            return lambda _status, _headers: True
        case "not_match":
            inner = _predicate(value, path)
            return lambda status, headers: not inner(status, headers)
        case "or_match" | "and_match":
            rules = value.get("rules", [])
            if len(rules) < 2:
                raise ConfigError(f"{path}.rules", rules, "value must contain at least 2 items")
            parts = [_predicate(rule, f"{path}.rules[{i}]") for i, rule in enumerate(rules)]
            combine = any if kind == "or_match" else all
            return lambda status, headers: combine(part(status, headers) for part in parts)
        case "http_response_headers_match":
            fields = [_header(header, f"{path}.headers[{i}]") for i, header in enumerate(value.get("headers", []))]
            return lambda status, headers: all(field(status, headers) for field in fields)
        case _:
            raise ConfigError(path, value, "only response headers can be matched here")


_STRING_MATCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "exact": lambda value, wanted: value == wanted,
    "prefix": lambda value, wanted: value.startswith(wanted),
    "suffix": lambda value, wanted: value.endswith(wanted),
    "contains": lambda value, wanted: wanted in value,
}


def _header(data: Mapping[str, Any], path: str) -> Callable[[int, Headers], bool]:
    name = str(data.get("name", "")).lower()
    if not name:
        raise ConfigError(f"{path}.name", data.get("name"), "value length must be at least 1 characters")
    invert = bool(data.get("invert_match", False))
    missing_is_empty = bool(data.get("treat_missing_header_as_empty", False))
    kinds = data.keys() - {"name", "invert_match", "treat_missing_header_as_empty"}
    if not kinds or kinds == {"present_match"}:
        # A missing header is present for no one, so `treat_missing_header_as_empty` has no say here.
        present = bool(data.get("present_match", True))
        return lambda status, headers: ((_value(name, status, headers) is not None) == present) != invert
    if len(kinds) > 1:
        raise ConfigError(path, sorted(kinds), "value must have one kind of match")
    matches = _value_match(kinds.pop(), data, path)

    def header_matches(status: int, headers: Headers) -> bool:
        value = _value(name, status, headers)
        if value is None:
            if not missing_is_empty:
                return False  # Envoy: a missing header never matches a value, inverted or not
            value = ""
        return matches(value) != invert

    return header_matches


def _value(name: str, status: int, headers: Headers) -> str | None:
    return str(status) if name == ":status" else headers(name)


def _value_match(kind: str, data: Mapping[str, Any], path: str) -> Callable[[str], bool]:
    if kind == "range_match":
        start, end = int(data[kind].get("start", 0)), int(data[kind].get("end", 0))
        return lambda value: re.fullmatch(r"-?\d+", value) is not None and start <= int(value) < end
    if kind == "string_match":
        return _string_match(data[kind], f"{path}.{kind}")
    legacy = {f"{name}_match": name for name in (*_STRING_MATCHES, "safe_regex")}
    if kind not in legacy:
        raise ConfigError(f"{path}.{kind}", data[kind], "no such match in HeaderMatcher")
    return _string_match({legacy[kind]: data[kind]}, f"{path}.{kind}")


def _string_match(data: Mapping[str, Any], path: str) -> Callable[[str], bool]:
    kinds = data.keys() - {"ignore_case"}
    if len(kinds) != 1 or not kinds <= {*_STRING_MATCHES, "safe_regex"}:
        raise ConfigError(
            path, sorted(data), "value must have exactly one of exact, prefix, suffix, contains, safe_regex"
        )
    kind = kinds.pop()
    if kind == "safe_regex":
        try:
            pattern = re.compile(data[kind]["regex"])
        except (re.error, KeyError) as exc:
            raise ConfigError(f"{path}.safe_regex", data[kind], f"invalid regular expression ({exc})") from exc
        return lambda value: pattern.fullmatch(value) is not None
    compare = _STRING_MATCHES[kind]
    if data.get("ignore_case", False):
        folded = str(data[kind]).lower()
        return lambda value: compare(value.lower(), folded)
    wanted = str(data[kind])
    return lambda value: compare(value, wanted)
