"""HTTP/2 connections: valid frames in a sensible order, and what mutation makes of them."""

import random
import struct
from collections.abc import Callable

from hpack import Encoder

from proxy.codec.http2_frames import PREFACE
from tests.fuzz.http1_grammar import mutated
from tests.proxy.codec.http2_pairs import frame

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITISED = 1, 4, 8, 32
LINES = (
    *[(b"x-a", b"1"), (b"accept", b"*/*"), (b"cookie", b"a=b"), (b"cookie", b"c=d")] * 2,
    *((b"te", b"trailers"), (b"te", b"gzip"), (b"connection", b"close"), (b"upgrade", b"websocket"), (b"X-A", b"1")),
    *((b"content-length", b"5"), (b"content-length", b"x"), (b"transfer-encoding", b"chunked"), (b"host", b"b")),
    *((b"x a", b"1"), (b"x-b", b"a\r\nb"), (b"x-c", b" a "), (b"", b"1"), (b":path", b"/late"), (b"x-d", b"d" * 2_000)),
    *(
        (b"content-type", b"application/grpc"),
        (b"grpc-timeout", b"1S"),
        (b"expect", b"100-continue"),
        (b"x-e", b"\x00"),
    ),
    *(
        (b"grpc-status", b"14"),
        (b"x-envoy-ratelimited", b"true"),
        (b":status", b"200"),
        (b"proxy-connection", b"close"),
    ),
)
TOKENS = (
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",  # empty settings
    b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",  # a reset of stream 1
    b"\x00\x00\x08\x06\x00\x00\x00\x00\x00pingpong",
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff",  # a window too large
    b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00",  # goaway
    *(b"\xff", b"\x00", b"\x80", b"\x3f\xe1\x1f", b"\x20"),  # sizes of the header table, the last one 0
)


class Speaker:
    """One side of a connection that says something."""

    def __init__(self, chance: random.Random, head: Callable[[random.Random], list[tuple[bytes, bytes]]]) -> None:
        self._chance = chance
        self._head = head
        self._encoder = Encoder()
        self.streams: list[int] = []

    def headers(self, stream_id: int, lines: list[tuple[bytes, bytes]], *, end_stream: bool) -> bytes:
        chance = self._chance
        block = self._encoder.encode(lines, huffman=chance.random() < 0.5)
        flags, before, behind = END_STREAM * end_stream, b"", b""
        if chance.random() < 0.1:
            flags, before, behind = flags | PADDED, b"\x03", b"\x00" * 3
        if chance.random() < 0.1:
            flags, before = flags | PRIORITISED, before + b"\x00\x00\x00\x00\x10"
        if chance.random() < 0.15 and len(block) > 1:
            at = chance.randrange(1, len(block))
            first = frame(HEADERS, flags, stream_id, before + block[:at] + behind)
            return first + frame(CONTINUATION, END_HEADERS, stream_id, block[at:])
        return frame(HEADERS, flags | END_HEADERS, stream_id, before + block + behind)

    def message(self, stream_id: int) -> bytes:
        """Return a head, maybe a body, maybe trailers."""
        chance = self._chance
        lines = self._head(chance) + chance.choices(LINES, k=chance.choice((0, 0, 0, 0, 1, 2)))
        if chance.random() < 0.05:
            chance.shuffle(lines)
        if chance.random() < 0.4:
            return self.headers(stream_id, lines, end_stream=True)
        frames = [self.headers(stream_id, lines, end_stream=False)]
        sizes = chance.choices((0, 1, 5, 1_000, 16_384), k=chance.choice((0, 1, 1, 3)))
        frames += (frame(DATA, 0, stream_id, bytes(size)) for size in sizes)
        ending = chance.random()
        if ending < 0.6:
            frames.append(frame(DATA, END_STREAM, stream_id, b"hello"))
        elif ending < 0.8:
            frames.append(self.headers(stream_id, [(b"x-sum", b"1")], end_stream=True))
        elif ending < 0.9:
            frames.append(frame(RST_STREAM, 0, stream_id, struct.pack(">L", chance.randrange(15))))
        return b"".join(frames)

    def other(self) -> bytes:
        """Return a frame that belongs to no message, or to one that is over."""
        chance = self._chance
        stream_id = chance.choice((0, 0, 1, 2, 3, 5, 99, *self.streams))
        match chance.randrange(9):
            case 0:
                values = chance.choices((0, 1, 100, 65_535, 1 << 20, 1 << 31), k=2)
                pairs = (struct.pack(">HL", chance.randrange(1, 9), value) for value in values)
                return frame(SETTINGS, 0, 0, b"".join(pairs))
            case 1:
                return frame(SETTINGS, 1, 0)
            case 2:
                return frame(PING, chance.randrange(2), 0, bytes(8))
            case 3:
                increment = chance.choice((0, 1, 65_535, (1 << 31) - 1))
                return frame(WINDOW_UPDATE, 0, stream_id, struct.pack(">L", increment))
            case 4:
                return frame(GOAWAY, 0, 0, struct.pack(">LL", chance.choice((0, 1, (1 << 31) - 1)), 0))
            case 5:
                return frame(PRIORITY, 0, stream_id, bytes(5))
            case 6:
                return frame(RST_STREAM, 0, stream_id, bytes(4))
            case 7:
                return frame(chance.randrange(10, 256), chance.randrange(256), stream_id, b"unknown")
            case _:
                return frame(PUSH_PROMISE, END_HEADERS, stream_id, struct.pack(">L", 2) + b"\x82")


def client_bytes(chance: random.Random) -> bytes:
    """Return what a client of HTTP/2 sends, from its preface on; maybe mutated behind that."""
    speaker = Speaker(chance, _request_head)
    parts = [frame(SETTINGS, 0, 0)]
    stream_id = 1
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        if chance.random() < 0.35:
            parts.append(speaker.other())
        parts.append(speaker.message(stream_id))
        speaker.streams.append(stream_id)
        stream_id += chance.choice((2, 2, 2, 4, 0))
    preface = PREFACE if chance.random() < 0.97 else mutated(PREFACE, chance)
    return preface + mutated(b"".join(parts), chance, TOKENS)


def server_bytes(chance: random.Random) -> bytes:
    """Return what a host of HTTP/2 sends in answer to requests on the streams 1, 3 and 5; maybe mutated."""
    speaker = Speaker(chance, _response_head)
    parts = [frame(SETTINGS, 0, 0)]
    for stream_id in chance.sample((1, 3, 5), k=3):
        if chance.random() < 0.35:
            parts.append(speaker.other())
        if chance.random() < 0.1:
            parts.append(speaker.headers(stream_id, [(b":status", b"103")], end_stream=False))
        parts.append(speaker.message(stream_id))
        speaker.streams.append(stream_id)
    return mutated(b"".join(parts), chance, TOKENS)


def _request_head(chance: random.Random) -> list[tuple[bytes, bytes]]:
    method = chance.choice((b"GET", b"GET", b"POST", b"HEAD", b"CONNECT", b"get"))
    path = chance.choice((b"*", b"", b"a")) if chance.random() < 0.05 else b"/%d" % chance.randrange(1_000)
    return [(b":method", method), (b":scheme", b"http"), (b":authority", b"a"), (b":path", path)]


def _response_head(chance: random.Random) -> list[tuple[bytes, bytes]]:
    return [(b":status", chance.choice((b"200", b"200", b"204", b"304", b"503", b"101", b"99", b"1000", b"2x0")))]
