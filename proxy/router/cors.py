"""Cross-origin rules of a route: answers to preflights, and what is added to other responses.

Made ready once per route; for routes that forward, not for redirects and direct responses. Ports `CorsFilter` (Envoy,
source/extensions/filters/http/cors/cors_filter.cc) as Istio configures it: always enforced, private networks never
allowed.
"""

from collections.abc import Iterable

from proxy.codec.headers import HeaderList, replace_header
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.joined_headers import JOINED_REQUEST_HEADERS, header_values
from proxy.config.route_config import CorsPolicy
from proxy.router.rewrite import fits_a_line
from proxy.router.route_match import compile_string_matcher

PREFLIGHT_DETAILS = "cors_response"

_ALLOW_ORIGIN = b"access-control-allow-origin"
_ALLOW_CREDENTIALS = (b"access-control-allow-credentials", b"true")
_EXPOSE_HEADERS = b"access-control-expose-headers"


def compile_cors(policy: CorsPolicy | None) -> "Cors | None":
    """Return the rules made ready; None when there are none.

    Raises:
        re.error: The expression of an origin cannot be compiled.
    """
    return None if policy is None else Cors(policy)


class Cors:
    """The rules of one route."""

    __slots__ = (
        "_allow_credentials",
        "_allow_headers",
        "_allow_methods",
        "_expose_headers",
        "_forward_unmatched_preflights",
        "_max_age",
        "_origins",
    )

    def __init__(self, policy: CorsPolicy) -> None:
        self._origins = tuple(map(compile_string_matcher, policy.allow_origins))
        self._allow_methods = _list(policy.allow_methods)
        self._allow_headers = _list(policy.allow_headers)
        self._expose_headers = _list(policy.expose_headers)
        self._max_age = b"" if policy.max_age_s is None else b"%d" % policy.max_age_s
        self._allow_credentials = policy.allow_credentials is True
        self._forward_unmatched_preflights = policy.forward_unmatched_preflights

    def allowed_origin(self, head: RequestHead) -> bytes | None:
        """Return the request's origin if it may read the response; None if it has none, or another."""
        origin = _value(head.headers, b"origin")
        # A matcher that takes the literal "*" takes every origin.
        if origin and any(matches(b"*") or matches(origin) for matches in self._origins):
            return origin
        return None

    def preflight_reply(self, head: RequestHead, allowed_origin: bytes | None) -> ResponseHead | None:
        """Return the answer to a preflight; None for what is to be forwarded.

        Args:
            head: The request.
            allowed_origin: What `allowed_origin` returned for it.

        The route's header operations do not apply to the answer. `*` for methods or headers echoes those asked for.
        """
        headers = head.headers
        method = _value(headers, b"access-control-request-method")
        if head.method != b"OPTIONS" or not method or not _value(headers, b"origin"):
            return None
        if allowed_origin is None and self._forward_unmatched_preflights:
            return None
        reply: HeaderList = []
        if allowed_origin is not None:
            reply.append((_ALLOW_ORIGIN, allowed_origin))
        if self._allow_credentials:
            reply.append(_ALLOW_CREDENTIALS)
        if self._allow_methods:
            reply.append(
                (b"access-control-allow-methods", method if self._allow_methods == b"*" else self._allow_methods)
            )
        if self._allow_headers:
            asked = _value(headers, b"access-control-request-headers")
            reply.append(
                (b"access-control-allow-headers", asked if self._allow_headers == b"*" else self._allow_headers)
            )
        if self._max_age:
            reply.append((b"access-control-max-age", self._max_age))
        if allowed_origin is not None and self._expose_headers:
            reply.append((_EXPOSE_HEADERS, self._expose_headers))
        return ResponseHead(200, reply, 0)

    def apply_to_response(self, head: ResponseHead, allowed_origin: bytes) -> None:
        """Let the origin read a response, the host's or our own; behind the route's header operations.

        What the host has said about it is replaced.
        """
        replace_header(head.headers, _ALLOW_ORIGIN, allowed_origin)
        if self._allow_credentials:
            replace_header(head.headers, *_ALLOW_CREDENTIALS)
        if self._expose_headers:
            replace_header(head.headers, _EXPOSE_HEADERS, self._expose_headers)


def _list(names: Iterable[str]) -> bytes:
    """Return names as the value of a header; one that could not stand there is left out."""
    return ",".join(filter(fits_a_line, names)).encode()


def _value(headers: HeaderList, name: bytes) -> bytes:
    return b"".join(header_values(headers, name, JOINED_REQUEST_HEADERS))
