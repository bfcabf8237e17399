"""How messages are framed when they go out, and that what is written can be read again."""

import pytest

from proxy.codec.headers import STATUS_LINES, reason_phrase
from proxy.codec.http1_encode import (
    encode_chunk,
    encode_last_chunk,
    encode_request_head,
    encode_response_head,
)

HOST = [(b"host", b"a")]
EMPTY = b"content-length: 0\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("method", "end_stream", "framing"),
    [
        *((method, True, b"") for method in (b"GET", b"HEAD", b"DELETE", b"TRACE", b"CONNECT")),
        *((method, True, EMPTY) for method in (b"POST", b"PUT", b"PATCH", b"OPTIONS", b"REPORT")),
        *((method, False, CHUNKED) for method in (b"GET", b"POST", b"DELETE")),
    ],
)
def test_request_without_a_stated_length(method, end_stream, framing):
    head, chunked = encode_request_head(method, b"/p?q", HOST, content_length=-1, end_stream=end_stream)

    assert head == method + b" /p?q HTTP/1.1\r\nhost: a\r\n" + framing + b"\r\n"
    assert chunked is not end_stream
    assert HOST == [(b"host", b"a")]


@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize(("length", "end_stream"), [(0, True), (5, False)])
def test_request_with_a_stated_length_keeps_it(method, length, end_stream):
    headers = [*HOST, (b"content-length", b"%d" % length)]

    head, chunked = encode_request_head(method, b"/", headers, content_length=length, end_stream=end_stream)

    assert head == method + b" / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % length
    assert not chunked


@pytest.mark.parametrize(
    ("status", "end_stream", "head_request", "framing", "chunked"),
    [
        (200, True, False, EMPTY, False),
        (200, False, False, CHUNKED, True),
        (404, True, False, EMPTY, False),
        (404, True, True, CHUNKED, False),
        (200, False, True, CHUNKED, False),
        (204, True, False, b"", False),
        (103, True, False, b"", False),
    ],
)
def test_response_without_a_stated_length(status, end_stream, head_request, framing, chunked):
    headers = [(b"a", b"b")]

    head, is_chunked = encode_response_head(
        status, headers, content_length=-1, end_stream=end_stream, head_request=head_request
    )

    assert head.partition(b"\r\n")[2] == b"a: b\r\n" + framing + b"\r\n"
    assert is_chunked is chunked


@pytest.mark.parametrize("head_request", [False, True])
def test_response_with_a_stated_length_keeps_it(head_request):
    headers = [(b"content-length", b"5")]

    head, chunked = encode_response_head(
        200, headers, content_length=5, end_stream=head_request, head_request=head_request
    )

    assert (head, chunked) == (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", False)


@pytest.mark.parametrize(
    ("data", "chunk"),
    [(b"a", b"1\r\na\r\n"), (b"x" * 16, b"10\r\n" + b"x" * 16 + b"\r\n"), (b"\r\n", b"2\r\n\r\n\r\n")],
)
def test_chunk(data, chunk):
    assert encode_chunk(data) == chunk


@pytest.mark.parametrize(
    ("trailers", "end"),
    [([], b"0\r\n\r\n"), ([(b"a", b"1"), (b"b", b"2")], b"0\r\na: 1\r\nb: 2\r\n\r\n")],
    ids=["none", "two"],
)
def test_last_chunk(trailers, end):
    assert encode_last_chunk(trailers) == end


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, "OK"),
        (404, "Not Found"),
        (418, "Unknown"),
        (425, "Too Early"),
        (431, "Request Header Fields Too Large"),
        (598, "Unknown"),
        (599, "Last Unassigned Server Error Code"),
    ],
)
def test_reason_phrase_is_envoys(status, reason):
    """facts: "the backend's `X` became `OK`; 418 became `Unknown`"."""
    assert reason_phrase(status) == reason
    assert STATUS_LINES[status] == f"HTTP/1.1 {status} {reason}\r\n".encode()
