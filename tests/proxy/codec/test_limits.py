"""How long a head may be: 60 KiB and 100 lines, for heads and for trailers."""

import pytest

from proxy.codec.headers import FRAMING_HEADERS, HeaderTable
from proxy.codec.http1_request import RequestParser
from tests.proxy.codec.messages import CHUNKED, POST, feed, refusal, request, request_parser, requests, summary


@pytest.mark.parametrize(("size", "refused"), [(60 * 1024 - 1, False), (60 * 1024, False), (60 * 1024 + 300, True)])
@pytest.mark.parametrize("in_pieces", [False, True], ids=["one read", "many reads"])
def test_head_has_at_most_60_kib(size, refused, in_pieces):
    """Envoy counts names and values, our reader in pieces every byte: between the two a head may go either way."""
    data = request("X-Big: " + "a" * (size - len(request("X-Big: "))))
    pieces = [data[i : i + 4_000] for i in range(0, len(data), 4_000)] if in_pieces else [data]

    events = summary(feed(request_parser(), pieces))

    assert refusal(events) == ((431, "http1.headers_too_large") if refused else None)


@pytest.mark.parametrize("in_pieces", [False, True], ids=["one read", "many reads"])
def test_target_counts_as_part_of_the_head(in_pieces):
    """Envoy: `ServerConnectionImpl::getHeadersSize` adds the size of the request URL."""
    data = request(line="GET /" + "a" * 62_000 + " HTTP/1.1")
    pieces = [data[i : i + 4_000] for i in range(0, len(data), 4_000)] if in_pieces else [data]

    assert refusal(summary(feed(request_parser(), pieces))) == (431, "http1.headers_too_large")


def test_unfinished_head_is_refused_once_it_is_too_long():
    parser = request_parser(max_head_bytes=1_000)
    head = request("X-Big: " + "a" * 2_000)

    assert parser.feed(head[:1_000]) == []
    assert refusal(summary(parser.feed(head[1_000:1_001]))) == (431, "http1.headers_too_large")


def test_reply_to_a_long_head_says_so():
    error = requests(request("X: " + "a" * 70_000))[-1]

    assert error[1:] == (431, "http1.headers_too_large", b"Request Header Fields Too Large")


@pytest.mark.parametrize(("lines", "refused"), [(98, False), (99, False), (100, True)])
def test_head_has_at_most_100_lines(lines, refused):
    """Host is one of them (measured on Envoy 1.40)."""
    events = requests(request(*(f"x-{number}: 1" for number in range(lines))))

    assert refusal(events) == ((431, "http1.too_many_headers") if refused else None)


def test_dropped_lines_count():
    events = requests(request(*["Keep-Alive: 1"] * 100))

    assert refusal(events) == (431, "http1.too_many_headers")


def test_many_small_requests_in_one_read_are_not_one_long_head():
    """A read brings up to 256 KiB; the unfinished head at its end is what counts."""
    one = request("Accept: */*")
    count = 200_000 // len(one)

    events = requests(one * count + one[:-4])

    assert refusal(events) is None
    assert len(events) == count


def test_body_before_an_unfinished_head_is_not_part_of_it():
    body = b"x" * 100_000
    data = request("Content-Length: 100000", line=POST, body=body) + b"GET / HT"

    assert refusal(requests(data)) is None


def test_long_head_behind_other_requests_is_refused():
    events = requests(request() * 3 + request("X: " + "a" * 70_000))

    assert [event[0] for event in events] == ["request", "request", "request", "error"]


@pytest.mark.parametrize(("lines", "refused"), [(100, False), (101, True)])
def test_trailers_have_at_most_100_lines(lines, refused):
    trailers = "".join(f"x-{number}: 1\r\n" for number in range(lines))
    data = request(CHUNKED, line=POST, body=f"0\r\n{trailers}\r\n".encode())

    assert [event[1] for event in requests(data) if event[0] == "error"] == ([431] if refused else [])


@pytest.mark.parametrize("in_pieces", [False, True], ids=["one read", "many reads"])
def test_trailers_have_at_most_60_kib(in_pieces):
    data = request(CHUNKED, line=POST, body=b"0\r\nx: " + b"a" * 70_000 + b"\r\n\r\n")
    pieces = [data[i : i + 4_000] for i in range(0, len(data), 4_000)] if in_pieces else [data]

    assert summary(feed(request_parser(), pieces))[-1][:2] == ("error", 431)


def test_endless_trailers_are_refused_while_they_come():
    parser = request_parser()
    feed(parser, [request(CHUNKED, line=POST, body=b"0\r\nx: ")])

    events = summary(feed(parser, [b"a" * 10_000] * 20))

    assert events[-1][:2] == ("error", 431)


@pytest.mark.parametrize("cut", [1_000, 100_000, 150_000])
def test_long_head_that_begins_behind_another_request_in_a_read_is_refused(cut):
    head = request("X: " + "a" * 150_000)

    events = feed(request_parser(), [request() + head[:cut], head[cut:-2], head[-2:]])

    assert refusal(summary(events)) == (431, "http1.headers_too_large")


def test_names_that_clients_invent_are_not_remembered_for_ever():
    """A table is shared by all connections."""
    table = HeaderTable(FRAMING_HEADERS)
    for number in range(2_000):
        parser = RequestParser(table)
        parser.feed(request(f"{'x' * 20_000}{number}: 1"))

    assert sum(map(len, table)) < 1_000_000
    assert len(table) <= 1_000
