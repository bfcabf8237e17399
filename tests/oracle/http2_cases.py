"""What an HTTP/2 host may do to requests, one case each."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tests.proxy.upstream.http2_upstream import (
    CANCEL,
    CONNECT_ERROR,
    ENHANCE_YOUR_CALM,
    INTERNAL_ERROR,
    MAX_CONCURRENT_STREAMS,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Http2Request,
)

Answer = Callable[[Http2Request], None]
GREETING_OF_HTTP1 = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"

# Envoy counts `upstream_cx_protocol_error` for a connection that it closes itself, right behind the last response that
# the connection was waiting for. Nothing is wrong with it, so the sidecar does not.
DRAINED = frozenset({"upstream_cx_protocol_error"})
# Envoy counts interim responses as well.
INTERIM = frozenset({"upstream_rq_completed"})
# Of a body that is not as long as stated Envoy says that it has reset its stream, the sidecar that it was malformed.
LENGTH = frozenset({"http2.tx_reset", "http2.rx_messaging_error"})
# Envoy ends the whole connection for a malformed response, the sidecar its stream.
MALFORMED = frozenset(
    {
        "http2.tx_reset",
        "upstream_cx_active",
        "upstream_cx_destroy",
        "upstream_cx_destroy_local",
        "upstream_cx_protocol_error",
    }
)


@attrs.frozen(kw_only=True)
class Http2Case:
    """Requests to one host that answers each with `answer`.

    `first` go one after the other, then `together` side by side, a moment apart so that their order is known. `lines`
    and `body` are the requests'. `upstream` are arguments of `Http2Upstream`, `service` of `Service`; `keepalive_ms`
    are interval and timeout of its pings. `differs` are statistics that deliberately are not Envoy's.
    """

    name: str
    answer: Answer
    first: int = 0
    together: int = 1
    method: str = "GET"
    lines: tuple[str, ...] = ()
    body: bytes = b""
    upstream: Mapping[str, Any] = attrs.field(factory=dict)
    service: Mapping[str, Any] = attrs.field(factory=dict)
    keepalive_ms: tuple[int, int] | None = None
    differs: frozenset[str] = frozenset()


def responds(status: int, body: bytes = b"", **parts: Any) -> Answer:
    return lambda request: request.respond(status, body, **parts)


def resets(code: int) -> Answer:
    return lambda request: request.reset(code)


def _later(then: Answer) -> Answer:
    """What goes before has reached the proxy, and has been acted on."""
    return lambda request: request.connection.later(0.1, then, request)


def _starts_and(then: Answer) -> Answer:
    def answer(request: Http2Request) -> None:
        request.send_headers([(":status", "200"), ("x-kept", "1")])
        request.send_data(b"part")
        _later(then)(request)

    return answer


def _goes_away(last: int | None, then: Answer | None = None, code: int = NO_ERROR) -> Answer:
    def answer(request: Http2Request) -> None:
        request.connection.go_away(request.stream_id if last is None else last, code)
        if then is not None:
            _later(then)(request)

    return answer


def _when(count: int, then: Answer) -> Answer:
    """Nothing until a connection carries so many requests."""

    def answer(request: Http2Request) -> None:
        if len(request.connection.requests) == count:
            then(request)

    return answer


def _closes(request: Http2Request) -> None:
    request.connection.close()


def _aborts(request: Http2Request) -> None:
    request.connection.abort()


def _silence(_request: Http2Request) -> None:
    """The request waits for its timeout."""


def _resets_second(request: Http2Request) -> None:
    if request.stream_id == 3:
        request.reset(INTERNAL_ERROR)
    else:
        _later(responds(200, b"ok"))(request)


def _refuses_first(request: Http2Request) -> None:
    (resets(REFUSED_STREAM) if request.stream_id == 1 else responds(200, b"ok"))(request)


def _interim_and(status: str, then: Answer) -> Answer:
    def answer(request: Http2Request) -> None:
        request.send_headers([(":status", status), ("link", "x")])
        then(request)

    return answer


def _open_ended(status: int) -> Answer:
    """The end comes in a frame of its own, behind a response without a body."""

    def answer(request: Http2Request) -> None:
        request.send_headers([(":status", str(status))])
        request.send_data(b"", end_stream=True)

    return answer


def _pool(**blocks: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"connection_pool": blocks}


def _slowly(then: Answer) -> Answer:
    """All requests of the case are under way by then."""
    return lambda request: request.connection.later(0.5, then, request)


def _dripping(pieces: int) -> Answer:
    """A piece of body each tenth of a second."""

    def answer(request: Http2Request) -> None:
        request.send_headers([(":status", "200")])
        drip(request, pieces)

    def drip(request: Http2Request, left: int) -> None:
        request.send_data(b"x", end_stream=not left)
        if left:
            request.connection.later(0.1, drip, request, left - 1)

    return answer


def _opens_window(request: Http2Request) -> None:
    request.update_window(1 << 20)


def _answering_early(then: Answer) -> Mapping[str, Any]:
    """All that the client sends is with the proxy, and the window lets a part of it out."""

    def answer(request: Http2Request) -> None:
        request.respond(413)
        then(request)

    return {
        "method": "POST",
        "lines": ("content-length: 100000",),
        "body": bytes(100_000),
        "upstream": {"on_head": _later(answer), "opens_windows": False},
    }


def _retrying(words: str) -> Mapping[str, Any]:
    return {"retries": 1, "retry_on": words}


CASES = (
    Http2Case(name="200", answer=responds(200, b"hi"), first=2),
    Http2Case(name="200 with length", answer=responds(200, b"hi", headers=[("content-length", "2")])),
    Http2Case(name="200 without body", answer=responds(200)),
    Http2Case(name="503", answer=responds(503, b"no"), together=2, differs=DRAINED),
    Http2Case(name="204", answer=responds(204)),
    Http2Case(name="204, ended later", answer=_open_ended(204)),
    Http2Case(name="304", answer=responds(304, headers=[("etag", "x")])),
    Http2Case(name="304, ended later", answer=_open_ended(304)),
    Http2Case(name="head", method="HEAD", answer=responds(200, headers=[("content-length", "12")])),
    Http2Case(name="post", method="POST", lines=("content-length: 4",), body=b"body", answer=responds(200, b"ok")),
    Http2Case(
        name="post in chunks",
        method="POST",
        lines=("transfer-encoding: chunked", "te: trailers"),
        body=b"4\r\nbody\r\n0\r\n\r\n",
        answer=responds(200, b"ok"),
    ),
    Http2Case(name="post of nothing", method="POST", lines=("content-length: 0",), answer=responds(200, b"ok")),
    Http2Case(
        name="hop-by-hop headers",
        lines=("connection: keep-alive, x-drop", "x-drop: 1", "te: gzip, trailers", "keep-alive: 5", "cookie: a=1"),
        answer=responds(200, b"ok"),
    ),
    Http2Case(name="repeated headers", answer=responds(200, b"ok", headers=[("set-cookie", "a"), ("set-cookie", "b")])),
    Http2Case(name="100 and 200", answer=_interim_and("100", responds(200, b"ok")), differs=INTERIM),
    *(
        Http2Case(name=f"reset {code}", answer=resets(code), together=2)
        for code in (
            *(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, CONNECT_ERROR, ENHANCE_YOUR_CALM),
        )
    ),
    Http2Case(name="reset after headers", answer=_starts_and(resets(INTERNAL_ERROR)), together=2),
    Http2Case(name="reset behind the end", answer=lambda r: (r.respond(200, b"ok"), r.reset(NO_ERROR)), first=2),
    Http2Case(name="answering before it takes the rest", answer=_silence, **_answering_early(_later(_opens_window))),
    Http2Case(name="answering and wanting no more", answer=_silence, **_answering_early(resets(NO_ERROR))),
    Http2Case(name="reset of one of three", answer=_resets_second, together=3),
    *(
        Http2Case(name=f"{name}, retrying {words}", answer=answer, service=_retrying(words))
        for words in ("reset", "refused-stream", "5xx", "gateway-error", "reset-before-request", "connect-failure")
        for name, answer in (("refused", resets(REFUSED_STREAM)), ("reset", resets(INTERNAL_ERROR)))
    ),
    Http2Case(name="refused, then served", answer=_refuses_first, service=_retrying("refused-stream")),
    Http2Case(name="going away before answering", answer=_goes_away(0), together=2),
    Http2Case(name="going away, retried", answer=_goes_away(0), service=_retrying("refused-stream")),
    Http2Case(
        name="going away and answering", answer=_goes_away(None, responds(200, b"late")), first=2, differs=DRAINED
    ),
    Http2Case(
        name="going away in error and answering",
        answer=_goes_away(None, responds(200, b"late"), INTERNAL_ERROR),
        differs=DRAINED,
    ),
    Http2Case(name="answering and going away", answer=lambda r: (r.respond(200), r.connection.go_away(1)), first=2),
    Http2Case(name="calm asked for", answer=_goes_away(0, _closes, ENHANCE_YOUR_CALM)),
    Http2Case(name="closed with three in flight", answer=_when(3, _closes), together=3),
    Http2Case(name="aborted with three in flight", answer=_when(3, _aborts), together=3),
    Http2Case(name="closed after headers", answer=_starts_and(_closes), together=1),
    Http2Case(name="closed, retrying reset", answer=_closes, service=_retrying("reset")),
    Http2Case(name="answering and closing", answer=lambda r: (r.respond(200, b"ok"), r.connection.close()), first=2),
    Http2Case(name="HTTP/1.1 for a greeting", answer=_silence, upstream={"greeting": GREETING_OF_HTTP1}),
    Http2Case(
        name="HTTP/1.1, retried",
        answer=_silence,
        upstream={"greeting": GREETING_OF_HTTP1},
        service=_retrying("reset"),
    ),
    Http2Case(name="no settings", answer=responds(200), upstream={"greeting": b""}),
    Http2Case(
        name="one stream at a time",
        answer=_later(responds(200, b"ok")),
        first=1,
        together=3,
        upstream={"settings": {MAX_CONCURRENT_STREAMS: 1}},
        # How many requests a new connection takes before it knows is a matter of time.
        differs=frozenset({"upstream_cx_total", "upstream_cx_http2_total", "upstream_cx_active"}),
    ),
    Http2Case(
        name="own limit of streams",
        answer=_later(responds(200, b"ok")),
        together=5,
        service=_pool(http={"maxConcurrentStreams": 2}),
    ),
    Http2Case(
        name="own limit of streams, one connection",
        answer=_later(responds(200, b"ok")),
        together=5,
        service=_pool(tcp={"maxConnections": 1}, http={"maxConcurrentStreams": 2}),
    ),
    Http2Case(
        name="requests of a connection",
        answer=responds(200, b"ok"),
        first=5,
        together=0,
        service=_pool(http={"maxRequestsPerConnection": 2}),
        differs=DRAINED,
    ),
    Http2Case(
        name="too many requests",
        answer=_slowly(responds(200, b"ok")),
        together=4,
        service=_pool(http={"http2MaxRequests": 2}),
    ),
    Http2Case(
        name="too many that wait",
        answer=_slowly(responds(200, b"ok")),
        together=3,
        service=_pool(tcp={"maxConnections": 1}, http={"maxConcurrentStreams": 1, "http1MaxPendingRequests": 1}),
    ),
    Http2Case(
        name="ping without answer",
        answer=_silence,
        together=2,
        upstream={"answers_pings": False},
        keepalive_ms=(200, 300),
    ),
    Http2Case(
        name="pings with answers",
        answer=_dripping(8),
        keepalive_ms=(100, 2_000),
    ),
    Http2Case(name="timeout", answer=_silence, together=2, service={"timeout_ms": 200}),
    Http2Case(name="no status", answer=lambda r: r.send_headers([("x", "y")], end_stream=True), differs=MALFORMED),
    Http2Case(name="upper case", answer=responds(200, b"ok", headers=[("X-Up", "1")]), differs=MALFORMED),
    Http2Case(name="connection header", answer=responds(200, headers=[("connection", "close")]), differs=MALFORMED),
    Http2Case(name="101", answer=responds(101), differs=MALFORMED),
    Http2Case(name="length too large", answer=responds(200, b"abc", headers=[("content-length", "5")]), differs=LENGTH),
    Http2Case(name="port closed", answer=_silence, together=2, upstream={"closed": True}),
)
