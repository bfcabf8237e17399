"""What the router adds to a host's response before the connection manager sees it."""

from proxy.codec.headers import replace_header
from proxy.codec.http1_response import ResponseHead
from proxy.upstream.connection import SERVICE_TIME


def prepare_response(head: ResponseHead, elapsed_ms: int, set_cookies: tuple[bytes, ...]) -> None:
    """Add `x-envoy-upstream-service-time` (a host's own is replaced in its place) and the cookies that hashing made."""
    headers = head.headers
    if head.marks & SERVICE_TIME:
        replace_header(headers, b"x-envoy-upstream-service-time", b"%d" % elapsed_ms)
    else:
        headers.append((b"x-envoy-upstream-service-time", b"%d" % elapsed_ms))
    if set_cookies:
        headers += [(b"set-cookie", cookie) for cookie in set_cookies]
