"""Whatever a parser is fed, it answers with events: the message's own for a valid one, an error for any other."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from proxy.codec.headers import HeaderList
from proxy.codec.http1_encode import encode_chunk, encode_last_chunk, encode_request_head, encode_response_head
from proxy.codec.http1_parser import End, ProtocolError
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from tests.proxy.codec.messages import RESPONSE_TABLE, feed, request_parser, response_parser, summary

pytestmark = pytest.mark.slow

patient = settings(deadline=None)  # an example may wait for a busy machine

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
VISIBLE = bytes([*range(0x21, 0x7F), *range(0x80, 0x100)])
SPECIAL = {name.decode() for name in RESPONSE_TABLE} | {"host", "te", "expect"}

names = st.text(TOKEN, min_size=1, max_size=12).filter(lambda name: name not in SPECIAL).map(str.encode)
words = st.lists(st.sampled_from(list(VISIBLE)), min_size=1, max_size=8).map(bytes)
values = st.lists(words, max_size=3).map(b" ".join)
headers = st.lists(st.tuples(names, values), max_size=6)
pieces = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
targets = st.text("abcXYZ019/%._~!$&'()*+,;=:@?[]|^`{}-", max_size=30).map(lambda text: b"/" + text.encode())
methods = st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"REPORT"])


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[bytes], int, HeaderList]:
    """Draw pieces of a body, its stated length (-1: chunked, -2: none) and its trailers."""
    kind = draw(st.sampled_from(["none", "length", "chunked"]))
    if kind == "none":
        return [], -2, []
    body = draw(pieces)
    if kind == "length":
        return body, sum(map(len, body)), []
    return body, -1, draw(headers)


def encode_body(head: bytes, body: list[bytes], trailers: HeaderList, *, chunked: bool) -> bytes:
    if not chunked:
        return head + b"".join(body)
    return head + b"".join(map(encode_chunk, body)) + encode_last_chunk(trailers)


def encode_request(method: bytes, target: bytes, lines: HeaderList, body: tuple[list[bytes], int, HeaderList]) -> bytes:
    data, length, trailers = body
    lines = [(b"host", b"a"), *lines]
    if length >= 0:
        lines.append((b"content-length", b"%d" % length))
    head, chunked = encode_request_head(
        method, target, lines, content_length=max(length, -1), end_stream=length in {-2, 0}
    )
    return encode_body(head, data, trailers, chunked=chunked)


def cut(data: bytes, places: list[float]) -> list[bytes]:
    """Cut `data` at these fractions of its length."""
    indexes = sorted({0, len(data), *(int(place * len(data)) for place in places)})
    return [data[start:end] for start, end in pairwise(indexes)]


places = st.lists(st.floats(0, 1), max_size=6)


@patient
@given(
    messages=st.lists(st.tuples(methods, targets, headers, bodies()), min_size=1, max_size=3),
    places=places,
)
def test_requests_come_out_as_they_went_in(messages, places):
    stream = b"".join(encode_request(*message) for message in messages)

    events = feed(request_parser(), cut(stream, places))

    heads = [event for event in events if isinstance(event, RequestHead)]
    assert not any(isinstance(event, ProtocolError) for event in events), summary(events)
    assert [(head.method, head.path) for head in heads] == [message[:2] for message in messages]
    for head, (_, _, lines, _) in zip(heads, messages, strict=True):
        sent = [(name, value) for name, value in head.headers[1:] if name != b"content-length"]
        assert sent == lines
    assert b"".join(event for event in events if isinstance(event, bytes)) == b"".join(
        piece for message in messages for piece in message[3][0]
    )
    assert sum(map(len, (end.trailers for end in events if isinstance(end, End)))) == sum(
        len(message[3][2]) for message in messages
    )


@patient
@given(
    status=st.integers(200, 599).filter(lambda status: status not in {204, 304}),
    lines=headers,
    body=bodies(),
    head_request=st.booleans(),
    places=places,
)
def test_responses_come_out_as_they_went_in(status, lines, body, head_request, places):
    data, length, trailers = body
    sent = [*lines, (b"content-length", b"%d" % length)] if length >= 0 else list(lines)
    head, chunked = encode_response_head(
        status, sent, content_length=max(length, -1), end_stream=length in {-2, 0}, head_request=head_request
    )
    stream = head if head_request else encode_body(head, data, trailers, chunked=chunked)
    parser = response_parser(head_request=head_request)

    events = feed(parser, cut(stream, places))

    received = events[0]
    assert isinstance(received, ResponseHead)
    assert received.status == status
    assert [pair for pair in received.headers if pair[0] != b"content-length"] == lines
    assert b"".join(event for event in events if isinstance(event, bytes)) == (b"" if head_request else b"".join(data))
    assert received.end_stream or isinstance(events[-1], End)
    if isinstance(events[-1], End):
        assert list(events[-1].trailers) == trailers
    assert parser.keep_alive


def mangled(valid: bytes) -> st.SearchStrategy[bytes]:
    """Draw `valid` with some bytes replaced, removed or put in."""
    edit = st.tuples(st.integers(0, len(valid)), st.integers(0, 3), st.binary(max_size=3))

    def apply(edits: list[tuple[int, int, bytes]]) -> bytes:
        data = valid
        for index, dropped, added in edits:
            data = data[:index] + added + data[index + dropped :]
        return data

    return st.lists(edit, min_size=1, max_size=4).map(apply)


REQUEST = (
    b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n"
)
RESPONSE = (
    b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\n"
)


def is_well_ordered(events: list[Any]) -> bool:
    """Whether an error can only be the last event, and a body only stands between its head and its end."""
    if any(isinstance(event, ProtocolError) for event in events[:-1]):
        return False
    in_body = False
    for event in events:
        if isinstance(event, RequestHead | ResponseHead):
            if in_body:
                return False
            interim = isinstance(event, ResponseHead) and event.status < 200
            in_body = not event.end_stream and not interim
        elif isinstance(event, End | bytes):
            if not in_body or event == b"":
                return False
            in_body = isinstance(event, bytes)
    return True


@patient
@given(data=st.one_of(st.binary(max_size=80), mangled(REQUEST)), places=places)
@example(data=b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", places=[])
@example(data=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", places=[])
@example(data=b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", places=[])
def test_no_request_bytes_raise(data, places):
    events = feed(request_parser(), cut(data, places))

    assert is_well_ordered(events), summary(events)


@patient
@given(data=st.one_of(st.binary(max_size=80), mangled(RESPONSE)), head_request=st.booleans(), places=places)
@example(data=b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nabc", head_request=False, places=[])
def test_no_response_bytes_raise(data, head_request, places):
    parser = response_parser(head_request=head_request)
    events: list[Any] = []
    for piece in cut(data, places):
        events += parser.feed(piece)
        last = events[-1] if events else None
        if isinstance(last, End | ProtocolError) or (
            isinstance(last, ResponseHead) and last.end_stream and last.status >= 200
        ):
            break  # the exchange is over; the owner feeds no more without another `expect`

    assert isinstance(parser.end_of_stream(), list)


@patient
@given(data=st.binary(min_size=1, max_size=80))
def test_what_is_not_http_ends_in_an_error(data):
    """A first line that no method begins."""
    assume(data[0] not in b"\r\n" and not data[:1].isalpha())

    events = feed(request_parser(), [data + b"\r\n\r\n"])

    assert [type(event) for event in events] == [ProtocolError]
