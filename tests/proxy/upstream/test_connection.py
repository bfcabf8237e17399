"""A connection of HTTP/1.1 between two requests: nothing of the first is left over for the second."""

import asyncio

import attrs

from proxy.codec.http2_frames import DEFAULT_WINDOW_BYTES
from proxy.codec.http2_options import Http2Options
from tests.proxy.http.http2_client import connected
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import until

LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


async def test_a_client_that_was_slow_to_take_a_response_leaves_a_connection_that_is_read():
    """What fills its window to the brim is the end of the response as well."""
    held_bytes = attrs.fields(Http2Options).high_water_bytes.default
    full = asyncio.Event()
    connections = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        size = DEFAULT_WINDOW_BYTES + held_bytes
        writer.write(LENGTH % (size + 1) + bytes(size))
        await full.wait()
        writer.write(b"x")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(LENGTH % 2 + b"ok")

    async with RawUpstream(serve) as upstream, connected(upstream.address) as (sidecar, client):
        client.consuming = False
        slow = client.request()
        await until(lambda: sidecar.http_stats.http2.pending_send_bytes == held_bytes)
        full.set()
        await until(lambda: sidecar.stat("upstream_rq_active") == 0)
        quick = client.request()
        await until(lambda: client.responses[quick].headers)

        assert len(client.responses[slow].body) == DEFAULT_WINDOW_BYTES
        assert sidecar.stat("upstream_flow_control_paused_reading_total") == 1
        assert sidecar.stat("upstream_flow_control_resumed_reading_total") == 1
        assert len(connections) == 1
