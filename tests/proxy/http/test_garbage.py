"""A connection that is gone leaves nothing for the garbage collector, which finds things late; and they hold bodies."""

import gc

from proxy.codec.http2_session import Http2Session
from proxy.http.downstream import DownstreamConnection
from proxy.http.http2_connection import Http2Connection
from proxy.http.http2_stream import DownstreamStream
from proxy.router.exchange import Exchange
from proxy.testing import FaultyUpstream
from proxy.upstream.connection import UpstreamConnection
from tests.proxy.http.http2_client import Http2Client
from tests.proxy.http.sidecar import GET, Sidecar, arrived, until


def connections() -> int:
    return sum(isinstance(each, (DownstreamConnection, UpstreamConnection)) for each in gc.get_objects())


async def test_aborted_responses_leave_no_cycles():
    async with FaultyUpstream(body=bytes(1 << 20)) as upstream, Sidecar(upstream) as sidecar:
        gc.collect()
        gc.disable()
        try:
            for number in range(1, 11):
                client = await sidecar.client()
                client.send(GET)
                await arrived(upstream, number)
                client.abort()
                await until(lambda: sidecar.listener.connections == 0 and sidecar.stat("upstream_rq_active") == 0)
            await until(lambda: sidecar.stat("upstream_cx_active") <= 1)

            assert connections() <= 2
        finally:
            gc.enable()


def http2_objects() -> int:
    kinds = (Exchange, Http2Connection, Http2Session, DownstreamStream)
    return sum(isinstance(each, kinds) for each in gc.get_objects())


async def test_aborted_streams_leave_no_cycles():
    async with FaultyUpstream(body=bytes(1 << 20)) as upstream, Sidecar(upstream) as sidecar:
        gc.collect()
        gc.disable()
        try:
            for number in range(1, 11):
                client = await Http2Client.connect(sidecar)
                first = client.request()
                client.request()
                await arrived(upstream, 2 * number)
                client.reset(first)  # the other one ends with its connection
                client.abort()
                await until(lambda: sidecar.listener.connections == 0 and sidecar.stat("upstream_rq_active") == 0)
            await until(lambda: sidecar.stat("upstream_cx_active") <= 1)

            assert http2_objects() <= 4
        finally:
            gc.enable()


async def test_an_idle_connection_does_not_keep_the_last_body():
    async with FaultyUpstream(body=bytes(64 * 1024)) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        response = await client.get()
        size = len(response.body)
        del response

        assert not [each for each in gc.get_objects() if isinstance(each, list) and _bytes_in(each) >= size]


def _bytes_in(things: list[object]) -> int:
    return sum(len(each) for each in things if type(each) is bytes)
