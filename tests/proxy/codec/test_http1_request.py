"""What a client's bytes mean: heads, bodies, pipelines, limits and refusals."""

import pytest

from proxy.codec.headers import FRAMING_HEADERS, NOTED_FIRST, HeaderTable
from proxy.codec.http1_request import RequestParser
from tests.proxy.codec.messages import (
    CHUNKED,
    POST,
    byte_by_byte,
    feed,
    only_request,
    refusal,
    request,
    request_parser,
    requests,
    split_in_two,
    summary,
)

MESSAGES = {
    "get": request("Accept: */*"),
    "length": request("Content-Length: 5", line=POST, body=b"hello"),
    "no body said": request(line=POST),
    "length 0": request("Content-Length: 0", line=POST),
    "chunked": request(CHUNKED, line=POST, body=b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"),
    "trailers": request(CHUNKED, "Trailer: X-Sum", line=POST, body=b"1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n"),
    "chunked, empty": request(CHUNKED, line=POST, body=b"0\r\n\r\n"),
    "absolute": request(line="GET http://b.example:8080/y?z HTTP/1.1"),
    "hop by hop": request("Connection: keep-alive, X-Drop", "X-Drop: 1", "Keep-Alive: 5", "X-Keep: 2"),
    "leading empty line": b"\r\n" + request(),
    "body looks like a request": request("Content-Length: 27", line=POST, body=b"GET /no HTTP/1.1\r\nHost: z\r\n"),
    "pipeline": request("Content-Length: 3", line=POST, body=b"one")
    + request(line="GET /2 HTTP/1.1")
    + request(CHUNKED, line="PUT /3 HTTP/1.1", body=b"5\r\nthree\r\n0\r\nt: v\r\n\r\n")
    + request("Content-Length: 0", line="DELETE /4 HTTP/1.1"),
    "error behind a request": request("Content-Length: 3", line=POST, body=b"one") + b"not http\r\n\r\n",
}


@pytest.mark.parametrize("data", MESSAGES.values(), ids=MESSAGES)
def test_reads_may_cut_a_message_anywhere(data):
    whole = requests(data)

    for pieces in [byte_by_byte(data), *split_in_two(data)]:
        assert summary(feed(request_parser(), pieces)) == whole, pieces


def test_head_holds_what_was_sent_with_names_in_lower_case():
    data = request(
        "MiXeD: V", "dup: 1", "DUP: 2", "under_score: 3", "empty:", "padded: \t a  b \t", host="Host.Example"
    )

    head = only_request(data)

    assert (head.method, head.path, head.authority) == (b"GET", b"/x", b"Host.Example")
    assert head.headers == [
        (b"host", b"Host.Example"),
        (b"mixed", b"V"),
        (b"dup", b"1"),
        (b"dup", b"2"),
        (b"under_score", b"3"),
        (b"empty", b""),
        (b"padded", b"a  b"),
    ]


def test_host_comes_first_wherever_it_stood():
    head = only_request(request("Accept: */*", "Host: late", host=None))

    assert head.headers == [(b"host", b"late"), (b"accept", b"*/*")]


def test_obs_text_is_kept_byte_for_byte():
    """RFC 9110, 5.5: bytes from 0x80 on are opaque."""
    head = only_request(request("X-Latin: caf\xe9\x80\xff"))

    assert head.headers[1] == (b"x-latin", b"caf\xe9\x80\xff")


@pytest.mark.parametrize(
    "target",
    [
        *("/", "/%41/%7E/%27/%3A/%40", "/?q=%21", "/%2f", "/a/./c/../d", "/;%3B", "/%ZZ", "/[x]", "//a//b", "*"),
        *("/%2F%252F%2B", "/a?b?c=/?", "/a|b^c`{}"),
    ],
)
def test_target_is_kept_byte_for_byte(target):
    assert only_request(request(line=f"OPTIONS {target} HTTP/1.1")).path == target.encode()


@pytest.mark.parametrize(
    ("target", "path", "authority"),
    [
        ("http://b.example/p?q", b"/p?q", b"b.example"),
        ("http://b.example:99/", b"/", b"b.example:99"),
        ("http://b.example", b"/", b"b.example"),
        ("http://b.example?q=/", b"/?q=/", b"b.example"),
        ("HTTPS://b.example/p", b"/p", b"b.example"),
    ],
)
def test_absolute_form_overrides_host(target, path, authority):
    """Envoy: "absolute-form URIs override Host"."""
    head = only_request(request(line=f"GET {target} HTTP/1.1", host="other"))

    assert (head.path, head.authority, head.headers) == (path, authority, [(b"host", authority)])


def test_absolute_form_needs_no_host_line():
    assert only_request(request(line="GET http://b/ HTTP/1.1", host=None)).authority == b"b"


def test_connect_names_its_authority_in_the_target():
    head = only_request(request(line="CONNECT b:443 HTTP/1.1", host="b:443"))

    assert (head.method, head.path, head.authority) == (b"CONNECT", b"", b"b:443")


@pytest.mark.parametrize(
    ("lines", "forwarded"),
    [
        (["Connection: X-Drop", "X-Drop: 1", "X-Keep: 2"], [(b"x-keep", b"2")]),
        (["X-Drop: 1", "Connection: close,x-drop"], []),
        (["Connection: a", "Connection: B", "A: 1", "b: 2", "c: 3"], [(b"c", b"3")]),
        (["Keep-Alive: 5", "Proxy-Connection: x"], []),
        (["Connection: HTTP2-Settings", "HTTP2-Settings: AA"], []),
        (["HTTP2-Settings: AA"], [(b"http2-settings", b"AA")]),
        (["Upgrade: h2c"], []),
        (["TE: trailers"], [(b"te", b"trailers")]),
        (["TE: gzip, trailers"], [(b"te", b"trailers")]),
        (["TE: gzip"], []),
        (["Connection: TE", "TE: trailers"], [(b"te", b"trailers")]),
        (["Expect: 100-continue"], []),
        (["Trailer: X", "Proxy-Authorization: b"], [(b"trailer", b"X"), (b"proxy-authorization", b"b")]),
    ],
)
def test_connection_headers_are_not_forwarded(lines, forwarded):
    assert only_request(request(*lines)).headers[1:] == forwarded


def test_connection_cannot_take_away_the_length():
    data = request("Connection: content-length", "Content-Length: 2", line=POST, body=b"hi")

    assert only_request(data).headers == [(b"host", b"a"), (b"content-length", b"2")]


@pytest.mark.parametrize("name", ["host", "Host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"])
def test_connection_cannot_take_away_who_asks_whom(name):
    """Measured on Envoy 1.40: 400."""
    events = requests(request(f"Connection: close, {name}", "X-Forwarded-For: 1.2.3.4"))

    assert [event[:2] for event in events] == [("error", 400)]


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        ([], True),
        (["Connection: keep-alive"], True),
        (["Connection: close"], False),
        (["Connection: CLOSE"], False),
        (["Connection: x, close"], False),
        (["Connection: x", "Connection: close"], False),
        (["Connection: closed"], True),
        (["X: close"], True),
        (["Proxy-Connection: close"], False),
        (["Proxy-Connection: Close"], False),
        (["Proxy-Connection: keep-alive"], True),
    ],
)
def test_client_asks_for_the_end_of_the_connection(lines, keep_alive):
    assert only_request(request(*lines)).keep_alive is keep_alive


def test_headers_of_which_one_line_is_kept_are_joined_where_the_first_stood():
    """Envoy's inline headers; every other header keeps its lines."""
    table = HeaderTable(FRAMING_HEADERS, joined=frozenset((b"accept", b"via")))
    lines = ["Accept: a", "X: 1", "accept: b", "Via: v", "x: 2", "ACCEPT: c"]

    (head,) = RequestParser(table).feed(request(*lines))

    assert head.headers[1:] == [(b"accept", b"a,b,c"), (b"x", b"1"), (b"via", b"v"), (b"x", b"2")]


@pytest.mark.parametrize(
    ("value", "expects"), [("100-continue", True), ("100-Continue", True), ("200-ok", False), ("", False)]
)
def test_expect_continue_is_noted(value, expects):
    data = request(f"Expect: {value}", "Content-Length: 2", line=POST)

    assert only_request(data).expects_continue is expects


def test_headers_of_the_callers_table_are_noted_or_dropped():
    noted, other = NOTED_FIRST, NOTED_FIRST << 1
    parser = RequestParser(FRAMING_HEADERS | {b"x-note": noted, b"x-other": other, b"x-drop": 1})

    (head,) = parser.feed(request("X-Note: 1", "X-Drop: 2", "X-Plain: 3"))

    assert head.headers == [(b"host", b"a"), (b"x-note", b"1"), (b"x-plain", b"3")]
    assert (head.marks & noted, head.marks & other) == (noted, 0)


@pytest.mark.parametrize(
    ("lines", "content_length", "chunked", "end_stream"),
    [
        ([], -1, False, True),
        (["Content-Length: 0"], 0, False, True),
        (["Content-Length: 00"], 0, False, True),
        (["Content-Length: 7"], 7, False, False),
        (["Content-Length: 007"], 7, False, False),
        ([CHUNKED], -1, True, False),
        (["transfer-encoding: CHUNKED"], -1, True, False),
    ],
)
def test_framing_is_told_by_the_head(lines, content_length, chunked, end_stream):
    head = only_request(request(*lines, line=POST))

    assert (head.content_length, head.chunked, head.end_stream) == (content_length, chunked, end_stream)


def test_transfer_encoding_is_not_forwarded_as_received():
    assert only_request(request(CHUNKED, line=POST)).headers == [(b"host", b"a")]


class TestBody:
    """A body that does not come in one read is passed on as it came, without being parsed."""

    @pytest.mark.parametrize("cut", [0, 1, 9_999, 10_000, 10_001], ids=str)
    def test_ends_exactly_where_it_was_said_to(self, cut):
        body = b"x" * 10_000
        stream = request("Content-Length: 10000", line=POST, body=body) + request(line="GET /next HTTP/1.1")
        head_bytes = stream.index(b"\r\n\r\n") + 4

        events = summary(feed(request_parser(), [stream[: head_bytes + cut], stream[head_bytes + cut :]]))

        assert [event if isinstance(event, bytes) else event[0] for event in events] == [
            *("request", body, "end", "request")
        ]

    def test_is_not_copied_when_a_read_brings_only_body(self):
        parser = request_parser()
        parser.feed(request("Content-Length: 10", line=POST, body=b"a"))
        piece = b"bcdef"

        assert parser.feed(piece)[0] is piece

    def test_may_look_like_anything(self):
        body = b"\r\n\r\nGET / HTTP/1.1\r\n0\r\n\r\n\x00\xff"
        stream = request(f"Content-Length: {len(body)}", line=POST, body=body)

        for pieces in split_in_two(stream):
            events = feed(request_parser(), pieces)
            assert b"".join(event for event in events if isinstance(event, bytes)) == body

    @pytest.mark.parametrize("size", ["5", "05", "0005", "5;a", "5;a=b", '5;a="b;c"', "5;a;b=c"])
    def test_chunk_size_may_have_zeros_and_extensions(self, size):
        data = request(CHUNKED, line=POST, body=f"{size}\r\nhello\r\n0\r\n\r\n".encode())

        assert requests(data)[1:] == [b"hello", ("end", [])]

    def test_trailers_keep_order_and_lose_what_frames_or_routes(self):
        """RFC 9110, 6.5.1: framing, routing and request modifiers do not belong in trailers."""
        trailers = b"0\r\nX-B: 1\r\nConnection: close\r\nHost: evil\r\nTE: trailers\r\nx-a: 2\r\n\r\n"

        assert requests(request(CHUNKED, line=POST, body=trailers))[1:] == [
            ("end", [(b"x-b", b"1"), (b"x-a", b"2")]),
        ]

    @pytest.mark.parametrize("line", ["Content-Length: 9", "Transfer-Encoding: gzip"])
    def test_trailers_cannot_frame_the_message_anew(self, line):
        events = requests(request(CHUNKED, line=POST, body=f"0\r\n{line}\r\n\r\n".encode()))

        assert refusal(events) is not None

    def test_trailers_of_one_request_are_not_those_of_the_next(self):
        first = request(CHUNKED, line=POST, body=b"1\r\na\r\n0\r\nx: 1\r\n\r\n")
        second = request(CHUNKED, line=POST, body=b"1\r\nb\r\n0\r\n\r\n")

        assert [event for event in requests(first + second) if event[0] == "end"] == [
            ("end", [(b"x", b"1")]),
            ("end", []),
        ]
