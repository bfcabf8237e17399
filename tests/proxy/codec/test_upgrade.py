"""Bytes behind a request that asks for another protocol are held back until somebody says whose they are."""

import pytest

from proxy.codec.http1_request import RequestHead
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

ASK = request("Connection: Upgrade", "Upgrade: WebSocket")


def test_head_names_the_protocol_in_lower_case_and_does_not_forward_it():
    head = only_request(ASK)

    assert (head.upgrade, head.end_stream, head.headers) == (b"websocket", True, [(b"host", b"a")])


@pytest.mark.parametrize("lines", [["Upgrade: h2c"], ["Connection: Upgrade"], ["Connection: up", "Upgrade: h"]])
def test_without_both_lines_nothing_is_asked_for(lines):
    assert only_request(request(*lines)).upgrade == b""


@pytest.mark.parametrize("later", [[], [b"more"], [b"more", b"and more"]], ids=len)
def test_accepted_everything_passes_unparsed(later):
    parser = request_parser()
    events = feed(parser, [ASK + b"\x81\x00raw", *later])

    assert summary(events) == [summary([events[0]])[0]]
    assert b"".join(parser.accept_upgrade()) == b"\x81\x00raw" + b"".join(later)
    assert parser.feed(b"GET / HTTP/1.1\r\n") == [b"GET / HTTP/1.1\r\n"]


def test_accepted_with_nothing_behind_it():
    parser = request_parser()
    parser.feed(ASK)

    assert parser.accept_upgrade() == []
    assert parser.feed(b"raw") == [b"raw"]


def test_refused_what_follows_is_the_next_request():
    parser = request_parser()
    parser.feed(ASK + request(line="GET /2 HTTP/1.1") + b"GET /3")

    assert [event.path for event in parser.refuse_upgrade()] == [b"/2"]
    assert [event.path for event in parser.feed(b" HTTP/1.1\r\nHost: a\r\n\r\n")] == [b"/3"]


def test_refused_with_nothing_behind_it():
    parser = request_parser()
    parser.feed(ASK)

    assert parser.refuse_upgrade() == []
    assert [event.path for event in parser.feed(request())] == [b"/x"]


def test_refused_garbage_behind_it_is_an_error():
    parser = request_parser()
    parser.feed(ASK + b"\x81\x00raw\r\n\r\n")

    assert refusal(summary(parser.refuse_upgrade())) == (400, "http1.codec_error")


@pytest.mark.parametrize(
    ("lines", "body", "rest"),
    [
        (["Content-Length: 5"], b"hello", []),
        ([CHUNKED], b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", []),
        ([CHUNKED], b"5\r\nhello\r\n0\r\nt: 1\r\n\r\n", [(b"t", b"1")]),
    ],
    ids=["length", "chunked", "trailers"],
)
def test_body_of_such_a_request_is_still_a_body(lines, body, rest):
    """llhttp would take it for bytes of the new protocol; then `h2c` could smuggle a request."""
    data = request("Connection: Upgrade", "Upgrade: h2c", *lines, line=POST, body=body) + request()

    for pieces in [[data], byte_by_byte(data), *split_in_two(data)]:
        events = summary(feed(request_parser(), pieces))
        assert [event if isinstance(event, bytes) else event[0] for event in events] == [
            *("request", b"hello", "end", "request")
        ], pieces
        assert events[2] == ("end", rest)


@pytest.mark.parametrize("cut", range(3))
def test_end_of_an_empty_body_in_chunks_is_told_however_it_is_cut(cut):
    """Found by fuzzing: in the read of its head the end was taken for the head's own, and the request never ended."""
    data = request("Connection: Upgrade", "Upgrade: h2c", CHUNKED, line=POST)
    pieces = [data + b"0\r\n\r\n"] if cut == 0 else [data[:-cut], data[-cut:] + b"0\r\n\r\n"]
    parser = request_parser()
    events = feed(parser, pieces)

    assert [type(event).__name__ for event in events] == ["RequestHead", "End"]
    assert [type(event).__name__ for event in feed(parser, [ASK])] == ["RequestHead"]


def test_body_of_length_zero_is_no_body():
    parser = request_parser()
    (head,) = parser.feed(request("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 0") + request())

    assert head.end_stream
    assert [type(event) for event in parser.refuse_upgrade()] == [RequestHead]


@pytest.mark.parametrize("framing", ["Content-Length: 5", CHUNKED])
def test_connect_with_a_body_is_refused(framing):
    """Envoy 1.40 answers 400; a CONNECT has no body (RFC 9110, 9.3.6)."""
    events = requests(request(framing, line="CONNECT b:443 HTTP/1.1", body=b"hello") + request())

    assert refusal(events) == (400, "http1.codec_error")


def test_a_request_behind_connect_waits_too():
    parser = request_parser()
    events = parser.feed(request(line="CONNECT b:443 HTTP/1.1") + b"\x16\x03\x01")

    assert [event.method for event in events] == [b"CONNECT"]
    assert parser.accept_upgrade() == [b"\x16\x03\x01"]
