"""Floods over real sockets: the connection ends, other clients are served, and the memory stays flat.

Where exactly each ends is `tests/proxy/codec/test_http2_floods.py`'s.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.codec.http2_frames import PREFACE
from proxy.testing import FaultyUpstream
from tests.proxy.http.http2_client import Http2Client
from tests.proxy.http.http2_probes import block, frame, lines, word
from tests.proxy.http.sidecar import Sidecar, until

MIB = 1 << 20
ROUNDS = 5
HEAD = block(lines())
OPEN = frame(1, 4, 1, HEAD)

pytestmark = pytest.mark.slow


def resident_bytes() -> int:
    """Return how much memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def repeated(unit: bytes) -> Iterator[bytes]:
    while True:
        yield unit * (65_536 // len(unit))


def resets() -> Iterator[bytes]:
    for first in range(1, 2**31, 200):
        streams = range(first, first + 200, 2)
        yield b"".join(frame(1, 5, stream, HEAD) + frame(3, 0, stream, word(8)) for stream in streams)


@pytest.mark.parametrize(
    ("before", "flood"),
    [
        pytest.param(b"", lambda: repeated(frame(6, 0, 0, b"12345678")), id="pings"),
        pytest.param(b"", lambda: repeated(frame(4, 0, 0)), id="settings"),
        pytest.param(OPEN, lambda: repeated(frame(0, 0, 1)), id="empty data"),
        pytest.param(b"", lambda: repeated(frame(2, 0, 1, bytes(5))), id="priorities"),
        pytest.param(b"", lambda: repeated(frame(8, 0, 0, word(1))), id="window updates"),
        pytest.param(frame(1, 1, 1, HEAD), lambda: repeated(frame(9, 0, 1, b"\x00\x01a\x01b")), id="continuations"),
        pytest.param(b"", resets, id="rapid resets"),
    ],
)
async def test_flood_ends_and_costs_nothing_that_stays(before, flood):
    async with FaultyUpstream(fault="hang", max_recorded=1) as upstream, Sidecar(upstream) as sidecar:
        upstream.set(path="/other", body=b"x")
        first_bytes = 0
        for number in range(ROUNDS):
            client = await sidecar.client()
            client.send(PREFACE + frame(4, 0, 0) + before)
            sent = 0
            for data in flood():
                client.send(data)
                sent += len(data)
                await until(lambda: True)
                if client.writer.is_closing() or sidecar.http_stats.http2.goaway_sent > number or sent > 8 * MIB:
                    break
            await until(lambda number=number: sidecar.http_stats.http2.goaway_sent > number)
            client.abort()
            await until(lambda: sidecar.http_stats.downstream_cx_http2_active == 0)
            first_bytes = first_bytes or resident_bytes()
        other = await Http2Client.connect(sidecar)

        assert (await other.get(lines(path=b"/other"))).status == 200
        assert resident_bytes() - first_bytes < 16 * MIB
        other.abort()
