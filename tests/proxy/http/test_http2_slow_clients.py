"""HTTP/2 clients that take what they are sent slowly, or not at all, while they go on sending."""

import asyncio

from proxy.codec.http2_frames import PREFACE
from proxy.http.http2_connection import Http2Connection
from tests.proxy.codec.http2_pairs import frame
from tests.proxy.http.sidecar import Sidecar

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
