"""Heads between HTTP/2's lines and the one head type; what is malformed is a stream error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.headers import NOTED_FIRST, HeaderTable
from proxy.codec.http1_parser import ProtocolError
from proxy.codec.http2_frames import ErrorCode, StreamFault
from proxy.codec.http2_headers import (
    read_request_head,
    read_response_head,
    read_trailers,
    request_lines,
    response_lines,
)
from proxy.codec.http2_options import Http2Options
from tests.proxy.codec.http2_pairs import GET, TABLE

OPTIONS = Http2Options(table=TABLE)


def read(*extra, lines=GET, end_stream=True, options=OPTIONS):
    return read_request_head([*lines, *extra], options, end_stream=end_stream)


def without(name: bytes):
    return [line for line in GET if line[0] != name]


def with_value(name: bytes, value: bytes):
    return [(key, value if key == name else old) for key, old in GET]


class TestRequests:
    def test_pseudo_headers_become_attributes_and_host(self):
        head = read((b"accept", b"*/*"), end_stream=False)

        assert (head.method, head.path, head.authority) == (b"GET", b"/", b"a")
        assert head.headers == [(b"host", b"a"), (b"accept", b"*/*")]
        assert (head.content_length, head.end_stream, head.upgrade, head.keep_alive) == (-1, False, b"", True)

    def test_host_stands_in_for_an_authority(self):
        head = read((b"host", b"b"), lines=without(b":authority"))

        assert (head.authority, head.headers) == (b"b", [(b"host", b"b")])

    def test_authority_goes_before_host(self):
        assert read((b"host", b"b")).headers == [(b"host", b"a")]

    def test_crumbs_of_a_cookie_are_one_line_behind_the_others(self):
        head = read((b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2"))

        assert head.headers[1:] == [(b"x", b"y"), (b"cookie", b"a=1; b=2")]

    def test_headers_of_the_table_are_noted_and_joined(self):
        table = HeaderTable({b"x-noted": NOTED_FIRST}, frozenset({b"accept"}))
        head = read((b"x-noted", b"1"), (b"accept", b"a"), (b"accept", b"b"), options=Http2Options(table=table))

        assert head.headers[1:] == [(b"x-noted", b"1"), (b"accept", b"a,b")]
        assert head.marks & NOTED_FIRST

    def test_expectation_is_taken_out(self):
        head = read((b"expect", b"100-Continue"), end_stream=False)

        assert (head.expects_continue, head.headers) == (True, [(b"host", b"a")])

    def test_connect_has_an_authority_only(self):
        head = read(lines=[(b":method", b"CONNECT"), (b":authority", b"a:1")], end_stream=False)

        assert (head.method, head.path, head.authority) == (b"CONNECT", b"", b"a:1")

    def test_options_may_ask_about_the_server(self):
        assert read(lines=[(b":method", b"OPTIONS"), *with_value(b":path", b"*")[1:]]).path == b"*"

    def test_te_trailers_goes_through(self):
        assert read((b"te", b"trailers")).headers[1:] == [(b"te", b"trailers")]

    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param(without(b":method"), id="no method"),
            pytest.param(without(b":scheme"), id="no scheme"),
            pytest.param(without(b":path"), id="no path"),
            pytest.param(without(b":authority"), id="no authority"),
            pytest.param(with_value(b":authority", b""), id="empty authority"),
            pytest.param(with_value(b":authority", b"a b"), id="blank in the authority"),
            pytest.param(with_value(b":path", b""), id="empty path"),
            pytest.param(with_value(b":path", b"*"), id="star, not of OPTIONS"),
            pytest.param(with_value(b":path", b"/a b"), id="blank in the path"),
            pytest.param(with_value(b":path", b"http://a/"), id="URI for a path"),
            pytest.param(with_value(b":method", b"G T"), id="blank in the method"),
            pytest.param([*GET, (b":path", b"/")], id="path twice"),
            pytest.param([*GET, (b":status", b"200")], id="status"),
            pytest.param([*GET, (b":protocol", b"websocket")], id="extended CONNECT, which was not offered"),
            pytest.param([(b"x", b"y"), *GET], id="pseudo-headers behind others"),
            pytest.param([*GET, (b"Name", b"x")], id="upper case"),
            pytest.param([*GET, (b"na me", b"x")], id="blank in a name"),
            pytest.param([*GET, (b"na\xffme", b"x")], id="name beyond ASCII"),
            pytest.param([*GET, (b"x", b"a\r\nb: c")], id="line break in a value"),
            pytest.param([*GET, (b"x", b"\0")], id="NUL in a value"),
            pytest.param([*GET, (b"connection", b"x")], id="connection"),
            pytest.param([*GET, (b"transfer-encoding", b"chunked")], id="transfer-encoding"),
            pytest.param([*GET, (b"upgrade", b"websocket")], id="upgrade"),
            pytest.param([*GET, (b"te", b"gzip")], id="te"),
            pytest.param([*GET, (b"content-length", b"-1")], id="negative length"),
            pytest.param([*GET, (b"content-length", b"1e3")], id="length that is no number"),
            pytest.param([*GET, (b"content-length", b"0"), (b"content-length", b"0")], id="two lengths"),
            pytest.param([*GET, (b"content-length", b"1")], id="length without a body"),
        ],
    )
    def test_malformed_is_a_stream_error(self, lines):
        with pytest.raises(StreamFault) as caught:
            read(lines=lines)

        assert caught.value.error_code == ErrorCode.PROTOCOL_ERROR

    def test_fragment_is_refused_with_a_reply(self):
        with pytest.raises(ProtocolError) as caught:
            read(lines=with_value(b":path", b"/a#b"))

        assert (caught.value.status, caught.value.details) == (400, "path_normalization_failed")


class TestResponses:
    def test_status_and_lines(self):
        head = read_response_head(
            [(b":status", b"201"), (b"content-length", b"3")], OPTIONS, end_stream=False, head_request=False
        )

        assert (head.status, head.headers, head.content_length) == (201, [(b"content-length", b"3")], 3)

    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param([], id="nothing"),
            pytest.param([(b"x", b"y")], id="no status"),
            pytest.param([(b":status", b"abc")], id="no number"),
            pytest.param([(b":status", b"099")], id="too small"),
            pytest.param([(b":status", b"1000")], id="too large"),
            pytest.param([(b":status", b"101")], id="101"),
            pytest.param([(b":status", b"100")], id="interim that ends the stream"),
            pytest.param([(b":status", b"200"), (b":status", b"200")], id="twice"),
            pytest.param([(b":status", b"200"), (b"connection", b"close")], id="connection"),
            pytest.param([(b":status", b"200"), (b"content-length", b"3")], id="length without a body"),
        ],
    )
    def test_malformed_is_a_stream_error(self, lines):
        with pytest.raises(StreamFault):
            read_response_head(lines, OPTIONS, end_stream=True, head_request=False)

    @pytest.mark.parametrize("head_request", [False, True])
    @pytest.mark.parametrize(("status", "end_stream"), [(b"103", False), (b"204", False), (b"204", True)])
    def test_length_where_no_body_may_be(self, status, end_stream, head_request):
        """A client of HTTP/1.1 would take the next head for it; a length of 0 is only removed."""

        def read_status(*lines):
            lines = [(b":status", status), (b"a", b"b"), *lines]
            return read_response_head(lines, OPTIONS, end_stream=end_stream, head_request=head_request)

        with pytest.raises(StreamFault):
            read_status((b"content-length", b"1"))
        head = read_status((b"content-length", b"0"))
        assert (head.headers, head.content_length) == ([(b"a", b"b")], -1)

    @pytest.mark.parametrize(("status", "head_request"), [(b"304", False), (b"200", True)])
    def test_length_of_a_body_that_is_not_sent_is_kept(self, status, head_request):
        lines = [(b":status", status), (b"content-length", b"3")]
        head = read_response_head(lines, OPTIONS, end_stream=True, head_request=head_request)

        assert head.content_length == 3


class TestTrailers:
    def test_what_means_something_to_the_codec_is_dropped(self):
        assert read_trailers([(b"grpc-status", b"0"), (b"content-length", b"3")], OPTIONS) == [(b"grpc-status", b"0")]

    @pytest.mark.parametrize("name", [b":path", b"Name", b"transfer-encoding"])
    def test_malformed_is_a_stream_error(self, name):
        with pytest.raises(StreamFault):
            read_trailers([(name, b"x")], OPTIONS)


tokens = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=12).map(str.encode)
values = st.binary(max_size=20).map(lambda value: bytes(c for c in value if c >= 32 and c != 127))
headers = st.lists(st.tuples(tokens.map(lambda name: b"x-" + name), values), max_size=8)


@given(st.sampled_from([b"GET", b"POST", b"MKCOL"]), tokens, headers)
def test_request_heads_survive_the_way_there_and_back(method, path, lines):
    sent = [(b"host", b"a:80"), *lines]
    head = read(lines=[(b":method", method), (b":scheme", b"http"), (b":authority", b"a:80"), (b":path", b"/" + path)])
    head.headers[1:] = lines
    again = read(lines=request_lines(head, head.headers, b"http"))

    assert (again.method, again.path, again.authority, again.headers) == (method, b"/" + path, b"a:80", sent)


@given(st.integers(200, 999), headers)
def test_response_heads_survive_the_way_there_and_back(status, lines):
    head = read_response_head(response_lines(status, lines), OPTIONS, end_stream=True, head_request=False)

    assert (head.status, head.headers) == (status, lines)
