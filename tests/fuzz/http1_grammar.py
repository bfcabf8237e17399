"""HTTP/1.1 messages: valid ones from a grammar, pieces that smuggle, and what mutation makes of both."""

import random
from collections.abc import Callable, Sequence

from tests.proxy.codec.test_framing_corpus import CHUNKS, CODINGS, LENGTHS, LINES

METHODS = (b"GET", b"GET", b"POST", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"CONNECT", b"TRACE", b"FETCH")
TARGETS = (b"/", b"/", b"/x?y=z", b"*", b"http://b/c", b"http://b", b"b:80", b"/a#b", b"//", b"/%zz", b"")
VERSIONS = (*[b"HTTP/1.1"] * 12, b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1")
STATUSES = (*[b"200 OK"] * 6, b"204 No", b"304 No", b"100 Go", b"103 Hints", b"101 Up", b"500 X", b"099 X", b"999 X")
LINE_POOL = (
    *[b"X-A: 1", b"Accept: */*", b"Cookie: a=b"] * 3,
    *(b"Connection: close", b"Connection: keep-alive, x-a", b"Connection: upgrade", b"Connection: host"),
    *(b"Upgrade: websocket", b"Upgrade: h2c", b"Expect: 100-continue", b"TE: trailers", b"TE: gzip, trailers"),
    *(b"Trailer: x-t", b"Keep-Alive: timeout=5", b"Proxy-Connection: close", b"X-Request-Id:", b"X-Request-Id: a"),
    *(b"Content-Type: application/grpc", b"grpc-timeout: 1S", b"x-envoy-retry-on: 5xx", b"x-envoy-overloaded: true"),
    *(
        b"x-envoy-ratelimited: true",
        b"grpc-status: 14",
        b"Date: x",
        b"Server: y",
        b"Via: 1.1 z",
        b"X-Big: " + b"b" * 900,
    ),
)
SMUGGLERS: Sequence[bytes] = (
    *(b"Content-Length: " + value.encode("latin-1") for value in LENGTHS.values()),
    *(b"Transfer-Encoding: " + value.encode("latin-1") for value in CODINGS.values()),
    *("\r\n".join(lines).encode("latin-1") for lines, _ in LINES.values()),
    *(
        b"Host: b",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    ),
)
TOKENS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\x00",
        b" ",
        b"\t",
        b":",
        b"\r\n\r\n",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b"\xff",
        b"\x80",
    ),
    *(
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"Transfer-Encoding: chunked",
    ),
    *(b"Content-Length: 0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"ffffffffffffffff", b"10000000000000000\r\n"),
)


def requests(chance: random.Random) -> bytes:
    """Return a pipeline of one to five requests, maybe mutated."""
    data = b"".join(_request(chance) for _ in range(chance.choice((1, 1, 1, 2, 3, 5))))
    return mutated(data, chance)


def responses(chance: random.Random) -> bytes:
    """Return a response, interim ones before it and others behind it included, maybe mutated."""
    data = b"".join(_response(chance) for _ in range(chance.choice((1, 1, 1, 1, 2, 3))))
    return mutated(data, chance)


def mutated(data: bytes, chance: random.Random, tokens: Sequence[bytes] = TOKENS) -> bytes:
    """Return `data` as it is (of three once), or after one to six mutations."""
    if chance.random() < 0.3:
        return data
    for _ in range(chance.randrange(1, 7)):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 1, 2, 5, 30)))
        match chance.randrange(7):
            case 0:
                data = data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]
            case 1:
                data = data[:at] + data[end:]
            case 2:
                data = data[:end] + data[at:]  # twice
            case 3:
                data = data[:at] + chance.choice(tokens) + data[at:]
            case 4:
                data = data[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in data[at:end]) + data[end:]
            case 5:
                data = data[:at]
            case 6:
                other = chance.randrange(len(data) + 1)
                data = data[:at] + data[other : other + 40] + data[at:]
    return data


def _request(chance: random.Random) -> bytes:
    target = chance.choice(TARGETS) if chance.random() < 0.3 else b"/%d" % chance.randrange(1_000)
    line = b" ".join((chance.choice(METHODS), target, chance.choice(VERSIONS)))
    lines = [line, b"Host: a"] if chance.random() < 0.95 else [line]
    lines += chance.choices(LINE_POOL, k=chance.randrange(4))
    if chance.random() < 0.05:
        return b"\r\n".join((*lines, b"Connection: upgrade", b"Upgrade: websocket", b"", b"\x81\x05hello"))
    return _framed(lines, chance, body=0.5)


def _response(chance: random.Random) -> bytes:
    lines = [b"HTTP/1.%d %b" % (chance.random() < 0.9, chance.choice(STATUSES))]
    lines += chance.choices(LINE_POOL, k=chance.randrange(4))
    return _framed(lines, chance, body=0.8)


def _framed(lines: list[bytes], chance: random.Random, *, body: float) -> bytes:
    content = b""
    if chance.random() < body:
        size = chance.choice((0, 1, 5, 5, 100, 5_000, 70_000))
        frame: Callable[[list[bytes], bytes, random.Random], bytes] = chance.choice((_stated, _chunked, _smuggled))
        content = frame(lines, b"hello"[:size] if size <= 5 else bytes(size), chance)
    chance.shuffle(tail := lines[1:])
    return b"\r\n".join((lines[0], *tail, b"", b"")) + content


def _stated(lines: list[bytes], content: bytes, chance: random.Random) -> bytes:
    lines.append(b"Content-Length: %d" % len(content))
    return content


def _chunked(lines: list[bytes], content: bytes, chance: random.Random) -> bytes:
    lines.append(b"Transfer-Encoding: chunked")
    chunks = []
    while content:
        size = chance.choice((1, 2, 100, 70_000))
        piece, content = content[:size], content[size:]
        extension = chance.choice((b"", b"", b"", b";a=b", b';a="b"'))
        chunks.append(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece))
        if len(chunks) > 100:
            chunks.append(b"%x\r\n%b\r\n" % (len(content), content) if content else b"")
            break
    if chance.random() < 0.1:
        chunks.append(chance.choice(tuple(CHUNKS.values())))
    trailers = chance.choice((b"", b"", b"x-t: 1\r\n", b"content-length: 5\r\nhost: b\r\n"))
    return b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"


def _smuggled(lines: list[bytes], content: bytes, chance: random.Random) -> bytes:
    framing = chance.choice((_stated, _chunked))
    body = framing(lines, content[:100], chance)
    lines.append(chance.choice(SMUGGLERS))
    return body
