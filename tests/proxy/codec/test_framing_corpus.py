"""Messages that two readers could take for different ones: each is refused, none is repaired.

Sources: RFC 9112 sections 2.2, 5, 6 and 7; the request smuggling variants CL.TE, TE.CL and TE.TE. Statuses and details
are Envoy 1.40's where it refuses the message too.
"""

import pytest

from tests.proxy.codec.messages import (
    POST,
    byte_by_byte,
    feed,
    refusal,
    request,
    request_parser,
    requests,
    response,
    response_parser,
    responses,
    summary,
)

SMUGGLED = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

BAD = (400, "http1.codec_error")
BAD_CHARACTERS = (400, "http1.invalid_characters")
BOTH_LENGTHS = (400, "http1.content_length_and_chunked_not_allowed")
BAD_CODING = (501, "http1.invalid_transfer_encoding")
LOW_VERSION = (426, "low_version")

LENGTHS = {
    "signed": "+5",
    "negative": "-5",
    "hex": "0x5",
    "fraction": "5.0",
    "separated": "5_0",
    "with blanks": "5 0",
    "list": "5, 5",
    "differing list": "5, 6",
    "trailing letter": "5x",
    "empty": "",
    "beyond 64 bits": "18446744073709551616",
    "far beyond": "9" * 40,
    "full width digit": "\xb2",
}

CODINGS = {
    "xchunked": "xchunked",
    "chunkedx": "chunkedx",
    "gzip": "gzip",
    "identity": "identity",
    "gzip, chunked": "gzip, chunked",
    "chunked, gzip": "chunked, gzip",
    "chunked, chunked": "chunked, chunked",
    "chunked, identity": "chunked, identity",
    "comma": ",",
    "parameter": "chunked;q=1",
    "quoted": '"chunked"',
    "empty": "",
}

CHUNKS = {
    "not hex": b"zz\r\nhello\r\n",
    "empty size": b"\r\nhello\r\n",
    "signed size": b"+5\r\nhello\r\n",
    "negative size": b"-5\r\nhello\r\n",
    "0x size": b"0x5\r\nhello\r\n",
    "size beyond 64 bits": b"10000000000000005\r\nhello\r\n",
    "blank before the size": b" 5\r\nhello\r\n",
    "bare LF behind the size": b"5\nhello\r\n",
    "bare CR behind the size": b"5\rhello\r\n",
    "bare LF behind the data": b"5\r\nhello\n0\r\n\r\n",
    "data longer than its size": b"5\r\nhelloX\r\n0\r\n\r\n",
    "bare LF in an extension": b"5;a\n=b\r\nhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;a\x00\r\nhello\r\n0\r\n\r\n",
    "bare LF behind the last chunk": b"0\n\r\n",
    "bare LF behind the trailers": b"0\r\n\n",
    "trailer without a colon": b"0\r\nX\r\n\r\n",
    "blank before a trailer's colon": b"0\r\nX : 1\r\n\r\n",
}

LINES = {
    "blank before the colon": (["X-A : 1"], BAD),
    "tab before the colon": (["X-A\t: 1"], BAD),
    "blank before the colon of a length": (["Content-Length : 5"], BAD),
    "blank before the colon of a coding": (["Transfer-Encoding : chunked"], BAD),
    "blank before the first name": ([" X-A: 1"], None),
    "folded": (["X-A: 1", " 2"], None),
    "folded by a tab": (["X-A: 1", "\t2"], None),
    "folded coding": (["Transfer-Encoding:", " chunked"], None),
    "no colon": (["X-A"], BAD),
    "empty name": ([": 1"], BAD),
    "bracket in a name": (["X(A): 1"], BAD),
    "NUL in a name": (["X\x00A: 1"], BAD),
    "latin-1 in a name": (["X\xe9: 1"], BAD),
    "NUL in a value": (["X-A: a\x00b"], BAD_CHARACTERS),
    "control character in a value": (["X-A: a\x01b"], None),
    "DEL in a value": (["X-A: a\x7fb"], None),
    "bare CR in a value": (["X-A: a\rX-B: b"], None),
    "bare LF in a value": (["X-A: a\nX-B: b"], None),
    "vertical tab before a coding": (["Transfer-Encoding: \x0bchunked"], None),
}


def assert_refused(events, expected=None):
    """The error is the only event that concerns the message; nothing of it counts as a body or as another message."""
    assert refusal(events) is not None, events
    assert sum(event[0] in {"request", "response"} for event in events if isinstance(event, tuple)) <= 1, events
    assert not any(event[0] == "end" for event in events if isinstance(event, tuple)), events
    if expected is not None:
        assert refusal(events) == expected


class TestRequests:
    @pytest.mark.parametrize("value", LENGTHS.values(), ids=LENGTHS)
    def test_content_length_is_a_plain_number(self, value):
        assert_refused(requests(request(f"Content-Length: {value}", line=POST, body=b"hello")), BAD)

    @pytest.mark.parametrize("second", ["5", "6", "05"])
    def test_content_length_is_there_once(self, second):
        lines = ["Content-Length: 5", "X: 1", f"Content-Length: {second}"]

        assert_refused(requests(request(*lines, line=POST, body=b"hello")), BAD)

    @pytest.mark.parametrize("value", CODINGS.values(), ids=CODINGS)
    def test_the_only_coding_is_chunked(self, value):
        assert_refused(requests(request(f"Transfer-Encoding: {value}", line=POST, body=SMUGGLED)), BAD_CODING)

    @pytest.mark.parametrize(
        "lines",
        [
            ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
            ["Transfer-Encoding: identity", "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: gzip", "transfer-encoding: chunked"],
            ["Transfer-Encoding: chunked", "Transfer-Encoding: x"],
        ],
        ids="/".join,
    )
    def test_transfer_encoding_is_there_once(self, lines):
        assert_refused(requests(request(*lines, line=POST, body=SMUGGLED)), BAD_CODING)

    @pytest.mark.parametrize(
        "lines",
        [
            ["Content-Length: 5", "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: chunked", "Content-Length: 5"],
            ["Content-Length: 0", "Transfer-Encoding: chunked"],
            ["content-length: 44", "TRANSFER-ENCODING: CHUNKED"],
            ["Content-Length: 5", "Transfer-Encoding: identity"],
        ],
        ids=["CL.TE", "TE.CL", "CL.TE, 0", "case", "identity"],
    )
    def test_never_both_lengths(self, lines):
        assert_refused(requests(request(*lines, line=POST, body=SMUGGLED)), BOTH_LENGTHS)

    def test_unknown_coding_before_a_length(self):
        lines = ["Transfer-Encoding: xchunked", "Content-Length: 5"]

        assert_refused(requests(request(*lines, line=POST, body=SMUGGLED)))

    @pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS)
    def test_chunks_are_well_formed(self, body):
        data = request("Transfer-Encoding: chunked", line=POST, body=body + SMUGGLED)

        assert_refused(requests(data))
        assert_refused(summary(feed(request_parser(), byte_by_byte(data))))

    @pytest.mark.parametrize(("lines", "expected"), LINES.values(), ids=LINES)
    def test_lines_are_well_formed(self, lines, expected):
        data = request(*lines, line=POST, body=SMUGGLED)

        assert_refused(requests(data), expected)
        assert_refused(summary(feed(request_parser(), byte_by_byte(data))), expected)

    @pytest.mark.parametrize(
        "data",
        [
            b"GET /x HTTP/1.1\nHost: a\n\n",
            b"GET /x HTTP/1.1\r\nHost: a\n\r\n",
            b"GET /x HTTP/1.1\r\nHost: a\r\n\n",
            b"GET /x HTTP/1.1\rHost: a\r\r",
            b"GET /x HTTP/1.1\r\nHost: a\r\n\rX",
        ],
        ids=["all", "one line", "the empty line", "bare CR", "CR behind the head"],
    )
    def test_lines_end_with_crlf(self, data):
        assert_refused(requests(data))

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("GET /x HTTP/1.0", LOW_VERSION),
            ("GET /x HTTP/0.9", LOW_VERSION),
            ("GET /x HTTP/2.0", LOW_VERSION),
            ("GET /x HTTP/1.2", None),
            ("GET /x HTTP/1.10", BAD),
            ("GET /x HTTP/11", BAD),
            ("GET /x http/1.1", BAD),
            ("GET /x HTTP/1.1 x", None),
            ("GET /x y HTTP/1.1", None),
            ("GET  HTTP/1.1", None),
            ("FETCHIT /x HTTP/1.1", BAD),
            ("get /x HTTP/1.1", BAD),
            (" GET /x HTTP/1.1", None),
            ("GET /x\x00 HTTP/1.1", None),
            ("GET /caf\xe9 HTTP/1.1", BAD),
            ("GET x HTTP/1.1", BAD),
            ("GET ftp:x HTTP/1.1", BAD),
            ("THIS IS NOT HTTP", BAD),
            ("PRI * HTTP/2.0", None),
        ],
    )
    def test_request_line_is_well_formed(self, line, expected):
        assert_refused(requests(request(line=line)), expected)

    def test_two_hosts_are_refused(self):
        """RFC 9112, 3.2: "more than one Host header field line" is answered 400; Envoy joins them."""
        assert_refused(requests(request("Host: b")), BAD)
        assert_refused(requests(request("Host: a")), BAD)

    def test_no_host_is_refused_without_a_body(self):
        (error,) = requests(request(host=None))

        assert error == ("error", 400, "missing_host_header", b"")

    def test_an_empty_host_names_nothing_and_is_no_error_of_framing(self):
        """Envoy 1.40: 404, no route."""
        (head, *_) = requests(request("Host:", host=None))

        assert head[0] == "request"

    def test_fragment_is_refused_without_a_body(self):
        (error,) = requests(request(line="GET /x#frag HTTP/1.1"))

        assert error == ("error", 400, "path_normalization_failed", b"")

    @pytest.mark.parametrize(
        ("data", "body"),
        [
            (b"THIS IS NOT HTTP\r\n\r\n", b"Bad Request"),
            (request(line="GET / HTTP/1.0"), b"Upgrade Required"),
            (request("Transfer-Encoding: gzip", line=POST), b"Not Implemented"),
        ],
    )
    def test_reply_says_what_is_wrong(self, data, body):
        assert requests(data)[-1][3] == body

    def test_requests_before_the_refused_one_are_served(self):
        events = requests(request() + request(line="GET /2 HTTP/1.1") + b"garbage\r\n\r\n" + request())

        assert [event[0] for event in events] == ["request", "request", "error"]


class TestResponses:
    @pytest.mark.parametrize("value", LENGTHS.values(), ids=LENGTHS)
    def test_content_length_is_a_plain_number(self, value):
        assert_refused(responses(response(f"Content-Length: {value}", body=b"hello")))

    @pytest.mark.parametrize("second", ["5", "6"])
    def test_content_length_is_there_once(self, second):
        assert_refused(responses(response("Content-Length: 5", f"Content-Length: {second}", body=b"hello")))

    @pytest.mark.parametrize("value", CODINGS.values(), ids=CODINGS)
    def test_the_only_coding_is_chunked(self, value):
        assert_refused(responses(response(f"Transfer-Encoding: {value}", body=b"0\r\n\r\n")))

    @pytest.mark.parametrize("value", ["chunked", "identity", "x"])
    def test_transfer_encoding_is_there_once(self, value):
        lines = ["Transfer-Encoding: chunked", f"Transfer-Encoding: {value}"]

        assert_refused(responses(response(*lines, body=b"0\r\n\r\n")))

    @pytest.mark.parametrize("lines", [["CL", "TE"], ["TE", "CL"]], ids=".".join)
    def test_never_both_lengths(self, lines):
        text = {"CL": "Content-Length: 5", "TE": "Transfer-Encoding: chunked"}

        assert_refused(responses(response(*(text[line] for line in lines), body=b"0\r\n\r\n")))

    @pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS)
    def test_chunks_are_well_formed(self, body):
        data = response("Transfer-Encoding: chunked", body=body)

        assert_refused(responses(data))
        assert_refused(summary(feed(response_parser(), byte_by_byte(data))))

    @pytest.mark.parametrize("lines", [lines for lines, _ in LINES.values()], ids=LINES)
    def test_lines_are_well_formed(self, lines):
        data = response(*lines)

        assert_refused(responses(data))
        assert_refused(summary(feed(response_parser(), byte_by_byte(data))))

    @pytest.mark.parametrize(
        "line",
        [
            *("HTTP/2.0 200 OK", "HTTP/0.9 200 OK", "HTTP/1.2 200 OK", "HTTX/1.1 200 OK", "http/1.1 200 OK"),
            *("HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 abc OK", "HTTP/1.1 -200 OK", "HTTP/1.1 099 X"),
            *("HTTP/1.1200 OK", "SSH-2.0-OpenSSH_9.2", "220 smtp ready"),
        ],
    )
    def test_status_line_is_well_formed(self, line):
        assert_refused(responses(response("Content-Length: 0", line=line)))

    @pytest.mark.parametrize(
        "data",
        [b"HTTP/1.1 200 OK\nA: b\n\n", b"HTTP/1.1 200 OK\r\nA: b\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\n"],
        ids=["all", "one line", "the empty line"],
    )
    def test_lines_end_with_crlf(self, data):
        assert_refused(responses(data))

    @pytest.mark.parametrize("name", ["X\rInjected: 1", "X\nInjected: 1"])
    def test_a_header_cannot_split_the_response(self, name):
        assert_refused(responses(response(f"X: a{name}")))
