"""What RFC 9113 says that a server must do with what a client may not send: one row for each rule, for any server.

Each probe is frames behind the preface and the client's SETTINGS. The outcome is read from the frames that come back
until the PINGs that follow the probe are answered, or the connection ends.
"""

import asyncio
import struct
from collections.abc import Sequence

import attrs

from proxy.codec.http2_frames import PREFACE, ErrorCode
from tests.proxy.codec.http2_pairs import frame

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS = 4
PADDED = 8
WHOLE = END_STREAM | END_HEADERS

_MARKS = (b"probe..1", b"probe..2")
_WAIT_S = 30.0


def word(value: int) -> bytes:
    return value.to_bytes(4, "big")


def setting(name: int, value: int) -> bytes:
    return struct.pack(">HL", name, value)


def lines(*extra: tuple[bytes, bytes], **pseudo: bytes | None) -> list[tuple[bytes, bytes]]:
    """Return the lines of a request; None leaves a pseudo-header out."""
    wanted = {"method": b"GET", "scheme": b"http", "authority": b"a", "path": b"/"} | pseudo
    return [*((b":" + name.encode(), value) for name, value in wanted.items() if value is not None), *extra]


def block(request: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a header block that needs no table, so that any number of them can be sent in any order."""
    return b"".join(b"\x10" + _text(name) + _text(value) for name, value in request)


def _text(value: bytes) -> bytes:
    assert len(value) < 127
    return bytes([len(value)]) + value


def request(stream_id: int, *extra: tuple[bytes, bytes], flags: int = WHOLE, **pseudo: bytes | None) -> bytes:
    return frame(HEADERS, flags, stream_id, block(lines(*extra, **pseudo)))


def raw_request(stream_id: int, fields: Sequence[tuple[bytes, bytes]], flags: int = WHOLE) -> bytes:
    return frame(HEADERS, flags, stream_id, block(fields))


OPEN = request(1, flags=END_HEADERS, method=b"POST")
BODY = frame(DATA, 0, 1, b"body")
END = frame(DATA, END_STREAM, 1, b"end")


@attrs.frozen
class Outcome:
    """How a server took a probe."""

    goaway: ErrorCode | None = None
    resets: tuple[tuple[int, ErrorCode], ...] = ()
    alive: bool = True

    def __str__(self) -> str:
        parts = [f"{code.name} of the connection" for code in (self.goaway,) if code is not None]
        parts += [f"{code.name} of stream {stream_id}" for stream_id, code in self.resets]
        return ", ".join(parts) or ("accepted" if self.alive else "closed")


@attrs.frozen
class Probe:
    """One rule: `expected` are the outcomes that it allows, `envoy` is what Envoy 1.40 does if none of them."""

    section: str
    rule: str
    frames: bytes
    expected: tuple[Outcome, ...]
    envoy: str = ""
    greeting: bytes = PREFACE + frame(SETTINGS, 0, 0)

    def __str__(self) -> str:
        return f"{self.section} {self.rule}"


def connection(*codes: ErrorCode) -> tuple[Outcome, ...]:
    """A connection error, by one of the codes."""
    return tuple(Outcome(goaway=code, alive=False) for code in codes)


def stream(*codes: ErrorCode, stream_id: int = 1) -> tuple[Outcome, ...]:
    """A stream error, by one of the codes."""
    return tuple(Outcome(resets=((stream_id, code),)) for code in codes)


ACCEPTED = (Outcome(),)
PROTOCOL = connection(ErrorCode.PROTOCOL_ERROR)
SIZE = connection(ErrorCode.FRAME_SIZE_ERROR)
MALFORMED = stream(ErrorCode.PROTOCOL_ERROR)
CLOSED = connection(ErrorCode.STREAM_CLOSED)

PROBES = (
    Probe("3.4", "the first frame is SETTINGS", frame(PING, 0, 0, b"12345678"), PROTOCOL, greeting=PREFACE),
    Probe("3.4", "the first SETTINGS acknowledges nothing", frame(SETTINGS, ACK, 0), PROTOCOL, greeting=PREFACE),
    Probe("4.1", "unknown frames are ignored", frame(0xFA, 0, 0, b"what") + frame(0xFB, 0xFF, 9), ACCEPTED),
    Probe("4.1", "unknown flags are ignored", frame(PING, 0xFE, 0, b"12345678"), ACCEPTED),
    Probe("4.1", "the reserved bit is ignored", frame(PING, 0, 0x80000000, b"12345678"), ACCEPTED),
    Probe("4.2", "DATA above the limit", OPEN + frame(DATA, 0, 1, bytes(16_385)), SIZE),
    Probe("4.2", "HEADERS above the limit", frame(HEADERS, WHOLE, 1, bytes(16_385)), SIZE),
    Probe("4.2", "SETTINGS above the limit", frame(SETTINGS, 0, 0, setting(0xFF, 1) * 2_731), SIZE),
    Probe(
        "4.3", "a block that cannot be read", frame(HEADERS, WHOLE, 1, b"\xff"), connection(ErrorCode.COMPRESSION_ERROR)
    ),
    Probe("4.3", "an index of nothing", frame(HEADERS, WHOLE, 1, b"\xfe"), connection(ErrorCode.COMPRESSION_ERROR)),
    Probe(
        "4.3",
        "a table above what was allowed",
        frame(HEADERS, WHOLE, 1, b"\x3f\xe2\x1f"),
        connection(ErrorCode.COMPRESSION_ERROR),
    ),
    Probe(
        "4.3",
        "a frame of another kind in a block",
        frame(HEADERS, 1, 1, b"") + frame(PING, 0, 0, b"12345678"),
        PROTOCOL,
    ),
    Probe("4.3", "a frame of another stream in a block", frame(HEADERS, 1, 1, block(lines())) + request(3), PROTOCOL),
    Probe("5.1", "DATA on an idle stream", frame(DATA, 0, 1, b"body"), PROTOCOL),
    Probe("5.1", "RST_STREAM on an idle stream", frame(RST_STREAM, 0, 1, word(8)), PROTOCOL, envoy="closed"),
    Probe("5.1", "WINDOW_UPDATE on an idle stream", frame(WINDOW_UPDATE, 0, 1, word(1)), PROTOCOL, envoy="closed"),
    Probe("5.1", "CONTINUATION on an idle stream", frame(CONTINUATION, END_HEADERS, 1, block(lines())), PROTOCOL),
    Probe("5.1", "PRIORITY on an idle stream", frame(PRIORITY, 0, 1, bytes(5)), ACCEPTED),
    Probe("5.1", "DATA behind the end", OPEN + END + BODY, (*stream(ErrorCode.STREAM_CLOSED), *CLOSED)),
    Probe(
        "5.1",
        "HEADERS behind the end",
        OPEN + END + request(1),
        (*stream(ErrorCode.STREAM_CLOSED), *CLOSED),
        envoy="closed",
    ),
    Probe("5.1", "WINDOW_UPDATE behind the end", OPEN + END + frame(WINDOW_UPDATE, 0, 1, word(1)), ACCEPTED),
    Probe("5.1", "PRIORITY behind the end", OPEN + END + frame(PRIORITY, 0, 1, bytes(5)), ACCEPTED),
    Probe(
        "5.1",
        "DATA behind RST_STREAM",
        OPEN + frame(RST_STREAM, 0, 1, word(8)) + BODY,
        (*stream(ErrorCode.STREAM_CLOSED), *CLOSED),
        envoy="accepted",
    ),
    Probe(
        "5.1",
        "HEADERS behind RST_STREAM",
        OPEN + frame(RST_STREAM, 0, 1, word(8)) + request(1),
        (*stream(ErrorCode.STREAM_CLOSED), *CLOSED),
        envoy="accepted",
    ),
    Probe("5.1", "RST_STREAM behind RST_STREAM", OPEN + frame(RST_STREAM, 0, 1, word(8)) * 2, ACCEPTED),
    Probe("5.1.1", "a client's stream has an odd number", request(2), PROTOCOL, envoy="closed"),
    Probe("5.1.1", "stream numbers rise", request(5, flags=END_HEADERS) + request(3), PROTOCOL, envoy="accepted"),
    Probe(
        "5.1.1",
        "a stream below the last is closed",
        request(5, flags=END_HEADERS) + frame(RST_STREAM, 0, 3, word(8)),
        ACCEPTED,
    ),
    Probe(
        "5.1.2",
        "streams above the limit are refused",
        b"".join(request(2 * i + 1, flags=END_HEADERS) for i in range(1_025)),
        stream(ErrorCode.REFUSED_STREAM, stream_id=2_049),
    ),
    Probe("5.3.2", "a priority that names its own stream", frame(PRIORITY, 0, 1, word(1) + b"\x10"), ACCEPTED),
    Probe("5.5", "an unknown frame in a block", frame(HEADERS, 1, 1, block(lines())) + frame(0xFA, 0, 1), PROTOCOL),
    Probe("6.1", "DATA on stream 0", frame(DATA, 0, 0, b"body"), PROTOCOL),
    Probe("6.1", "padding as long as the payload of DATA", OPEN + frame(DATA, PADDED, 1, b"\x05body"), PROTOCOL),
    Probe("6.1", "DATA with padding", OPEN + frame(DATA, PADDED, 1, b"\x02body\0\0"), ACCEPTED),
    Probe("6.2", "HEADERS on stream 0", request(0), PROTOCOL, envoy="closed"),
    Probe(
        "6.2",
        "padding as long as the payload of HEADERS",
        frame(HEADERS, WHOLE | PADDED, 1, b"\x63" + block(lines())),
        PROTOCOL,
    ),
    Probe("6.3", "PRIORITY on stream 0", frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL, envoy="accepted"),
    Probe(
        "6.3",
        "PRIORITY of another length",
        OPEN + frame(PRIORITY, 0, 1, bytes(4)),
        (*stream(ErrorCode.FRAME_SIZE_ERROR), *SIZE),
    ),
    Probe("6.4", "RST_STREAM on stream 0", frame(RST_STREAM, 0, 0, word(8)), PROTOCOL, envoy="closed"),
    Probe("6.4", "RST_STREAM of another length", OPEN + frame(RST_STREAM, 0, 1, bytes(3)), SIZE),
    Probe("6.5", "SETTINGS on a stream", frame(SETTINGS, 0, 1), PROTOCOL, envoy="closed"),
    Probe("6.5", "an acknowledgement with settings", frame(SETTINGS, ACK, 0, setting(1, 4_096)), SIZE),
    Probe("6.5", "SETTINGS of another length", frame(SETTINGS, 0, 0, bytes(5)), SIZE),
    Probe(
        "6.5.2", "ENABLE_PUSH that is neither 0 nor 1", frame(SETTINGS, 0, 0, setting(2, 2)), PROTOCOL, envoy="closed"
    ),
    Probe(
        "6.5.2",
        "INITIAL_WINDOW_SIZE above the limit",
        frame(SETTINGS, 0, 0, setting(4, 2**31)),
        connection(ErrorCode.FLOW_CONTROL_ERROR),
        envoy="closed",
    ),
    Probe(
        "6.5.2", "MAX_FRAME_SIZE below the limit", frame(SETTINGS, 0, 0, setting(5, 16_383)), PROTOCOL, envoy="closed"
    ),
    Probe(
        "6.5.2", "MAX_FRAME_SIZE above the limit", frame(SETTINGS, 0, 0, setting(5, 2**24)), PROTOCOL, envoy="closed"
    ),
    Probe("6.5.2", "unknown settings are ignored", frame(SETTINGS, 0, 0, setting(0xFF, 2**32 - 1)), ACCEPTED),
    Probe(
        "6.6",
        "PUSH_PROMISE from a client",
        OPEN + frame(PUSH_PROMISE, END_HEADERS, 1, word(2) + block(lines())),
        PROTOCOL,
        envoy="closed",
    ),
    Probe("6.7", "PING on a stream", frame(PING, 0, 1, bytes(8)), PROTOCOL, envoy="closed"),
    Probe("6.7", "PING of another length", frame(PING, 0, 0, bytes(6)), SIZE),
    Probe("6.7", "PING that answers nothing", frame(PING, ACK, 0, bytes(8)), ACCEPTED),
    Probe("6.8", "GOAWAY on a stream", frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL, envoy="closed"),
    Probe("6.8", "GOAWAY too short", frame(GOAWAY, 0, 0, bytes(7)), SIZE),
    Probe(
        "6.9",
        "WINDOW_UPDATE of the connection by nothing",
        frame(WINDOW_UPDATE, 0, 0, word(0)),
        PROTOCOL,
        envoy="closed",
    ),
    Probe(
        "6.9",
        "WINDOW_UPDATE of a stream by nothing",
        OPEN + frame(WINDOW_UPDATE, 0, 1, word(0)),
        (*MALFORMED, *PROTOCOL),
        envoy="closed",
    ),
    Probe("6.9", "WINDOW_UPDATE of another length", frame(WINDOW_UPDATE, 0, 0, bytes(3)), SIZE),
    Probe(
        "6.9.1",
        "a connection's window above the limit",
        frame(WINDOW_UPDATE, 0, 0, word(2**31 - 1)),
        connection(ErrorCode.FLOW_CONTROL_ERROR),
        envoy="closed",
    ),
    Probe(
        "6.9.1",
        "a stream's window above the limit",
        OPEN + frame(WINDOW_UPDATE, 0, 1, word(2**31 - 1)),
        stream(ErrorCode.FLOW_CONTROL_ERROR),
        envoy="closed",
    ),
    Probe(
        "6.9.2",
        "a stream's window above the limit, by SETTINGS",
        OPEN + frame(WINDOW_UPDATE, 0, 1, word(2**31 - 65_537)) + frame(SETTINGS, 0, 0, setting(4, 65_537)),
        connection(ErrorCode.FLOW_CONTROL_ERROR),
        envoy="FLOW_CONTROL_ERROR of stream 1",
    ),
    Probe(
        "6.10",
        "CONTINUATION on stream 0",
        frame(HEADERS, 1, 1, block(lines())) + frame(CONTINUATION, END_HEADERS, 0),
        PROTOCOL,
    ),
    Probe(
        "6.10",
        "CONTINUATION behind a whole block",
        OPEN + frame(CONTINUATION, END_HEADERS, 1, block(lines())),
        PROTOCOL,
    ),
    Probe(
        "6.10", "CONTINUATION behind DATA", OPEN + BODY + frame(CONTINUATION, END_HEADERS, 1, block(lines())), PROTOCOL
    ),
    Probe(
        "8.1",
        "trailers that do not end the stream",
        OPEN + raw_request(1, [(b"x", b"y")], END_HEADERS),
        MALFORMED,
        envoy="closed",
    ),
    Probe("8.1", "pseudo-headers in trailers", OPEN + raw_request(1, [(b":path", b"/")]), MALFORMED, envoy="closed"),
    Probe(
        "8.1.1",
        "a body longer than content-length",
        request(1, (b"content-length", b"3"), flags=END_HEADERS) + BODY,
        MALFORMED,
    ),
    Probe(
        "8.1.1",
        "a body shorter than content-length",
        request(1, (b"content-length", b"9"), flags=END_HEADERS) + END,
        MALFORMED,
    ),
    Probe("8.1.1", "content-length without a body", request(1, (b"content-length", b"9")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "an upper-case name", request(1, (b"Name", b"x")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "a blank in a name", request(1, (b"na me", b"x")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "a colon in a name", request(1, (b"na:me", b"x")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "an empty name", request(1, (b"", b"x")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "NUL in a value", request(1, (b"name", b"a\0b")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "CR in a value", request(1, (b"name", b"a\rb")), MALFORMED, envoy="closed"),
    Probe("8.2.1", "LF in a value", request(1, (b"name", b"a\nb")), MALFORMED, envoy="closed"),
    *(
        Probe("8.2.2", f"{name.decode()} is of HTTP/1.1", request(1, (name, b"x")), MALFORMED, envoy="closed")
        for name in (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
    ),
    Probe("8.2.2", "te is nothing but `trailers`", request(1, (b"te", b"trailers, gzip")), MALFORMED, envoy="closed"),
    Probe("8.3", "an unknown pseudo-header", raw_request(1, [(b":what", b"x"), *lines()]), MALFORMED, envoy="closed"),
    Probe(
        "8.3", "a response's pseudo-header", raw_request(1, [(b":status", b"200"), *lines()]), MALFORMED, envoy="closed"
    ),
    Probe("8.3", "a pseudo-header twice", raw_request(1, [(b":path", b"/"), *lines()]), MALFORMED, envoy="closed"),
    Probe(
        "8.3",
        "a pseudo-header behind a regular one",
        raw_request(1, [*lines((b"name", b"x"), path=None), (b":path", b"/")]),
        MALFORMED,
        envoy="closed",
    ),
    *(
        Probe("8.3.1", f"no :{name}", request(1, **{name: None}), MALFORMED, envoy="closed")
        for name in ("method", "scheme", "path")
    ),
    Probe("8.3.1", "an empty :path", request(1, path=b""), MALFORMED, envoy="closed"),
    Probe("8.3.1", "a :path without a slash", request(1, path=b"x"), MALFORMED, envoy="closed"),
    Probe("8.5", "CONNECT with a path", request(1, method=b"CONNECT", flags=END_HEADERS), MALFORMED, envoy="closed"),
    Probe("10.5", "32 settings in a frame", frame(SETTINGS, 0, 0, setting(4, 70_000) * 32), ACCEPTED),
    Probe(
        "10.5",
        "33 settings in a frame",
        frame(SETTINGS, 0, 0, setting(4, 70_000) * 33),
        connection(ErrorCode.ENHANCE_YOUR_CALM),
    ),
)


async def run(address: str, probe: Probe) -> Outcome:
    """Send a probe to a server at `ip:port` and see what becomes of it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(probe.greeting + probe.frames + frame(PING, 0, 0, _MARKS[0]))
        goaway = None
        resets = []
        alive = False
        async with asyncio.timeout(_WAIT_S):
            async for kind, flags, stream_id, payload in frames(reader):
                if kind == GOAWAY and (code := ErrorCode(int.from_bytes(payload[4:8], "big"))):
                    goaway = code
                elif kind == RST_STREAM and (code := ErrorCode(int.from_bytes(payload, "big"))):
                    resets.append((stream_id, code))
                elif kind == PING and flags & ACK and payload == _MARKS[0]:
                    writer.write(frame(PING, 0, 0, _MARKS[1]))  # an error may come behind the first answer
                elif kind == PING and flags & ACK and payload == _MARKS[1]:
                    alive = True
                    break
        return Outcome(goaway, tuple(resets), alive)
    finally:
        writer.close()


async def frames(reader: asyncio.StreamReader):
    """Yield `(kind, flags, stream id, payload)` until the peer is gone."""
    try:
        while True:
            high, low, kind, flags, stream_id = struct.unpack(">BHBBL", await reader.readexactly(9))
            yield kind, flags, stream_id, await reader.readexactly(high << 16 | low)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
