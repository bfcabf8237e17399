"""An HTTP/2 session without sockets: messages, cuts, windows; how streams end is `test_http2_session_ends`."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.codec.http2_events import (
    PingAck,
    SessionError,
    SettingsReceived,
    StreamData,
    StreamEnd,
    StreamFlushed,
    StreamHead,
    StreamReset,
    StreamWritable,
)
from proxy.codec.http2_frames import ErrorCode
from tests.proxy.codec.http2_pairs import GET, OK, POST, Pair, frame, frames, server_fed, session

HEADERS, GOAWAY, WINDOW_UPDATE = 1, 7, 8


def bodies(events):
    """Return the body of each stream, joined."""
    found: dict[int, bytes] = {}
    for event in events:
        if isinstance(event, StreamData):
            found[event.stream_id] = found.get(event.stream_id, b"") + event.data
    return found


def shown(events):
    """Return events in a form that compares, heads by what they say."""
    result = []
    for event in events:
        if isinstance(event, StreamHead):
            result.append((event.stream_id, vars(event.head)))
        else:
            result.append(event)
    return result


def test_a_server_greets_with_envoys_settings():
    """Recorded from Envoy 1.40: table 4096, no CONNECT protocol, 1024 streams, 16 MiB a stream, 24 MiB in all."""
    server = session()
    server.start()

    assert frames(server.take_output()) == [
        (4, 0, 0, bytes.fromhex("000100001000000800000000000300000400000401000000")),
        (8, 0, 0, (24 * 1024 * 1024 - 65_535).to_bytes(4, "big")),
    ]


class TestMessages:
    def test_request_and_response_pass_with_bodies_and_trailers(self):
        pair = Pair()
        stream_id = pair.open([*POST, (b"x", b"y")])
        pair.client.send_data(stream_id, b"question")
        pair.client.send_end(stream_id, [(b"checksum", b"1")])
        pair.exchange()
        pair.server.send_headers(stream_id, [(b":status", b"103"), (b"link", b"l")], end_stream=False)
        pair.server.send_headers(stream_id, [*OK, (b"a", b"b")], end_stream=False)
        pair.server.send_data(stream_id, b"answer")
        pair.server.send_end(stream_id, [(b"grpc-status", b"0")])
        pair.exchange()

        head, data, end = pair.server_events
        assert (head.head.method, head.head.path, head.head.headers) == (b"POST", b"/", [(b"host", b"a"), (b"x", b"y")])
        assert (data, end) == (StreamData(1, b"question"), StreamEnd(1, [(b"checksum", b"1")]))
        interim, head, data, end = pair.client_events
        assert (interim.head.status, interim.head.headers) == (103, [(b"link", b"l")])
        assert (head.head.status, head.head.headers, head.head.end_stream) == (200, [(b"a", b"b")], False)
        assert (data, end) == (StreamData(1, b"answer"), StreamEnd(1, [(b"grpc-status", b"0")]))
        assert pair.client_stats.streams_active == pair.server_stats.streams_active == 0
        assert pair.server_stats.trailers == 1

    def test_head_that_is_all_ends_its_side(self):
        pair = Pair()
        stream_id = pair.open(end_stream=True)
        pair.server.send_headers(stream_id, OK, end_stream=True)
        pair.exchange()

        assert pair.server_events[0].head.end_stream
        assert pair.client_events[0].head.end_stream
        assert pair.client_stats.streams_active == pair.server_stats.streams_active == 0

    def test_last_piece_and_the_end_are_one_frame(self):
        server, _ = server_fed(frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a"))
        server.send_headers(1, OK, end_stream=False)
        server.send_data(1, b"body")
        server.send_end(1, [])

        assert [(kind, flags) for kind, flags, _, _ in frames(server.take_output())] == [(1, 4), (0, 1)]

    def test_end_behind_a_piece_that_is_written_is_a_frame_of_its_own(self):
        server, _ = server_fed(frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a"))
        server.send_headers(1, OK, end_stream=False)
        server.send_data(1, b"body")
        server.take_output()
        server.send_end(1, [])

        assert frames(server.take_output()) == [(0, 1, 1, b"")]

    def test_long_heads_go_over_several_frames(self):
        lines = [*GET, *((b"h%d" % index, b"%d" % index * 2_000) for index in range(20, 30))]
        pair = Pair()
        pair.open(lines, end_stream=True)

        assert pair.server_events[0].head.headers[1:] == lines[4:]

    def test_server_that_answers_early_resets_without_error(self):
        pair = Pair()
        stream_id = pair.open(POST)
        pair.server.send_headers(stream_id, OK, end_stream=True)
        pair.exchange()

        assert pair.client_events[1:] == [StreamReset(1, ErrorCode.NO_ERROR, remote=True)]
        assert pair.server_stats.streams_active == 0

    def test_content_length_of_a_head_response_promises_nothing(self):
        pair = Pair()
        stream_id = pair.open([(b":method", b"HEAD"), *GET[1:]], end_stream=True)
        pair.server.send_headers(stream_id, [*OK, (b"content-length", b"5")], end_stream=True)
        pair.exchange()

        assert pair.client_events[0].head.content_length == 5
        assert not any(isinstance(event, StreamReset) for event in pair.client_events)

    @pytest.mark.parametrize(("length", "whole"), [(b"3", False), (b"4", True), (b"5", False)])
    def test_body_is_as_long_as_it_says(self, length, whole):
        pair = Pair()
        stream_id = pair.open([*POST, (b"content-length", length)])
        pair.client.send_data(stream_id, b"body")
        pair.client.send_end(stream_id, [])
        pair.exchange()

        last = StreamEnd(1, []) if whole else StreamReset(1, ErrorCode.PROTOCOL_ERROR, remote=False)
        assert pair.server_events[-1] == last
        assert pair.server_stats.rx_messaging_error == (0 if whole else 1)

    @pytest.mark.parametrize(("size", "taken"), [(28, True), (29, False)])
    def test_interim_heads_are_together_no_longer_than_a_head(self, size, taken):
        """No window holds them back, and a client need not read them."""
        pair = Pair(max_head_bytes=100)
        stream_id = pair.open(end_stream=True)
        for length in (28, size):  # with what is around it, 50 bytes, and as many or one more
            pair.server.send_headers(stream_id, [(b":status", b"103"), (b"link", b"l" * length)], end_stream=False)
        pair.server.send_headers(stream_id, OK, end_stream=True)
        pair.exchange()

        statuses = [event.head.status for event in pair.client_events if isinstance(event, StreamHead)]
        assert statuses == ([103, 103, 200] if taken else [103])
        assert (StreamReset(1, ErrorCode.PROTOCOL_ERROR, remote=False) in pair.client_events) is not taken
        assert pair.client_stats.header_overflow == int(not taken)

    def test_pings_are_answered(self):
        pair = Pair()
        pair.client.ping(b"12345678")
        pair.exchange()

        assert pair.client_events == [PingAck(b"12345678")]


@settings(deadline=None, max_examples=50)
@given(cuts=st.lists(st.integers(0, 2_000), max_size=12), sizes=st.lists(st.integers(0, 300), max_size=4))
def test_however_the_bytes_are_cut_the_events_are_the_same(cuts, sizes):
    client = session(client=True)
    client.start()
    for size in sizes:
        stream_id = client.open_stream()
        client.send_headers(stream_id, [*POST, (b"x-size", b"%d" % size)], end_stream=False)
        if size:
            client.send_data(stream_id, b"d" * size)
        client.send_end(stream_id, [(b"sum", b"1")] if size % 2 else [])
    client.ping(b"12345678")
    client.go_away()
    data = client.take_output()
    whole = session()
    in_pieces = session()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    events = [event for start, end in itertools.pairwise(edges) for event in in_pieces.feed(data[start:end])]

    assert shown(events) == shown(whole.feed(data))
    assert in_pieces.take_output() == whole.take_output()


@given(st.binary(max_size=200))
def test_garbage_is_an_error_or_nothing(data):
    server, events = server_fed(data)

    errors = [event for event in events if isinstance(event, SessionError)]
    assert len(errors) <= 1
    assert server.closed is bool(errors)
    if errors:
        assert events[-1] is errors[0]
        assert frames(server.take_output())[-1][0] == GOAWAY
        assert server.feed(b"more") == []


class TestFlowControl:
    def test_what_the_window_does_not_allow_waits(self):
        pair = Pair(stream_window_bytes=10)
        stream_id = pair.open(POST)
        pair.client.send_data(stream_id, b"x" * 25)
        pair.exchange()
        assert bodies(pair.server_events) == {1: b"x" * 10}
        assert pair.client_stats.pending_send_bytes == 15

        pair.client.send_end(stream_id, [(b"t", b"1")])
        for _ in range(3):
            pair.server.consume(stream_id, 10)
            pair.exchange()

        assert bodies(pair.server_events) == {1: b"x" * 25}
        assert pair.server_events[-1] == StreamEnd(1, [(b"t", b"1")])
        assert pair.client_events == [StreamFlushed(1)]
        assert pair.client_stats.pending_send_bytes == 0

    def test_nothing_is_acknowledged_that_was_not_consumed(self):
        pair = Pair(stream_window_bytes=10)
        stream_id = pair.open(POST)
        pair.client.send_data(stream_id, b"x" * 25)
        pair.exchange()
        pair.server.consume(stream_id, 4)  # less than half the window
        pair.exchange()
        assert len(bodies(pair.server_events)[1]) == 10
        pair.server.consume(stream_id, 1)
        pair.exchange()

        assert len(bodies(pair.server_events)[1]) == 15

    @pytest.mark.parametrize(("size", "more"), [(110, True), (111, False)])
    def test_sender_is_stopped_above_the_mark_and_told_when_to_go_on(self, size, more):
        pair = Pair(stream_window_bytes=10, high_water_bytes=100)
        stream_id = pair.open(POST)

        assert pair.client.send_data(stream_id, b"x" * size) is more
        while len(bodies(pair.server_events).get(1, b"")) < size:
            pair.exchange()
            pair.server.consume(stream_id, 10)
        pair.exchange()
        assert pair.client_events == ([] if more else [StreamWritable(1)])

    def test_connections_window_is_shared_in_turns(self):
        pair = Pair(stream_window_bytes=100_000, connection_window_bytes=65_535)
        first, second = pair.open(POST), pair.open(POST)
        pair.client.send_data(first, b"1" * 90_000)
        pair.client.send_data(second, b"2" * 90_000)
        pair.exchange()
        assert bodies(pair.server_events) == {1: b"1" * 65_535}

        pair.server.consume(first, 65_535)
        pair.exchange()

        received = bodies(pair.server_events)
        assert len(received[1]) == 90_000
        assert len(received[3]) == 65_535 - (90_000 - 65_535)

    def test_what_a_wider_window_allows_goes_behind_the_acknowledgement(self):
        """RFC 9113, 6.5.3: the peer counts by the window that was acknowledged; grpcio resets the stream otherwise."""
        server, _ = server_fed(frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a"))
        server.send_headers(1, OK, end_stream=False)
        server.send_data(1, b"x" * 65_535)
        server.send_data(1, b"more")
        server.take_output()
        server.feed(frame(WINDOW_UPDATE, 0, 0, (100).to_bytes(4, "big")))
        server.feed(frame(4, 0, 0, (4).to_bytes(2, "big") + (70_000).to_bytes(4, "big")))

        assert frames(server.take_output()) == [(4, 1, 0, b""), (0, 0, 1, b"more")]

    def test_last_window_of_a_frame_is_the_one(self):
        """One look at the streams for all of them; a first one that overflows a stream's window is no fault then."""
        server, _ = server_fed(frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a"), frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"))
        events = server.feed(frame(4, 0, 0, bytes.fromhex("00047fffffff000400000002")))
        server.send_headers(1, OK, end_stream=False)
        server.send_data(1, b"body")

        assert events == [SettingsReceived()]
        assert frames(server.take_output())[-1] == (0, 0, 1, b"bod")

    def test_each_window_of_a_frame_has_to_be_one(self):
        _, events = server_fed(frame(4, 0, 0, bytes.fromhex("000480000000000400000002")))

        assert [event.error_code for event in events] == [ErrorCode.FLOW_CONTROL_ERROR]

    def test_smaller_window_makes_debts_of_what_was_sent(self):
        """RFC 9113, 6.9.2: a sender has to track a negative window."""
        server, _ = server_fed(frame(HEADERS, 5, 1, b"\x82\x86\x84\x41\x01a"))
        server.send_headers(1, OK, end_stream=False)
        server.send_data(1, b"x" * 60_000)
        server.feed(frame(4, 0, 0, bytes.fromhex("000400000000")))  # initial window 0: 60,000 in debt
        server.take_output()
        server.send_data(1, b"more")
        server.feed(frame(WINDOW_UPDATE, 0, 1, (60_000).to_bytes(4, "big")))
        assert server.take_output() == b""
        server.feed(frame(WINDOW_UPDATE, 0, 1, (3).to_bytes(4, "big")))

        assert frames(server.take_output()) == [(0, 0, 1, b"mor")]

    @pytest.mark.parametrize(("size", "error"), [(65_535, None), (65_536, ErrorCode.FLOW_CONTROL_ERROR)])
    def test_peer_above_the_connections_window_is_an_error(self, size, error):
        whole, rest = divmod(size, 16_384)
        data = [frame(0, 0, 1, bytes(16_384))] * whole + ([frame(0, 0, 1, bytes(rest))] if rest else [])
        _, events = server_fed(frame(HEADERS, 4, 1, b"\x83\x86\x84\x41\x01a"), *data, connection_window_bytes=65_535)

        found = [event.error_code for event in events if isinstance(event, SessionError)]
        assert found == ([] if error is None else [error])

    def test_peer_above_a_streams_window_is_an_error_of_the_stream(self):
        _, events = server_fed(
            frame(HEADERS, 4, 1, b"\x83\x86\x84\x41\x01a"), frame(0, 0, 1, bytes(11)), stream_window_bytes=10
        )

        assert events[-1] == StreamReset(1, ErrorCode.FLOW_CONTROL_ERROR, remote=False)

    def test_what_a_reset_stream_held_is_given_back_to_the_connection(self):
        pair = Pair(stream_window_bytes=65_535, connection_window_bytes=65_535)
        first = pair.open(POST)
        pair.client.send_data(first, b"1" * 65_535)
        pair.exchange()
        pair.client.reset_stream(first, ErrorCode.CANCEL)
        second = pair.open(POST)
        pair.client.send_data(second, b"2" * 10)
        pair.exchange()

        assert bodies(pair.server_events)[second] == b"2" * 10

    def test_padding_is_acknowledged_by_itself(self):
        server, events = server_fed(
            frame(HEADERS, 4, 1, b"\x83\x86\x84\x41\x01a"), frame(0, 8, 1, b"\x05x\0\0\0\0\0"), stream_window_bytes=12
        )

        assert events[-1] == StreamData(1, b"x")
        assert (WINDOW_UPDATE, 0, 1, (6).to_bytes(4, "big")) in frames(server.take_output())

    @settings(deadline=None, max_examples=30)
    @given(
        st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(1, 20_000)), max_size=8), st.integers(500, 30_000)
    )
    def test_every_byte_arrives_once_and_in_order(self, pieces, window):
        pair = Pair(stream_window_bytes=window, connection_window_bytes=65_535)
        for _ in range(3):
            pair.open(POST)
        expected: dict[int, bytes] = {}
        for number, (stream_id, size) in enumerate(pieces):
            data = bytes([number]) * size
            expected[stream_id] = expected.get(stream_id, b"") + data
            pair.client.send_data(stream_id, data)
        for stream_id in (1, 3, 5):
            pair.client.send_end(stream_id, [])
        seen = 0
        pair.exchange()
        while seen < len(pair.server_events):
            event = pair.server_events[seen]
            seen += 1
            if isinstance(event, StreamData):
                pair.server.consume(event.stream_id, len(event.data))
                pair.exchange()

        assert bodies(pair.server_events) == expected
        assert sum(isinstance(event, StreamEnd) for event in pair.server_events) == 3
        assert pair.client_stats.pending_send_bytes == 0
