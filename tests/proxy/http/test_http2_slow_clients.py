"""HTTP/2 clients that take what they are sent slowly, or not at all, while they go on sending."""

import asyncio

from proxy.codec.http2_frames import PREFACE
from proxy.http.http2_connection import Http2Connection
from proxy.testing import FaultyUpstream
from tests.proxy.codec.http2_pairs import frame
from tests.proxy.http.http2_client import POST, connected
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import Sidecar, until

MIB = 1 << 20
HINT = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
PING = frame(6, 0, 0, b"12345678")


class NeverEmptyTransport(asyncio.Transport):
    """A transport whose client always has something still to take."""

    def get_write_buffer_size(self) -> int:
        return 1

    def write(self, data: bytes) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass


async def test_client_that_always_lags_behind_is_no_flood():
    """Under steady load the buffer is never seen empty; that it may be filled again says that the client reads."""
    async with Sidecar() as sidecar:
        connection = Http2Connection(sidecar.listener, NeverEmptyTransport())
        connection.start()
        connection.data_received(PREFACE + frame(4, 0, 0))
        for _ in range(3):
            connection.data_received(PING * 900)
            connection.pause_writing()
            connection.resume_writing()

        assert not connection.closing
        connection.connection_lost(None)


async def test_body_behind_an_answer_that_is_not_taken_is_acknowledged():
    """Nobody wants it; kept from the connection's window, two such streams would stop all others."""
    async with (
        FaultyUpstream(status=413, early=True, body=bytes(100_000)) as upstream,
        connected(upstream) as (sidecar, client),
    ):
        client.consuming = False
        stream = client.request(POST, end_stream=False)
        await until(lambda: sidecar.log)
        client.send(stream, bytes(8 * MIB))
        client.h2.ping(b"12345678")
        client.flush()
        await until(lambda: any(type(event).__name__ == "PingAckReceived" for event in client.events))

        assert not client.responses[stream].over
        assert client.h2.local_flow_control_window(stream) == 16 * MIB


async def test_interim_heads_of_a_host_that_begins_while_the_client_takes_nothing_wait():
    async def hint(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        while True:
            writer.write(HINT * 100)
            await writer.drain()

    async with RawUpstream(hint) as upstream, connected(upstream.address) as (sidecar, client):
        await until(lambda: sidecar.http_stats.downstream_cx_http2_active)
        (connection,) = sidecar.listener._connections
        connection.pause_writing()
        client.request()
        await until(lambda: sidecar.stat("upstream_flow_control_paused_reading_total"))
        received = sidecar.stat("upstream_cx_rx_bytes_total")
        for _ in range(100):
            await asyncio.sleep(0)

        assert sidecar.stat("upstream_cx_rx_bytes_total") == received
