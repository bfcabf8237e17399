"""Routes that are answered without an upstream: redirects and direct responses.

Made ready once per route. Ports `Utility::newUri` (Envoy, source/common/http/utility.cc) and the direct response half
of the router's `decodeHeaders` (source/common/router/router.cc).
"""

from collections.abc import Callable

from proxy.codec.headers import get_header
from proxy.codec.http1_request import RequestHead
from proxy.config.route_config import DirectResponse, Redirect, Route, StringMatcher
from proxy.router.local_reply import LocalReply
from proxy.router.rewrite import PathRewrite, compile_prefix_rewrite, fits_a_line
from proxy.router.route_match import request_scheme

Location = Callable[[RequestHead], bytes]

DETAILS = "direct_response"
BODILESS_STATUSES = frozenset((204, 304))

# What a scheme's authority may leave out.
_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


def compile_direct_reply(route: Route) -> tuple[LocalReply, Location | None] | None:
    """Return the reply of a route that redirects or answers itself, and its `location`; None for one that forwards.

    `location` comes before any other header of the reply. Envoy adds one to every direct response of 300 to 399 too:
    the request's own URI, for the route's header operations to replace. A body is left out where the status forbids
    one; Envoy sends it, and the client would take it for the next response.
    """
    if route.redirect is not None:
        return LocalReply(route.redirect.status, b"", None, DETAILS), compile_location(route.redirect, route.match.path)
    if route.direct_response is not None:
        return _direct_reply(route.direct_response, route.match.path)
    return None


def compile_location(redirect: Redirect, matched: StringMatcher) -> Location:
    """Return the function that makes the URI to go to instead.

    Args:
        redirect: The parts that change.
        matched: The route's condition on the path; it says what `prefix_rewrite` replaces.

    The request's own authority loses its port if another is given, or if it is the default one of the scheme left
    behind.
    """
    scheme = redirect.scheme.encode()
    host = redirect.host.encode() if fits_a_line(redirect.host) else b""
    port = b"" if redirect.port is None else b":%d" % redirect.port
    new_path = _new_path(redirect, matched)

    def location(head: RequestHead) -> bytes:
        new_scheme = scheme or request_scheme(head)
        authority = host or _authority(head, new_scheme, drop_port=port != b"")
        path = new_path(head.path) if new_path is not None else head.path
        return b"%b://%b%b%b" % (new_scheme, authority, port, path)

    return location


def _direct_reply(response: DirectResponse, matched: StringMatcher) -> tuple[LocalReply, Location | None]:
    body = b"" if response.status in BODILESS_STATUSES else response.body
    location = compile_location(Redirect(), matched) if 300 <= response.status <= 399 else None
    return LocalReply(response.status, body, None, DETAILS), location


def _new_path(redirect: Redirect, matched: StringMatcher) -> PathRewrite | None:
    if redirect.path and fits_a_line(redirect.path):
        return _path_redirect(redirect.path.encode())
    if redirect.prefix_rewrite and fits_a_line(redirect.prefix_rewrite):
        return compile_prefix_rewrite(matched, redirect.prefix_rewrite)
    return None


def _path_redirect(new: bytes) -> PathRewrite:
    if b"?" in new:
        return lambda _: new

    def replace(path: bytes) -> bytes:
        _, question_mark, query = path.partition(b"?")
        return new + question_mark + query

    return replace


def _authority(head: RequestHead, new_scheme: bytes, *, drop_port: bool) -> bytes:
    """Return the request's authority, with its port unless that has lost its meaning."""
    authority = head.authority
    colon = authority.rfind(b":")
    if colon < 0 or (authority[:1] == b"[" and authority[colon - 1 : colon] != b"]"):
        return authority
    forwarded = get_header(head.headers, b"x-forwarded-proto") or b""
    if new_scheme != forwarded and _DEFAULT_PORTS.get(forwarded.lower()) == authority[colon:]:
        drop_port = True
    return authority[:colon] if drop_port else authority
