"""How long an HTTP/2 client's connection lives, and how it ends: drain, limits, timeouts."""

import asyncio

import pytest

from proxy.codec.http2_frames import PREFACE, ErrorCode
from proxy.config.listener_options import ListenerOptions
from proxy.http.connection_timers import DRAIN_TIMEOUT_MS, REQUEST_HEAD_TIMEOUT_MS
from proxy.testing import FaultyUpstream
from tests.proxy.http.http2_client import Http2Client, connected
from tests.proxy.http.http2_probes import block, frame, lines
from tests.proxy.http.sidecar import GET as HTTP1_GET
from tests.proxy.http.sidecar import ManualClock, Sidecar, arrived, logged, until


async def test_drain_lets_idle_clients_go_at_once():
    async with FaultyUpstream() as upstream, connected(upstream) as (sidecar, client):
        await client.get()
        sidecar.listener.drain()
        await client.wait_closed()

        assert [(int(goaway.error_code), goaway.last_stream_id) for goaway in client.goaways] == [(0, 1)]


async def test_drain_serves_what_is_under_way():
    async with FaultyUpstream(head_delay_ms=200, body=b"x") as upstream, connected(upstream) as (sidecar, client):
        stream = client.request()
        await arrived(upstream)
        sidecar.listener.drain()
        await client.wait_closed()

        assert client.responses[stream].status == 200
        assert [goaway.last_stream_id for goaway in client.goaways] == [2**31 - 1, 1]


async def test_request_that_crosses_the_notice_is_served():
    """The client's answer to the ping says that it has heard; until then its requests are taken."""
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
        upstream.set(path="/slow", fault="hang")
        client = await sidecar.client()
        client.send(PREFACE + frame(4, 0, 0) + frame(1, 5, 1, block(lines(path=b"/slow"))))
        await arrived(upstream)
        sidecar.listener.drain()
        await asyncio.sleep(0)
        client.send(frame(1, 5, 3, block(lines())))
        await until(lambda: upstream.request_count == 2)
        client.send(frame(6, 1, 0, b"draining"))
        await until(lambda: sidecar.http_stats.http2.goaway_sent == 2)
        client.send(frame(1, 5, 5, block(lines())))
        for _ in range(20):
            await asyncio.sleep(0)

        assert upstream.request_count == 2


async def test_client_that_does_not_answer_the_notice_is_drained_in_time():
    clock = ManualClock()
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream, clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(PREFACE + frame(4, 0, 0) + frame(1, 5, 1, block(lines())))
        await arrived(upstream)
        sidecar.listener.drain()
        clock.advance(DRAIN_TIMEOUT_MS - 1)
        assert sidecar.http_stats.http2.goaway_sent == 1
        clock.advance(1)

        assert sidecar.http_stats.http2.goaway_sent == 2


async def test_client_that_comes_while_the_sidecar_drains_is_served_once():
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
        sidecar.listener.drain()
        client = await Http2Client.connect(sidecar)
        await until(lambda: client.h2.remote_settings.max_concurrent_streams == 1_024)
        assert not client.goaways

        assert (await client.get()).status == 200
        await client.wait_closed()


@pytest.mark.parametrize("limit", [1, 3])
async def test_connection_serves_at_most_so_many_requests(limit):
    options = ListenerOptions(max_requests_per_connection=limit)
    async with FaultyUpstream() as upstream, connected(upstream, options=options) as (sidecar, client):
        for _ in range(limit):
            assert (await client.get()).status == 200
        await client.wait_closed()

        assert sidecar.http_stats.downstream_cx_max_requests_reached == 1
        assert client.goaways[-1].last_stream_id == 2 * limit - 1


async def test_idle_client_is_ended():
    clock = ManualClock()
    options = ListenerOptions(idle_timeout_ms=60_000)
    async with FaultyUpstream() as upstream, connected(upstream, options=options, clock=clock) as (sidecar, client):
        await client.get()
        clock.advance(59_999)
        assert sidecar.http_stats.downstream_cx_idle_timeout == 0
        clock.advance(1)
        await client.wait_closed()

        assert sidecar.http_stats.downstream_cx_idle_timeout == 1


async def test_pings_do_not_keep_an_idle_client():
    clock = ManualClock()
    options = ListenerOptions(idle_timeout_ms=60_000)
    async with FaultyUpstream() as upstream, connected(upstream, options=options, clock=clock) as (sidecar, client):
        await client.get()
        clock.advance(59_000)
        client.h2.ping(b"12345678")
        client.flush()
        await until(lambda: any(type(event).__name__ == "PingAckReceived" for event in client.events))
        clock.advance(1_000)

        assert sidecar.http_stats.downstream_cx_idle_timeout == 1


async def test_silent_stream_is_504_and_the_others_go_on():
    clock = ManualClock()
    options = ListenerOptions(stream_idle_timeout_ms=60_000)
    async with (
        FaultyUpstream(fault="hang") as upstream,
        connected(upstream, options=options, clock=clock) as (sidecar, client),
    ):
        first = client.request()
        await arrived(upstream)
        clock.advance(30_000)
        second = client.request()
        await arrived(upstream, 2)
        clock.advance(30_000)
        response = await client.response(first)

        assert (response.status, bytes(response.body)) == (504, b"stream timeout")
        assert logged(sidecar)[1:3] == ("SI", "stream_idle_timeout")
        assert not client.responses[second].over


async def test_answer_that_the_client_does_not_take_is_reset_in_time():
    """A window that is never opened would hold the rest of the answer for ever."""
    clock = ManualClock()
    options = ListenerOptions(stream_idle_timeout_ms=60_000)
    async with (
        FaultyUpstream(body=bytes(100_000)) as upstream,
        connected(upstream, options=options, clock=clock) as (sidecar, client),
    ):
        client.consuming = False
        stream = client.request()
        await until(lambda: sidecar.log)
        clock.advance(59_999)
        assert sidecar.http_stats.http2.tx_flush_timeout == 0
        clock.advance(1)
        response = await client.response(stream)

        assert (len(response.body), response.reset) == (65_535, ErrorCode.NO_ERROR)
        stats = sidecar.http_stats.http2
        assert (stats.tx_flush_timeout, stats.pending_send_bytes, stats.streams_active) == (1, 0, 0)


async def test_head_that_does_not_go_on_ends_the_connection():
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(PREFACE + frame(4, 0, 0) + frame(1, 1, 1, block(lines())))
        await until(lambda: sidecar.http_stats.downstream_cx_http2_total)
        await until(lambda: len(sidecar.deadlines) >= 2)
        clock.advance(REQUEST_HEAD_TIMEOUT_MS - 1)
        assert sidecar.http_stats.downstream_rq_header_timeout == 0
        clock.advance(1)

        assert sidecar.http_stats.downstream_rq_header_timeout == 1
        await client.read_to_end()


async def test_http1_still_pipelines():
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(HTTP1_GET * 3)

        assert [(await client.response()).body for _ in range(3)] == [b"x"] * 3
