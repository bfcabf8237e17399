"""Requests and answers whose exact bytes are compared: what a proxy adds, drops, rewrites and refuses.

`{host}` in a request is the authority of the case's own service.
"""

import attrs

from tests.oracle.upstream import After, Answer

OK = Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


@attrs.frozen(kw_only=True)
class HttpCase:
    """Bytes from the client, and the bytes that the upstream answers each request with.

    `responses` is how many final responses the bytes ask for. `refuse` closes the upstream's port. `difference` is
    why the sidecar deliberately differs from Envoy, and `status` that of the first answer it gives then.
    """

    name: str
    request: bytes
    answer: Answer = OK
    responses: int = 1
    refuse: bool = False
    difference: str = ""
    status: int = 0

    @property
    def method(self) -> str:
        """The method of the (first) request."""
        return self.request.split(b" ", 1)[0].decode("latin-1")


def _get(*lines: str, target: str = "/x", method: str = "GET") -> bytes:
    head = (f"{method} {target} HTTP/1.1", "Host: {host}", *lines)
    return "\r\n".join((*head, "", "")).encode("latin-1")


def _raw(*lines: str, body: str = "") -> bytes:
    return ("\r\n".join((*lines, "", "")) + body).encode("latin-1")


def _answer(*lines: str, body: str = "", status: str = "200 OK", after: After = After.KEEP) -> Answer:
    return Answer(_raw(f"HTTP/1.1 {status}", *lines, body=body), after)


REQUESTS = (
    HttpCase(name="plain get", request=_get()),
    HttpCase(name="head", request=_get(method="HEAD"), answer=_answer("content-length: 12")),
    HttpCase(name="query and odd path", request=_get(target="/a//b/../c/./%2e%2E/;p=1?q=a+b&c=%zz&&d")),
    HttpCase(
        name="mixed case and duplicates", request=_get("MiXeD-CaSe: V", "dup: 1", "DUP: 2", "empty:", "sp:   a  b  ")
    ),
    HttpCase(name="obs-text in a value", request=_get("x-latin: caf\xe9")),
    HttpCase(name="underscore in a name", request=_get("under_score: 1")),
    HttpCase(
        name="hop-by-hop headers",
        request=_get(
            *("Connection: keep-alive, x-drop", "X-Drop: 1", "X-Keep: 1", "Keep-Alive: timeout=5"),
            *("Proxy-Connection: keep-alive", "TE: trailers", "Trailer: X-T", "Upgrade-Insecure-Requests: 1"),
            *("Proxy-Authorization: Basic x", "Proxy-Authenticate: x", "HTTP2-Settings: AAMAAABk"),
        ),
    ),
    HttpCase(name="te gzip", request=_get("TE: gzip")),
    HttpCase(name="te gzip and trailers", request=_get("TE: gzip, trailers")),
    HttpCase(name="te in capitals", request=_get("TE: Trailers")),
    HttpCase(name="te of nothing", request=_get("TE:")),
    HttpCase(name="te named by connection", request=_get("Connection: te", "TE: trailers")),
    HttpCase(name="http2-settings alone", request=_get("HTTP2-Settings: AAMAAABk")),
    HttpCase(name="proxy-connection close", request=_get("Proxy-Connection: close")),
    HttpCase(
        name="proxy-connection close beside connection", request=_get("Connection: x-a", "Proxy-Connection: close")
    ),
    HttpCase(name="connection names host", request=_get("Connection: host")),
    HttpCase(
        name="connection names a forwarding header",
        request=_get("Connection: x-forwarded-for", "X-Forwarded-For: 1"),
    ),
    HttpCase(name="empty request id", request=_get("X-Request-Id:")),
    HttpCase(name="two content types", request=_get("Content-Type: a", "Content-Type: b")),
    HttpCase(name="two cookies", request=_get("Cookie: a=1", "Cookie: b=2")),
    HttpCase(
        name="forwarding headers",
        request=_get(
            *("X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Host: a.example"),
            *("X-Request-Id: my-id", "Via: 1.1 up", "Date: x", "Server: y"),
        ),
    ),
    HttpCase(
        name="envoy control headers",
        request=_get(
            *("X-Envoy-Internal: true", "x-envoy-external-address: 7.7.7.7", "x-envoy-attempt-count: 9"),
            *("x-envoy-upstream-rq-timeout-ms: 5000", "x-envoy-upstream-rq-per-try-timeout-ms: 5"),
            *("x-envoy-retry-on: 5xx", "x-envoy-retry-grpc-on: internal", "x-envoy-max-retries: 3"),
            *("x-envoy-retriable-status-codes: 500", "x-envoy-retriable-header-names: a"),
            *("x-envoy-upstream-alt-stat-name: a", "x-envoy-upstream-rq-timeout-alt-response: 1"),
            *("x-envoy-expected-rq-timeout-ms: 1", "x-envoy-hedge-on-per-try-timeout: true", "x-envoy-foo: bar"),
            *("x-envoy-original-path: /o", "x-envoy-decorator-operation: op", "x-envoy-upstream-service-time: 4"),
            *("x-envoy-ip-tags: a", "x-envoy-is-timeout-retry: true", "x-envoy-overloaded: true"),
            *("x-envoy-upstream-stream-duration-ms: 5", "x-envoy-hedge-rq-on-per-try-timeout: true"),
        ),
    ),
    HttpCase(
        name="post with length", request=_raw("POST /x HTTP/1.1", "Host: {host}", "Content-Length: 4", body="body")
    ),
    HttpCase(name="post of nothing", request=_raw("POST /x HTTP/1.1", "Host: {host}", "Content-Length: 0")),
    HttpCase(name="post without length", request=_raw("POST /x HTTP/1.1", "Host: {host}")),
    HttpCase(name="get with body", request=_raw("GET /x HTTP/1.1", "Host: {host}", "Content-Length: 4", body="body")),
    HttpCase(
        name="post in chunks",
        request=_raw(
            *("POST /x HTTP/1.1", "Host: {host}", "Transfer-Encoding: chunked"),
            body="3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        ),
    ),
    HttpCase(
        name="post in chunks, upper case",
        request=_raw(*("POST /x HTTP/1.1", "Host: {host}", "Transfer-Encoding: Chunked"), body="1\r\na\r\n0\r\n\r\n"),
    ),
    HttpCase(
        name="request trailers",
        request=_raw(
            *("POST /x HTTP/1.1", "Host: {host}", "Transfer-Encoding: chunked", "Trailer: X-Sum"),
            body="3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
        ),
        difference="trailers are forwarded; Envoy drops them unless told otherwise",
        status=200,
    ),
    HttpCase(
        name="expect continue",
        request=_raw("POST /x HTTP/1.1", "Host: {host}", "Expect: 100-continue", "Content-Length: 2", body="hi"),
    ),
    HttpCase(name="absolute form", request=_raw("GET http://{host}/abs?q HTTP/1.1", "Host: other.example")),
    HttpCase(name="absolute form without path", request=_raw("GET http://{host} HTTP/1.1", "Host: other.example")),
    HttpCase(name="options star", request=_get(method="OPTIONS", target="*")),
    HttpCase(name="trace", request=_get(method="TRACE")),
    HttpCase(name="delete", request=_get(method="DELETE")),
    HttpCase(name="patch", request=_raw("PATCH /x HTTP/1.1", "Host: {host}", "Content-Length: 1", body="x")),
    HttpCase(name="host with port", request=_raw("GET /x HTTP/1.1", "Host: {host}:80")),
    HttpCase(name="host in capitals", request=_raw("GET /x HTTP/1.1", "HOST: {host}", "Host-Not: 1")),
    HttpCase(name="connection close", request=_get("Connection: close")),
    HttpCase(name="two requests at once", request=_get(target="/1") + _get(target="/2"), responses=2),
    HttpCase(
        name="upgrade h2c", request=_get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA")
    ),
    *(
        HttpCase(
            name=f"websocket, {name}",
            request=_get("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"),
            answer=answer,
            difference=f"the upgrade's lines are last, the service time is told{difference}",
            status=status,
        )
        for name, answer, status, difference in (
            (
                "switched to",
                _answer("Connection: Upgrade", "Upgrade: websocket", status="101 Switching Protocols"),
                101,
                "",
            ),
            ("answered", OK, 200, "; Envoy drops the body and closes"),
            ("refused", _answer("Content-Length: 2", body="no", status="403 Forbidden"), 403, "; Envoy closes"),
        )
    ),
    HttpCase(name="upgrade to something else", request=_get("Connection: Upgrade", "Upgrade: foo")),
)

REFUSALS = (
    HttpCase(name="unknown host", request=_raw("GET /x HTTP/1.1", "Host: nobody.example")),
    HttpCase(name="unknown host, head", request=_raw("HEAD /x HTTP/1.1", "Host: nobody.example")),
    HttpCase(name="no host", request=_raw("GET /x HTTP/1.1", "Accept: */*")),
    HttpCase(
        name="two hosts",
        request=_raw("GET /x HTTP/1.1", "Host: {host}", "Host: {host}"),
        difference="RFC 9112 3.2: more than one Host line is answered 400; Envoy joins them",
        status=400,
    ),
    HttpCase(name="http 1.0", request=_raw("GET /x HTTP/1.0", "Host: {host}")),
    HttpCase(name="connect", request=_raw("CONNECT {host}:80 HTTP/1.1", "Host: {host}:80")),
    HttpCase(name="not http", request=b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    HttpCase(name="unknown method", request=_get(method="FETCHIT")),
    HttpCase(name="lower case method", request=_get(method="get")),
    HttpCase(name="fragment", request=_get(target="/x#frag")),
    HttpCase(name="length is not a number", request=_get("Content-Length: x")),
    HttpCase(name="length with a sign", request=_get("Content-Length: +2")),
    HttpCase(name="length is negative", request=_get("Content-Length: -1")),
    HttpCase(name="two lengths that differ", request=_get("Content-Length: 1", "Content-Length: 2")),
    HttpCase(name="length and chunks", request=_get("Content-Length: 4", "Transfer-Encoding: chunked")),
    HttpCase(name="transfer encoding gzip", request=_get("Transfer-Encoding: gzip")),
    HttpCase(name="transfer encoding gzip and chunked", request=_get("Transfer-Encoding: gzip, chunked")),
    HttpCase(name="transfer encoding twice", request=_get("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")),
    HttpCase(name="bad chunk size", request=_get("Transfer-Encoding: chunked", method="POST") + b"zz\r\nabc\r\n"),
    HttpCase(name="space before colon", request=_get("X-A : 1")),
    HttpCase(name="bad header name", request=_get("X(A): 1")),
    HttpCase(name="header without colon", request=_get("X-A")),
    HttpCase(name="empty header name", request=_get(": 1")),
    HttpCase(name="nul in a value", request=_get("X-A: a\x00b")),
    HttpCase(
        name="carriage return in a value",
        request=_get("X-A: a\rb"),
        difference="RFC 9112 2.2: a bare CR makes the message invalid; Envoy takes it out",
        status=400,
    ),
    HttpCase(
        name="bare line feeds",
        request=b"GET /x HTTP/1.1\nHost: {host}\n\n",
        difference="a line that ends without CR is how requests are smuggled; Envoy accepts it",
        status=400,
    ),
    HttpCase(
        name="folded header",
        request=_get("X-A: 1", " 2"),
        difference="RFC 9112 5.2: a folded line is answered 400; Envoy joins it",
        status=400,
    ),
    HttpCase(name="headers of more than 60 KiB", request=_get("X-A: " + "a" * 61_500)),
    HttpCase(name="101 header lines", request=_get(*(f"x-{number}: 1" for number in range(100)))),
    HttpCase(name="100 header lines", request=_get(*(f"x-{number}: 1" for number in range(99)))),
)

ANSWERS = (
    HttpCase(
        name="answer headers",
        request=_get(),
        answer=_answer(
            *("X-Mixed: A", "Set-Cookie: a=1", "set-cookie: b=2", "Connection: keep-alive, x-foo", "X-Foo: 1"),
            *("Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Trailer: X-T", "Content-Length: 2"),
            *("X-Request-Id: theirs", "Via: 1.1 them", "X-Latin: caf\xe9", "Upgrade: h2c", "TE: trailers"),
            body="ok",
        ),
    ),
    HttpCase(
        name="answer with headers that the proxy sets",
        request=_get(),
        answer=_answer(
            *("Server: theirs", "X-Envoy-Upstream-Service-Time: 999", "Date: Mon, 01 Jan 2024 00:00:00 GMT"),
            *("X-Envoy-Attempt-Count: 5", "X-Envoy-Internal: true", "X-Envoy-Foo: 1", "Content-Length: 0"),
        ),
    ),
    HttpCase(name="reason phrase", request=_get(), answer=_answer("Content-Length: 0", status="200 Fine")),
    HttpCase(name="no reason phrase", request=_get(), answer=Answer(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n")),
    HttpCase(name="status 418", request=_get(), answer=_answer("Content-Length: 0", status="418 Short And Stout")),
    HttpCase(name="status 425", request=_get(), answer=_answer("Content-Length: 0", status="425 X")),
    HttpCase(name="status 299", request=_get(), answer=_answer("Content-Length: 0", status="299 X")),
    HttpCase(name="status 599", request=_get(), answer=_answer("Content-Length: 0", status="599 X")),
    HttpCase(name="204", request=_get(), answer=_answer("X-A: 1", status="204 No Content")),
    HttpCase(name="304 with length", request=_get(), answer=_answer("Content-Length: 10", status="304 Not Modified")),
    HttpCase(
        name="chunks",
        request=_get(),
        answer=_answer("Transfer-Encoding: chunked", body="3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
    ),
    HttpCase(
        name="answer trailers",
        request=_get("TE: trailers"),
        answer=_answer("Transfer-Encoding: chunked", "Trailer: X-Sum", body="3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n"),
        difference="trailers are forwarded; Envoy drops them unless told otherwise",
        status=200,
    ),
    HttpCase(name="head with chunks", request=_get(method="HEAD"), answer=_answer("Transfer-Encoding: chunked")),
    HttpCase(name="until close", request=_get(), answer=_answer("X-A: 1", body="until the end", after=After.FIN)),
    HttpCase(name="answer closes", request=_get(), answer=_answer("Connection: close", "Content-Length: 1", body="x")),
    HttpCase(name="http 1.0 answer", request=_get(), answer=Answer(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")),
    HttpCase(name="continue first", request=_get(), answer=Answer(b"HTTP/1.1 100 Continue\r\n\r\n" + OK.data)),
    HttpCase(
        name="early hints first",
        request=_get(),
        answer=Answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK.data),
        difference="RFC 9110 15.2: a proxy forwards interim answers; Envoy drops 103",
        status=103,
    ),
    HttpCase(name="cut body", request=_get(), answer=_answer("Content-Length: 9", body="half", after=After.FIN)),
    HttpCase(
        name="cut chunk", request=_get(), answer=_answer("Transfer-Encoding: chunked", body="5\r\nab", after=After.FIN)
    ),
    HttpCase(name="stalled body", request=_get(), answer=_answer("Content-Length: 9", body="half", after=After.HOLD)),
    HttpCase(name="refused", request=_get(), refuse=True),
    HttpCase(name="refused, head", request=_get(method="HEAD"), refuse=True),
    HttpCase(name="reset", request=_get(), answer=Answer(after=After.RST)),
    HttpCase(name="closed", request=_get(), answer=Answer(after=After.FIN)),
    HttpCase(name="timeout", request=_get(), answer=Answer(after=After.HOLD)),
    HttpCase(name="timeout, head", request=_get(method="HEAD"), answer=Answer(after=After.HOLD)),
    HttpCase(name="not http", request=_get(), answer=Answer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", After.HOLD)),
    HttpCase(name="half a head", request=_get(), answer=Answer(b"HTTP/1.1 200 OK\r\nX-A:", After.FIN)),
    HttpCase(
        name="answer with length and chunks",
        request=_get(),
        answer=_answer("Content-Length: 2", "Transfer-Encoding: chunked", body="0\r\n\r\n", after=After.HOLD),
    ),
    HttpCase(
        name="answer with two lengths",
        request=_get(),
        answer=_answer("Content-Length: 2", "Content-Length: 3", body="abc", after=After.HOLD),
    ),
    HttpCase(
        name="answer with a bad length",
        request=_get(),
        answer=_answer("Content-Length: 2x", body="ab", after=After.HOLD),
    ),
    HttpCase(
        name="answer with a bad chunk",
        request=_get(),
        answer=_answer("Transfer-Encoding: chunked", body="zz\r\n", after=After.HOLD),
    ),
    HttpCase(
        name="answer encoded twice",
        request=_get(),
        answer=_answer("Transfer-Encoding: gzip, chunked", after=After.HOLD),
    ),
    HttpCase(
        name="answer with nul", request=_get(), answer=_answer("X-A: a\x00b", "Content-Length: 0", after=After.HOLD)
    ),
    HttpCase(
        name="answer head of less than 80 KiB",
        request=_get(),
        answer=_answer("X-A: " + "a" * 80_000, "Content-Length: 0", after=After.HOLD),
    ),
    HttpCase(
        name="answer head of more than 80 KiB",
        request=_get(),
        answer=_answer("X-A: " + "a" * 82_000, "Content-Length: 0", after=After.HOLD),
    ),
    HttpCase(name="two dates", request=_get(), answer=_answer("Date: a", "Date: b", "Content-Length: 0")),
    HttpCase(name="two servers", request=_get(), answer=_answer("Server: a", "Server: b", "Content-Length: 0")),
    HttpCase(name="two equal lengths", request=_get(), answer=_answer("Content-Length: 0", "Content-Length: 0")),
    HttpCase(name="answer upgrades unasked", request=_get(), answer=_answer("Upgrade: x", "Content-Length: 0")),
    HttpCase(name="space before colon in the answer", request=_get(), answer=_answer("X-A : 1", "Content-Length: 0")),
    HttpCase(
        name="folded header in the answer",
        request=_get(),
        answer=_answer("X-A: 1", " 2", "Content-Length: 0", after=After.HOLD),
        difference="RFC 9112 5.2 wants a folded line replaced or refused; Envoy joins it",
        status=502,
    ),
    HttpCase(
        name="answer with 101 header lines",
        request=_get(),
        answer=_answer(*(f"x-{number}: 1" for number in range(100)), "Content-Length: 0", after=After.HOLD),
    ),
)


def _grpc(*lines: str, content_type: str = "application/grpc", host: str = "{host}") -> bytes:
    head = ("POST /p.Service/Method HTTP/1.1", f"Host: {host}", f"Content-Type: {content_type}", "TE: trailers")
    return _raw(*head, "Content-Length: 7", *lines, body="\0\0\0\0\2hi")


GRPC = (
    HttpCase(
        name="grpc, status in the head",
        request=_grpc(),
        answer=_answer("content-type: application/grpc", "grpc-status: 14", "grpc-message: a%20b", "content-length: 0"),
    ),
    *(
        HttpCase(name=f"grpc timeout {timeout}", request=_grpc(f"grpc-timeout: {timeout}"))
        for timeout in (
            *("1000m", "5S", "0m", "1300000u", "1400000001n", "99999999H"),
            *("100000000m", "5", "x", "-5m", "+1400m", "1400 m"),
        )
    ),
    HttpCase(name="grpc timeout twice", request=_grpc("grpc-timeout: 1000m", "grpc-timeout: 1200m")),
    HttpCase(name="grpc timeout of another kind of request", request=_get("grpc-timeout: 1000m")),
    HttpCase(name="grpc, no answer", request=_grpc(), answer=Answer(after=After.HOLD)),
    HttpCase(
        name="grpc, no answer in its own time", request=_grpc("grpc-timeout: 1000m"), answer=Answer(after=After.HOLD)
    ),
    HttpCase(name="grpc, closed", request=_grpc(), answer=Answer(after=After.FIN)),
    HttpCase(name="grpc, refused", request=_grpc(), refuse=True),
    *(
        HttpCase(name=f"refused {content_type}", request=_grpc(content_type=content_type), refuse=True)
        for content_type in (
            "application/grpc+proto",
            "application/grpc; x=y",
            "application/grpc-web",
            "Application/Grpc",
        )
    ),
    HttpCase(name="grpc to an unknown host", request=_grpc(host="nobody.example")),
    HttpCase(name="grpc with a bad header", request=_grpc("x(y): 1")),
    HttpCase(name="grpc with too many headers", request=_grpc(*(f"x-{number}: 1" for number in range(100)))),
)
