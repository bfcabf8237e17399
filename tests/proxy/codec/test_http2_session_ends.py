"""An HTTP/2 session without sockets: streams that end or may not begin, GOAWAY, what no peer may say."""

import pytest

from proxy.codec.http2_events import GoAway, SessionError, SettingsReceived, StreamHead, StreamReset
from proxy.codec.http2_frames import MAX_STREAM_ID, PREFACE, ErrorCode
from tests.proxy.codec.http2_pairs import GET, OK, POST, Pair, frame, frames, server_fed, session

HEADERS, RST_STREAM, GOAWAY = 1, 3, 7


def heads(events):
    return [(event.stream_id, event.head) for event in events if isinstance(event, StreamHead)]


def test_client_may_open_as_many_streams_as_the_server_allows():
    pair = Pair(max_concurrent_streams=2)
    pair.open()
    assert pair.client.can_open_stream
    stream_id = pair.open()
    assert not pair.client.can_open_stream
    pair.client.reset_stream(stream_id, ErrorCode.CANCEL)

    assert pair.client.can_open_stream


def test_stream_above_the_limit_is_refused_and_the_others_go_on():
    server, events = server_fed(
        *(frame(HEADERS, 4, stream_id, b"\x82\x86\x84\x41\x01a") for stream_id in (1, 3)),
        max_concurrent_streams=1,
    )

    assert len(heads(events)) == 1
    assert frames(server.take_output()) == [(RST_STREAM, 0, 3, (7).to_bytes(4, "big"))]
    assert server.feed(frame(0, 0, 3, b"late")) == []


def test_goaway_leaves_open_streams_alone_and_refuses_later_ones():
    pair = Pair()
    first = pair.open(POST)
    pair.server.go_away()
    pair.exchange()
    assert pair.client_events == [GoAway(ErrorCode.NO_ERROR, 1)]
    assert not pair.client.can_open_stream
    pair.client.send_end(first, [])
    pair.exchange()
    pair.server.send_headers(first, OK, end_stream=True)
    pair.exchange()

    assert heads(pair.client_events)[0][1].status == 200


def test_streams_behind_a_goaway_are_told_to_be_refused():
    pair = Pair()
    stream_id = pair.client.open_stream()
    pair.client.send_headers(stream_id, GET, end_stream=True)
    pair.server.go_away()
    pair.exchange()

    assert pair.client_events == [
        GoAway(ErrorCode.NO_ERROR, 0),
        StreamReset(1, ErrorCode.REFUSED_STREAM, remote=True),
    ]
    assert heads(pair.server_events) == []


def test_notice_takes_streams_that_are_on_their_way():
    pair = Pair()
    pair.server.go_away(last_stream_id=MAX_STREAM_ID)
    stream_id = pair.client.open_stream()
    pair.client.send_headers(stream_id, GET, end_stream=True)
    pair.exchange()

    assert len(heads(pair.server_events)) == 1


def test_later_goaway_does_not_raise_the_last_stream():
    """RFC 9113, 6.8: the peer may have sent what is above it elsewhere."""
    server, _ = server_fed(frame(HEADERS, 4, 1, b"\x83\x86\x84\x41\x01a"))
    server.go_away()
    server.feed(frame(HEADERS, 4, 3, b"\x83\x86\x84\x41\x01a") + frame(6, 0, 1, bytes(8)))

    goaways = [payload for kind, _, _, payload in frames(server.take_output()) if kind == GOAWAY]
    assert goaways == [b"\0\0\0\1\0\0\0\0", b"\0\0\0\1\0\0\0\1"]


def test_what_is_still_sent_to_a_stream_that_was_reset_is_dropped():
    pair = Pair()
    stream_id = pair.open(POST)
    pair.server.reset_stream(stream_id, ErrorCode.CANCEL)
    pair.client.send_data(stream_id, b"on its way")
    pair.client.send_end(stream_id, [(b"t", b"1")])
    pair.exchange()

    assert [type(event) for event in pair.server_events] == [StreamHead]
    assert pair.client_events == [StreamReset(1, ErrorCode.CANCEL, remote=True)]


def test_calls_for_a_stream_that_is_gone_do_nothing():
    pair = Pair()
    stream_id = pair.open(POST)
    pair.client.reset_stream(stream_id, ErrorCode.CANCEL)
    pair.exchange()
    pair.server.send_headers(stream_id, OK, end_stream=False)
    assert pair.server.send_data(stream_id, b"x")
    pair.server.send_end(stream_id, [])
    pair.server.consume(stream_id, 5)
    pair.server.reset_stream(stream_id, ErrorCode.CANCEL)

    assert pair.server.take_output() == b""


def test_closed_session_counts_nothing_as_open():
    pair = Pair(stream_window_bytes=10)
    stream_id = pair.open(POST)
    pair.client.send_data(stream_id, b"x" * 100)
    pair.client.close()

    assert (pair.client_stats.streams_active, pair.client_stats.pending_send_bytes) == (0, 0)


def test_settings_tell_how_many_streams_may_be_open():
    client = session(client=True)
    client.start()
    client.open_stream()
    assert client.can_open_stream

    assert client.feed(frame(4, 0, 0, bytes.fromhex("000300000001"))) == [SettingsReceived()]
    assert not client.can_open_stream
    client.feed(frame(4, 0, 0, bytes.fromhex("000300000002")))
    assert client.can_open_stream


def test_push_from_a_server_ends_the_connection():
    client = session(client=True)
    client.start()

    events = client.feed(frame(4, 0, 0) + frame(5, 4, 1, b"\0\0\0\2\x82"))
    assert events[-1] == SessionError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which nobody may send us")


def test_preface_of_another_protocol_is_an_error():
    server = session()

    assert server.feed(PREFACE[:10]) == []
    assert [type(event) for event in server.feed(b"XXX")] == [SessionError]


@pytest.mark.parametrize(
    ("data", "in_head"),
    [
        (b"", False),
        (frame(1, 4, 1, b"\x82\x86\x84\x41\x01a")[:12], True),
        (frame(1, 0, 1, b"\x82\x86\x84\x41\x01a"), True),
        (frame(1, 4, 1, b"\x83\x86\x84\x41\x01a") + frame(0, 0, 1, b"body")[:11], False),
    ],
    ids=["nothing", "half a frame", "half a block", "half a piece of body"],
)
def test_session_knows_that_a_head_is_not_whole(data, in_head):
    server, _ = server_fed(data)

    assert server.in_head is in_head
