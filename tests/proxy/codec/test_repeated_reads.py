"""What comes again to the byte is remembered and not parsed again; nobody may notice."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.http1_parser import END
from proxy.codec.http1_response import ResponseHead
from tests.proxy.codec.messages import FRAMING_HEADERS, RequestParser, ResponseParser, summary

GET = b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nConnection: keep-alive\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
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


def test_a_repeated_head_may_have_another_body():
    parser = ResponseParser(RESPONSE_MARKS)
    bodies = [exchange(parser, OK[:-2] + body)[1:] for body in (b"ok", b"ab", b"cd", b"\r\n")]

    assert bodies == [[b"ok", END], [b"ab", END], [b"cd", END], [b"\r\n", END]]
    assert parser.keep_alive


def test_a_repeated_head_whose_body_comes_later_waits_for_it():
    parser = ResponseParser(RESPONSE_MARKS)
    for _ in range(3):
        exchange(parser, OK)
    exchange(parser, OK[:-2])

    assert parser.feed(b"o") == [b"o"]
    assert parser.feed(b"k") == [b"k", END]
    assert exchange(parser, OK)[1:] == [b"ok", END]


def test_in_a_tunnel_nothing_is_taken_for_a_repeated_head():
    parser = RequestParser(FRAMING_HEADERS)
    for _ in range(3):
        parser.feed(GET)
    parser.feed(GET + GET.replace(b"keep-alive", b"upgrade\r\nUpgrade: websocket"))

    assert parser.accept_upgrade() == []
    assert parser.feed(GET) == [GET]


def test_a_repeated_response_with_bytes_behind_it_shows_them():
    parser = ResponseParser(RESPONSE_MARKS)
    for _ in range(3):
        exchange(parser, OK)

    assert len(exchange(parser, OK + OK)) > 3


@given(
    messages=st.lists(st.sampled_from([GET, POST, POST, CHUNKED]), min_size=1, max_size=12),
    cuts=st.sets(st.integers(0, 400)),
    whole=st.booleans(),
)
def test_however_messages_repeat_and_reads_fall_they_mean_what_each_means_alone(messages, cuts, whole):
    alone = [event for message in messages for event in RequestParser(FRAMING_HEADERS).feed(message)]
    parser = RequestParser(FRAMING_HEADERS)
    stream = b"".join(messages)
    ends = [sum(map(len, messages[: index + 1])) for index in range(len(messages))]
    points = sorted({0, len(stream), *(ends if whole else ()), *(cut for cut in cuts if cut < len(stream))})
    events = [event for start, end in itertools.pairwise(points) for event in parser.feed(stream[start:end])]

    assert summary(events) == summary(alone)
