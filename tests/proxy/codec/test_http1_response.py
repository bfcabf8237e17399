"""What an upstream's bytes mean: heads, interim heads, and where a body ends."""

import pytest

from proxy.codec.headers import NOTED_FIRST
from proxy.codec.http1_response import ResponseHead, ResponseParser
from tests.proxy.codec.messages import (
    CHUNKED,
    RESPONSE_TABLE,
    byte_by_byte,
    feed,
    only_response,
    refusal,
    response,
    response_parser,
    responses,
    split_in_two,
    summary,
)

MESSAGES = {
    "length": response("Content-Length: 5", body=b"hello"),
    "length 0": response("Content-Length: 0"),
    "chunked": response(CHUNKED, body=b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"),
    "trailers": response(CHUNKED, "Trailer: X-Sum", body=b"1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n"),
    "until close": response("X: 1", body=b"until the end"),
    "204": response(line="HTTP/1.1 204 No Content"),
    "304 with length": response("Content-Length: 10", line="HTTP/1.1 304 Not Modified"),
    "interim": response("Link: </a>", line="HTTP/1.1 103 Early Hints") + response("Content-Length: 1", body=b"x"),
    "two interim": response(line="HTTP/1.1 100 Continue") * 2 + response(CHUNKED, body=b"0\r\n\r\n"),
    "1.0": response("Content-Length: 2", line="HTTP/1.0 200 OK", body=b"ok"),
    "error in a chunk": response(CHUNKED, body=b"3\r\nabc\r\nzz\r\n"),
    "not http": b"SSH-2.0-OpenSSH_9.2\r\n",
}


@pytest.mark.parametrize("data", MESSAGES.values(), ids=MESSAGES)
def test_reads_may_cut_a_message_anywhere(data):
    whole = responses(data)

    for pieces in [byte_by_byte(data), *split_in_two(data)]:
        assert summary(feed(response_parser(), pieces)) == whole, pieces


def test_head_holds_what_was_sent_with_names_in_lower_case():
    head = only_response(response("X-Mixed: V", "set-cookie: a=1", "Set-Cookie: b=2", "ETag: x", "Content-Length: 0"))

    assert (head.status, head.headers) == (
        200,
        [
            (b"x-mixed", b"V"),
            (b"set-cookie", b"a=1"),
            (b"set-cookie", b"b=2"),
            (b"etag", b"x"),
            (b"content-length", b"0"),
        ],
    )


def test_obs_text_is_kept_byte_for_byte():
    assert only_response(response("X-Latin: caf\xe9")).headers == [(b"x-latin", b"caf\xe9")]


@pytest.mark.parametrize("line", ["HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1 200 Fine by me", "HTTP/1.1 200 \xe9"])
def test_reason_phrase_does_not_matter(line):
    assert only_response(response("Content-Length: 0", line=line)).status == 200


def test_empty_line_before_the_status_line_is_refused():
    """RFC 9112, 2.2: only a server may skip one, before a request line. Envoy 1.40 answers 502."""
    assert refusal(responses(b"\r\n" + response("Content-Length: 0"))) is not None


@pytest.mark.parametrize(
    ("lines", "forwarded"),
    [
        (["Connection: x-foo, keep-alive", "X-Foo: 1"], [(b"x-foo", b"1")]),
        (["Keep-Alive: timeout=5", "Proxy-Connection: close"], []),
        (["Upgrade: h2c"], []),
        (["Trailer: X", "TE: trailers", "Host: h"], [(b"trailer", b"X"), (b"te", b"trailers"), (b"host", b"h")]),
    ],
)
def test_connection_headers_are_not_forwarded_but_those_they_name_are(lines, forwarded):
    """Envoy, unlike on requests: "a header named in the response's Connection line is forwarded"."""
    assert only_response(response(*lines, "Content-Length: 0")).headers[:-1] == forwarded


def test_headers_of_the_callers_table_are_noted():
    parser = ResponseParser(RESPONSE_TABLE | {b"server": NOTED_FIRST, b"date": NOTED_FIRST << 1})
    parser.expect(head_request=False)

    (head,) = parser.feed(response("Server: s", "Content-Length: 0"))

    assert (head.marks & NOTED_FIRST, head.marks & NOTED_FIRST << 1) == (NOTED_FIRST, 0)
    assert head.headers[0] == (b"server", b"s")


@pytest.mark.parametrize(
    ("lines", "content_length", "chunked", "end_stream"),
    [
        ([], -1, False, False),
        (["Content-Length: 0"], 0, False, True),
        (["Content-Length: 7"], 7, False, False),
        ([CHUNKED], -1, True, False),
        (["transfer-encoding: CHUNKED"], -1, True, False),
    ],
)
def test_framing_is_told_by_the_head(lines, content_length, chunked, end_stream):
    head = only_response(response(*lines))

    assert (head.content_length, head.chunked, head.end_stream) == (content_length, chunked, end_stream)


class TestNoBody:
    """RFC 9112, 6.3: which responses end with their head, whatever it says."""

    @pytest.mark.parametrize("lines", [[], ["Content-Length: 1234"], [CHUNKED]], ids=["none", "length", "chunked"])
    @pytest.mark.parametrize("status", [200, 404, 500])
    def test_head(self, status, lines):
        parser = response_parser(head_request=True)

        (head,) = feed(parser, [response(*lines, line=f"HTTP/1.1 {status} X")])

        assert head.end_stream
        assert head.content_length == (1234 if lines and "1234" in lines[0] else -1)
        assert parser.keep_alive

    @pytest.mark.parametrize("later", [[], ["Content-Length: 9"]], ids=["none", "length"])
    def test_head_leaves_the_parser_ready_for_the_next_response(self, later):
        parser = response_parser(head_request=True)
        feed(parser, [response("Content-Length: 1234")])
        parser.expect(head_request=False)

        events = summary(parser.feed(response("Content-Length: 2", body=b"ok")))

        assert [event if isinstance(event, bytes) else event[0] for event in events] == ["response", b"ok", "end"]

    def test_head_behind_an_interim_head(self):
        parser = response_parser(head_request=True)
        data = response(line="HTTP/1.1 103 Early Hints") + response("Content-Length: 5")

        for pieces in [[data], byte_by_byte(data)]:
            parser = response_parser(head_request=True)
            assert [head.status for head in feed(parser, pieces)] == [103, 200]

    @pytest.mark.parametrize("lines", [[], ["Content-Length: 10"]], ids=["none", "length"])
    def test_304(self, lines):
        head = only_response(response(*lines, line="HTTP/1.1 304 Not Modified"))

        assert head.end_stream

    def test_204(self):
        assert only_response(response("X: 1", line="HTTP/1.1 204 No Content")).end_stream

    @pytest.mark.parametrize("line", ["Content-Length: 5", CHUNKED])
    def test_204_that_announces_one_is_refused(self, line):
        """Measured on Envoy 1.40; RFC 9110, 8.6 and RFC 9112, 6.1 forbid both in a 204."""
        events = responses(response(line, line="HTTP/1.1 204 No Content"))

        assert refusal(events) is not None

    @pytest.mark.parametrize("status", [100, 102, 103, 199])
    def test_interim_heads_come_before_the_response(self, status):
        parser = response_parser()

        events = feed(parser, [response(line=f"HTTP/1.1 {status} X"), response("Content-Length: 0")])

        assert [event.status for event in events] == [status, 200]

    def test_205_has_one_if_it_says_so(self):
        assert responses(response("Content-Length: 2", line="HTTP/1.1 205 X", body=b"ok"))[1] == b"ok"


class TestUntilClose:
    @pytest.mark.parametrize("line", ["HTTP/1.1 200 OK", "HTTP/1.0 200 OK"])
    def test_body_of_unstated_length_ends_with_the_connection(self, line):
        parser = response_parser()
        events = feed(
            parser, [response("Connection: keep-alive", line=line, body=b"a"), b"GET / HTTP/1.1\r\n\r\n", b"b"]
        )
        events += parser.end_of_stream()

        assert summary(events)[1:] == [b"aGET / HTTP/1.1\r\n\r\nb", ("end", [])]
        assert not parser.keep_alive

    def test_body_may_be_empty(self):
        parser = response_parser()
        feed(parser, [response()])

        assert summary(parser.end_of_stream()) == [("end", [])]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"HTTP/1.1 200 OK\r\nX-A:",
            response("Content-Length: 9", body=b"half"),
            response("Content-Length: 9"),
            response(CHUNKED, body=b"5\r\nab"),
            response(CHUNKED, body=b"2\r\nab\r\n"),
            response(CHUNKED, body=b"0\r\n"),
            response(line="HTTP/1.1 100 Continue"),
        ],
        ids=["nothing", "head", "length", "length, none", "chunk", "no last chunk", "trailers", "interim"],
    )
    def test_any_other_message_does_not_end_with_the_connection(self, data):
        parser = response_parser()
        feed(parser, [data])

        assert not any(type(event).__name__ == "End" for event in parser.end_of_stream())


class TestKeepAlive:
    @pytest.mark.parametrize(
        ("data", "keep_alive"),
        [
            (response("Content-Length: 1", body=b"x"), True),
            (response(CHUNKED, body=b"0\r\n\r\n"), True),
            (response("Content-Length: 1", "Connection: close", body=b"x"), False),
            (response("Content-Length: 1", "Connection: x, CLOSE", body=b"x"), False),
            (response("Content-Length: 1", line="HTTP/1.0 200 OK", body=b"x"), False),
            (response("Content-Length: 1", "Connection: keep-alive", line="HTTP/1.0 200 OK", body=b"x"), True),
            (response(line="HTTP/1.1 204 No Content"), True),
            (response("Connection: close", line="HTTP/1.1 304 X"), False),
        ],
    )
    def test_connection_can_carry_another_request(self, data, keep_alive):
        parser = response_parser()
        feed(parser, [data])

        assert parser.keep_alive is keep_alive

    def test_what_one_response_said_does_not_hold_for_the_next(self):
        parser = response_parser()
        feed(parser, [response("Content-Length: 0", "Connection: close")])
        parser.expect(head_request=False)
        feed(parser, [response("Content-Length: 0")])

        assert parser.keep_alive

    def test_body_behind_the_response_to_head_ends_the_connection(self):
        parser = response_parser(head_request=True)
        feed(parser, [response("Content-Length: 2", body=b"ok")])

        assert not parser.keep_alive


class TestUpgrade:
    SWITCH = response("Connection: Upgrade", "Upgrade: websocket", line="HTTP/1.1 101 Switching Protocols")

    def test_101_nobody_asked_for_is_refused(self):
        (error,) = responses(self.SWITCH)

        assert error[0] == "error"

    def test_what_follows_an_accepted_upgrade_passes_unparsed(self):
        for pieces in split_in_two(self.SWITCH + b"\x81\x05hello"):
            parser = response_parser(upgrade=True)
            head, *rest = feed(parser, pieces)
            assert isinstance(head, ResponseHead)
            assert (head.status, b"".join(rest), parser.keep_alive) == (101, b"\x81\x05hello", False)
            assert (b"upgrade", b"websocket") in head.headers

    def test_an_upgrade_may_be_declined(self):
        events = responses(response("Content-Length: 2", "Upgrade: websocket", body=b"no"), upgrade=True)

        assert [event if isinstance(event, bytes) else event[0] for event in events] == ["response", b"no", "end"]


class TestLimits:
    @pytest.mark.parametrize(("lines", "refused"), [(99, False), (100, False), (101, True)])
    def test_head_has_at_most_100_lines(self, lines, refused):
        data = response("Content-Length: 0", *(f"x-{number}: 1" for number in range(lines - 1)))

        assert (refusal(responses(data)) is not None) is refused

    @pytest.mark.parametrize(("size", "refused"), [(20_000, False), (60_000, False), (62_000, True)])
    @pytest.mark.parametrize("piece", [4_000, 100_000])
    def test_head_has_at_most_60_kib(self, size, refused, piece):
        """CASES: a large upstream header is a 502 and an outlier event, not a crash."""
        data = response("Content-Length: 0", "X: " + "a" * size)
        pieces = [data[i : i + piece] for i in range(0, len(data), piece)]

        assert (refusal(summary(feed(response_parser(), pieces))) is not None) is refused

    def test_body_may_be_as_long_as_it_likes(self):
        parser = response_parser()
        events = feed(parser, [response("Content-Length: 1000000"), *[b"x" * 100_000] * 10])

        assert len(summary(events)[1]) == 1_000_000
        assert parser.keep_alive

    def test_endless_trailers_are_refused_while_they_come(self):
        parser = response_parser()
        feed(parser, [response(CHUNKED, body=b"0\r\n")])

        events = summary(feed(parser, [b"x: " + b"a" * 9_000 + b"\r\n"] * 20))

        assert refusal(events) is not None
