"""Replies that the router makes itself: status, body, response flag and details, as Envoy 1.40 sends them."""

import attrs

from proxy.codec.headers import HeaderList
from proxy.codec.http1_response import ResponseHead
from proxy.response_flags import ResponseFlag
from proxy.upstream.stream import ResetReason

_DISCONNECT = "upstream connect error or disconnect/reset before headers. reset reason: "
_RETRIED_DISCONNECT = "upstream connect error or disconnect/reset before headers. retried and the latest reset reason: "


@attrs.frozen
class LocalReply:
    """One reply; `body` is plain text, may be empty. `overloaded` adds `x-envoy-overloaded: true`."""

    status: int
    body: bytes
    flag: ResponseFlag | None
    details: str
    overloaded: bool = False

    def head(self, *, head_request: bool) -> ResponseHead:
        """Return a new head for it, with the length and type of the body but none of the connection manager's lines."""
        headers = self.overload_headers()
        head = ResponseHead(self.status, headers, 0)
        if self.body:
            head.content_length = len(self.body)
            headers += ((b"content-length", b"%d" % len(self.body)), (b"content-type", b"text/plain"))
            head.end_stream = head_request
        return head

    def overload_headers(self) -> HeaderList:
        """Return the line that tells the client of overload, if it is to be told."""
        return [(b"x-envoy-overloaded", b"true")] if self.overloaded else []


NO_ROUTE = LocalReply(404, b"", ResponseFlag.NO_ROUTE_FOUND, "route_not_found")
ABSOLUTE_PATH_REJECTED = LocalReply(404, b"", None, "absolute_path_rejected")
NO_CLUSTER = LocalReply(503, b"", ResponseFlag.NO_CLUSTER_FOUND, "cluster_not_found")
NO_HEALTHY_UPSTREAM = LocalReply(503, b"no healthy upstream", ResponseFlag.NO_HEALTHY_UPSTREAM, "no_healthy_upstream")
ROUTE_TIMEOUT = LocalReply(504, b"upstream request timeout", ResponseFlag.UPSTREAM_REQUEST_TIMEOUT, "response_timeout")
UPGRADE_REFUSED = LocalReply(403, b"", None, "upgrade_failed")
PER_TRY_TIMEOUT = LocalReply(
    504, b"upstream request timeout", ResponseFlag.UPSTREAM_REQUEST_TIMEOUT, "upstream_per_try_timeout"
)
PER_TRY_IDLE_TIMEOUT = LocalReply(
    504, b"upstream request timeout", ResponseFlag.UPSTREAM_REQUEST_TIMEOUT, "upstream_per_try_idle_timeout"
)
REQUEST_HEADER_TIMEOUT = LocalReply(408, b"request header timeout", None, "request_header_timeout")

RESET_FLAGS = {
    ResetReason.CONNECTION_FAILURE: ResponseFlag.UPSTREAM_CONNECTION_FAILURE,
    ResetReason.CONNECTION_TIMEOUT: ResponseFlag.UPSTREAM_CONNECTION_FAILURE,
    ResetReason.CONNECTION_TERMINATION: ResponseFlag.UPSTREAM_CONNECTION_TERMINATION,
    ResetReason.REMOTE_RESET: ResponseFlag.UPSTREAM_REMOTE_RESET,
    ResetReason.REMOTE_REFUSED_STREAM_RESET: ResponseFlag.UPSTREAM_REMOTE_RESET,
    ResetReason.CONNECT_ERROR: ResponseFlag.UPSTREAM_REMOTE_RESET,
    ResetReason.PROTOCOL_ERROR: ResponseFlag.UPSTREAM_PROTOCOL_ERROR,
    ResetReason.OVERFLOW: ResponseFlag.UPSTREAM_OVERFLOW,
}


def upstream_reset(reason: ResetReason, *, retried: bool = False, transport_failure: str = "") -> LocalReply:
    """Return the reply to a request whose last attempt was reset before response headers.

    Args:
        reason: Why.
        retried: Whether an earlier attempt was made.
        transport_failure: What the system or TLS said; it goes into the details only, as in Envoy 1.40.
    """
    prefix = _RETRIED_DISCONNECT if retried else _DISCONNECT
    return LocalReply(
        502 if reason is ResetReason.PROTOCOL_ERROR else 503,
        (prefix + reason.value).encode(),
        RESET_FLAGS[reason],
        reset_details("upstream_reset_before_response_started", reason, transport_failure),
        overloaded=reason is ResetReason.OVERFLOW,
    )


def stream_idle_timeout(*, request_ended: bool) -> LocalReply:
    """Return the reply to a request on which neither side has sent for too long; 408 while the client owes a part."""
    status = 504 if request_ended else 408
    return LocalReply(status, b"stream timeout", ResponseFlag.STREAM_IDLE_TIMEOUT, "stream_idle_timeout")


def protocol_error(status: int, body: bytes, details: str) -> LocalReply:
    """Return the reply to what the codec refuses; a missing Host or a fragment is refused above Envoy's: no flag."""
    above = details in {"missing_host_header", "path_normalization_failed"}
    return LocalReply(status, body, None if above else ResponseFlag.DOWNSTREAM_PROTOCOL_ERROR, details)


def reset_after_start(reason: ResetReason) -> tuple[ResponseFlag, str]:
    """Return flag and details of a response that was cut off by a reset."""
    return RESET_FLAGS[reason], reset_details("upstream_reset_after_response_started", reason)


def reset_details(event: str, reason: ResetReason, transport_failure: str = "") -> str:
    """Return Envoy's response code details of a reset: `event{reason|transport failure}`, blanks as underscores."""
    text = reason.value
    if reason is ResetReason.CONNECTION_FAILURE and transport_failure:
        text += f"|{transport_failure}"
    return f"{event}{{{text}}}".replace(" ", "_")
