"""What comes again to the byte is remembered and not parsed again; nobody may notice."""

import pytest

from proxy.codec.http1_parser import END
from proxy.codec.http1_response import ResponseHead
from tests.proxy.codec.messages import FRAMING_HEADERS, RequestParser, ResponseParser

GET = b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nConnection: keep-alive\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok"
RESPONSE_MARKS = {name: mark for name, mark in FRAMING_HEADERS.items() if name not in {b"host", b"te", b"expect"}}


def exchange(parser: ResponseParser, data: bytes, *, head_request: bool = False) -> list[object]:
    parser.expect(head_request=head_request)
    return [
        (event.status, tuple(event.headers), event.content_length, event.end_stream)
        if type(event) is ResponseHead
        else event
        for event in parser.feed(data)
    ]


def test_a_repeated_request_is_the_same_and_its_own():
    parser = RequestParser(FRAMING_HEADERS)
    heads = [event for _ in range(4) for event in parser.feed(GET)]
    heads[2].headers.append((b"x-added", b"1"))

    assert [head.path for head in heads] == [b"/x"] * 4
    assert heads[3].headers == heads[0].headers
    assert heads[3].keep_alive


def test_a_head_of_two_reads_is_not_taken_for_two_of_the_same():
    parser = RequestParser(FRAMING_HEADERS)
    piece = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
    for _ in range(3):
        assert len(parser.feed(piece)) == 1

    assert parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 62\r\n\r\n")[0].method == b"POST"
    assert parser.feed(piece) == [piece]
    assert parser.feed(piece)[0] == piece


def test_a_repeated_response_is_the_same_each_time():
    parser = ResponseParser(RESPONSE_MARKS)
    first = exchange(parser, OK)

    assert [exchange(parser, OK) for _ in range(3)] == [first] * 3
    assert parser.started
    assert parser.keep_alive


@pytest.mark.parametrize("repetitions", [1, 2, 3])
def test_the_same_bytes_answer_a_head_request_without_a_body(repetitions):
    parser = ResponseParser(RESPONSE_MARKS)
    for _ in range(repetitions):
        exchange(parser, OK)

    assert len(exchange(parser, OK, head_request=True)) == 1
    assert not parser.keep_alive


@pytest.mark.parametrize("repetitions", [1, 2, 3])
def test_a_repeated_interim_head_does_not_begin_the_response(repetitions):
    parser = ResponseParser(RESPONSE_MARKS)
    parser.expect(head_request=False)
    for _ in range(repetitions):
        assert len(parser.feed(b"HTTP/1.1 103 Early Hints\r\n\r\n")) == 1

    assert not parser.started
    assert parser.feed(OK)[-1] is END
