"""Streams whose response is over while something of them is still to come: they do not stay for ever."""

import pytest

from proxy.config.cluster_config import Http2Options
from proxy.upstream.http2_stream import END_TIMEOUT_MS
from tests.proxy.http.sidecar import ManualClock, Sidecar, post, until
from tests.proxy.upstream.http2_upstream import (
    INITIAL_WINDOW_SIZE,
    INTERNAL_ERROR,
    NO_ERROR,
    Http2Request,
    Http2Upstream,
)

HTTP2 = Http2Options()
BODY = bytes(100_000)
WITHOUT_BODY = pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])


def leaves_open(status: int):
    """Send a head that does not end the stream, and nothing behind it."""
    return lambda request: request.send_headers([(":status", str(status))])


def open_streams(sidecar: Sidecar) -> tuple[int, int]:
    """Return how many requests are counted in flight, and how many streams are open on the wire."""
    return sidecar.stat("upstream_rq_active"), sidecar.stat("http2.streams_active")


@WITHOUT_BODY
async def test_host_that_does_not_end_a_response_without_body_is_given_a_while(method, status):
    clock = ManualClock()
    async with (
        Http2Upstream(leaves_open(status)) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, clock=clock) as sidecar,
    ):
        response = await (await sidecar.client()).get(method=method)
        clock.advance(END_TIMEOUT_MS - 1)
        before = open_streams(sidecar)
        clock.advance(1)
        await until(lambda: upstream.requests[0].reset_code is not None)

        assert (response.status, before) == (status, (1, 1))
        assert upstream.requests[0].reset_code == INTERNAL_ERROR
        assert open_streams(sidecar) == (0, 0)
        assert sidecar.stat("upstream_rq_tx_reset") == 1


async def test_an_end_in_time_clears_the_deadline():
    clock = ManualClock()
    async with (
        Http2Upstream(leaves_open(204)) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, clock=clock) as sidecar,
    ):
        client = await sidecar.client()
        await client.get()
        upstream.requests[0].send_data(b"", end_stream=True)
        await until(lambda: open_streams(sidecar) == (0, 0))
        clock.advance(END_TIMEOUT_MS)
        await client.get()

        assert sidecar.stat("upstream_rq_tx_reset") == 0


async def test_a_connection_that_ends_meanwhile_leaves_nothing_behind():
    clock = ManualClock()
    async with (
        Http2Upstream(leaves_open(204)) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, clock=clock) as sidecar,
    ):
        await (await sidecar.client()).get()
        upstream.connections[0].abort()
        await until(lambda: open_streams(sidecar) == (0, 0))
        clock.advance(END_TIMEOUT_MS)

        assert sidecar.stat("upstream_rq_tx_reset") == 0


async def test_response_without_body_before_the_request_is_complete_resets_at_once():
    async with (
        Http2Upstream(on_head=leaves_open(204)) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, clock=ManualClock()) as sidecar,
    ):
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        response = await client.response("POST")
        await until(lambda: upstream.requests[0].reset_code is not None)

        assert response.status == 204
        assert open_streams(sidecar) == (0, 0)


class TestRequestBehindTheWindow:
    """The client has sent all, the host has answered, and its window keeps the rest here."""

    WINDOW_BYTES = 1_000

    async def answered(self, upstream: Http2Upstream, sidecar: Sidecar) -> Http2Request:
        """Return a request in that state."""
        client = await sidecar.client()
        await client.get()
        client.send(post(BODY))
        await until(lambda: sidecar.stat("http2.pending_send_bytes") == len(BODY) - self.WINDOW_BYTES)
        await until(lambda: len(upstream.requests) == 2)
        upstream.requests[1].respond(413)
        assert (await client.response("POST")).status == 413
        return upstream.requests[1]

    def upstream(self) -> Http2Upstream:
        return Http2Upstream(opens_windows=False, settings={INITIAL_WINDOW_SIZE: self.WINDOW_BYTES})

    async def test_goes_out_if_the_host_takes_it(self):
        clock = ManualClock()
        async with (
            self.upstream() as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, clock=clock) as sidecar,
        ):
            request = await self.answered(upstream, sidecar)
            request.update_window(1 << 20)
            await until(lambda: open_streams(sidecar) == (0, 0))
            clock.advance(END_TIMEOUT_MS)
            await until(lambda: request.complete)

            assert request.body == BODY
            assert (request.reset_code, sidecar.stat("upstream_rq_tx_reset")) == (None, 0)

    async def test_is_dropped_if_the_host_does_not(self):
        clock = ManualClock()
        async with (
            self.upstream() as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, clock=clock) as sidecar,
        ):
            request = await self.answered(upstream, sidecar)
            clock.advance(END_TIMEOUT_MS)
            await until(lambda: request.reset_code is not None)

            assert open_streams(sidecar) == (0, 0)
            assert sidecar.stat("http2.pending_send_bytes") == 0

    async def test_is_dropped_when_the_host_resets_the_stream(self):
        """As a host may, to say that it wants no more of a request that it has answered (RFC 9113, 8.1)."""
        async with (
            self.upstream() as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, clock=ManualClock()) as sidecar,
        ):
            request = await self.answered(upstream, sidecar)
            request.reset(NO_ERROR)
            await until(lambda: open_streams(sidecar) == (0, 0))

            assert (sidecar.stat("http2.rx_reset"), sidecar.stat("upstream_rq_rx_reset")) == (1, 0)
