"""Floods of cheap frames, and blocks that swell: each ends the connection where Envoy ends it."""

import pytest
from hpack import Encoder

from proxy.codec.http2_events import SessionError, StreamHead, StreamRefused
from proxy.codec.http2_frames import ErrorCode
from proxy.codec.http2_options import Http2Stats
from tests.proxy.codec.http2_pairs import GET, frame, frames, server_fed

GET_BLOCK = b"\x82\x86\x84\x41\x01a"
POST_BLOCK = b"\x83\x86\x84\x41\x01a"
OPEN = frame(1, 4, 1, POST_BLOCK)
PING = frame(6, 0, 0, b"12345678")
SETTINGS = frame(4, 0, 0)
PRIORITY = frame(2, 0, 1, bytes(5))
WINDOW_UPDATE = frame(8, 0, 0, b"\0\0\0\1")
EMPTY_DATA = frame(0, 0, 1)


def calm(events) -> bool:
    """Whether the session told the peer to calm down; nothing else may have gone wrong."""
    errors = [event.error_code for event in events if isinstance(event, SessionError)]
    assert errors in ([], [ErrorCode.ENHANCE_YOUR_CALM])
    return bool(errors)


@pytest.mark.parametrize(
    ("unit", "allowed", "before", "counter"),
    [
        pytest.param(PING, 1_000, b"", "outbound_control_flood", id="pings"),
        pytest.param(SETTINGS, 1_000, b"", "outbound_control_flood", id="settings"),
        pytest.param(EMPTY_DATA, 1, OPEN, "inbound_empty_frames_flood", id="empty data"),
        pytest.param(frame(9, 0, 1), 1, frame(1, 0, 1, POST_BLOCK), "inbound_empty_frames_flood", id="empty blocks"),
        pytest.param(PRIORITY, 100, b"", "inbound_priority_frames_flood", id="priorities"),
        pytest.param(PRIORITY, 200, OPEN, "inbound_priority_frames_flood", id="priorities, one stream"),
        pytest.param(WINDOW_UPDATE, 5, b"", "inbound_window_update_frames_flood", id="window updates"),
        pytest.param(WINDOW_UPDATE, 7, OPEN, "inbound_window_update_frames_flood", id="window updates, one stream"),
    ],
)
def test_flood_ends_the_connection_above_envoys_limit(unit, allowed, before, counter):
    stats = Http2Stats()
    server, _ = server_fed(before, stats=stats)
    if counter == "outbound_control_flood":
        server.on_written()

    assert not calm(server.feed(unit * allowed))
    assert getattr(stats, counter) == 0
    assert calm(server.feed(unit))
    assert getattr(stats, counter) == 1
    assert server.feed(unit * 1_000) == []


def test_answers_that_the_peer_reads_are_no_flood():
    server, _ = server_fed()
    for _ in range(20):
        assert not calm(server.feed(PING * 500))
        assert len(frames(server.take_output())) == 500
        server.on_written()


def test_window_updates_for_what_was_sent_are_no_flood():
    server, _ = server_fed(frame(1, 5, 1, GET_BLOCK))
    server.send_headers(1, [(b":status", b"200")], end_stream=False)
    server.send_data(1, b"x")

    assert not calm(server.feed(WINDOW_UPDATE * 27))  # 5 + 2 * (one stream + 10 for a piece of data)
    assert calm(server.feed(WINDOW_UPDATE))


@pytest.mark.parametrize(("count", "flood"), [(9_999, False), (10_000, True)])
def test_windows_opened_byte_by_byte_end_the_connection(count, flood):
    """The head of the response is one frame, each byte another one."""
    stats = Http2Stats()
    server, _ = server_fed(frame(4, 0, 0, bytes.fromhex("000400000000")), frame(1, 5, 1, GET_BLOCK), stats=stats)
    server.on_written()
    server.send_headers(1, [(b":status", b"200")], end_stream=False)
    server.send_data(1, bytes(20_000))

    assert calm(server.feed(frame(8, 0, 1, b"\0\0\0\1") * count)) is flood
    assert stats.outbound_flood == int(flood)


def test_body_that_its_owner_sends_is_no_flood():
    """The owner stops when the socket is full; that it is never seen empty means only that the peer reads slowly."""
    server, _ = server_fed(frame(1, 5, 1, GET_BLOCK))
    server.send_headers(1, [(b":status", b"200")], end_stream=False)
    for _ in range(10_001):
        server.send_data(1, b"x")

    assert not calm(server.feed(PRIORITY))


def test_small_pieces_that_waited_go_out_in_full_frames():
    server, _ = server_fed(frame(4, 0, 0, bytes.fromhex("000400000000")), frame(1, 5, 1, GET_BLOCK))
    server.send_headers(1, [(b":status", b"200")], end_stream=False)
    sent = b"".join(b"%20d" % number for number in range(13_107))
    for start in range(0, len(sent), 20):
        server.send_data(1, sent[start : start + 20])
    server.take_output()

    assert not calm(server.feed(frame(8, 0, 1, b"\0\x10\0\0")))
    payloads = [payload for _, _, _, payload in frames(server.take_output())]
    assert [len(payload) for payload in payloads] == [16_384, 16_384, 16_384, 16_383]
    assert b"".join(payloads) == sent[:65_535]


@pytest.mark.parametrize(("count", "flood"), [(32, False), (33, True)])
def test_settings_of_one_frame_are_so_many(count, flood):
    _, events = server_fed(frame(4, 0, 0, bytes.fromhex("000400000001") * count))

    assert calm(events) is flood


@pytest.mark.parametrize(("count", "flood"), [(8, False), (9, True)])
def test_block_goes_over_so_many_frames(count, flood):
    """nghttp2's limit, and Envoy's with it."""
    pieces = [frame(9, 4 if index == count else 0, 1, b"\x00\x01a\x01b") for index in range(1, count + 1)]
    _, events = server_fed(frame(1, 1, 1, b"\x82\x86\x84\x41\x01a"), *pieces)

    assert calm(events) is flood
    assert len(events) == 1


def test_endless_block_ends_within_its_frames():
    server, events = server_fed(frame(1, 1, 1, POST_BLOCK))
    sent = 0
    while not events:
        events = server.feed(frame(9, 0, 1, b"\x00" * 16_384))
        sent += 1

    assert calm(events)
    assert sent == 9


def test_bomb_of_indexed_lines_ends_the_connection_early():
    """One byte stands for a line of 4,000: 16,000 of them would be 64 MB."""
    encoder = Encoder()
    first = encoder.encode([*GET, (b"b", b"v" * 3_900)])
    stats = Http2Stats()
    server, events = server_fed(frame(1, 5, 1, first), stats=stats)
    assert [type(event) for event in events] == [StreamHead]

    assert calm(server.feed(frame(1, 5, 3, b"\xbe" * 16_000)))


@pytest.mark.parametrize(("count", "refused"), [(96, False), (97, True)])
def test_head_of_too_many_lines_is_refused_and_the_connection_goes_on(count, refused):
    """Envoy counts pseudo-headers too."""
    stats = Http2Stats()
    block = Encoder().encode([*GET, *((b"h%d" % index, b"v") for index in range(count))])
    server, events = server_fed(frame(1, 5, 1, block), stats=stats)

    assert [type(event) for event in events] == [StreamRefused if refused else StreamHead]
    assert stats.header_overflow == int(refused)
    assert not calm(server.feed(PING))


@pytest.mark.parametrize(("extra", "refused"), [(0, False), (1, True)])
def test_head_of_too_many_bytes_is_refused_and_the_connection_goes_on(extra, refused):
    size = sum(len(name) + len(value) + 4 for name, value in GET)
    lines = [*GET]
    while size < 60 * 1024:
        value = b"v" * min(10_000, 60 * 1024 - size - 5)
        lines.append((b"h", value))
        size += 1 + len(value) + 4
    lines[-1] = (b"h", lines[-1][1] + b"v" * extra)
    block = Encoder().encode(lines)
    pieces = [block[start : start + 16_384] for start in range(0, len(block), 16_384)]
    data = [frame(1, 1, 1, pieces[0])]
    data += [frame(9, 4 if piece is pieces[-1] else 0, 1, piece) for piece in pieces[1:]]
    server, events = server_fed(*data)

    assert [type(event) for event in events] == [StreamRefused if refused else StreamHead]
    assert not calm(server.feed(PING))
