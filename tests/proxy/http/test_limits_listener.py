"""How long a client's connection may last and wait, and how many there may be; recorded from Envoy 1.40."""

import asyncio

import attrs
import pytest

from proxy.config.listener_options import ListenerOptions
from proxy.deadlines import Deadlines
from proxy.http.client_socket import DELAYED_CLOSE_MS
from proxy.http.connection_timers import DRAIN_TIMEOUT_MS, ConnectionTimers
from proxy.http.stats import HttpStats
from proxy.router.local_reply import LocalReply
from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, logged, post, until

HALF = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"


def limited(clock: ManualClock, *upstreams: FaultyUpstream, **options: int) -> Sidecar:
    """Return a sidecar with only these limits."""
    none = {"idle_timeout_ms": 0, "stream_idle_timeout_ms": 0}
    return Sidecar(*upstreams, clock=clock, route={"timeout_ms": 0}, options=ListenerOptions(**(none | options)))


@attrs.define
class Closing:
    """A connection that was told to close and has something unsent."""

    active_at: float
    keep_alive: bool = False
    closing: bool = True
    started_at: float = 1.0
    busy: bool = False
    aborted: bool = False

    def close_when_idle(self) -> None:
        """Nothing more can be done."""

    def abort(self) -> None:
        self.aborted = True

    def end_idle_request(self) -> None:
        raise AssertionError("there is no request")

    def answer_and_close(self, reply: LocalReply) -> None:
        raise AssertionError("there is no head")


class TestIdleTimeout:
    async def test_client_that_never_asks_is_ended_at_the_timeout(self):
        clock = ManualClock()
        async with limited(clock, idle_timeout_ms=60_000) as sidecar:
            client = await sidecar.client()
            await until(lambda: sidecar.listener.connections)
            clock.advance(59_999)
            await asyncio.sleep(0)
            assert sidecar.http_stats.downstream_cx_idle_timeout == 0
            clock.advance(1)

            assert sidecar.http_stats.downstream_cx_idle_timeout == 1
            assert await client.read_to_end() == b""

    async def test_client_that_has_asked_is_served_for_the_drain_timeout(self):
        """Its next request may be on its way; the response then says that it was the last."""
        clock = ManualClock()
        async with FaultyUpstream(body=b"x") as upstream, limited(clock, upstream, idle_timeout_ms=60_000) as sidecar:
            client = await sidecar.client()
            await client.get()
            clock.advance(60_000)
            assert sidecar.http_stats.downstream_cx_idle_timeout == 1
            clock.advance(DRAIN_TIMEOUT_MS - 1)

            assert (await client.get()).header("connection") == "close"
            assert await client.read_to_end() == b""

    async def test_and_no_longer(self):
        clock = ManualClock()
        async with FaultyUpstream(body=b"x") as upstream, limited(clock, upstream, idle_timeout_ms=60_000) as sidecar:
            client = await sidecar.client()
            await client.get()
            clock.advance(60_000 + DRAIN_TIMEOUT_MS)

            assert await client.read_to_end() == b""
            assert sidecar.http_stats.downstream_cx_idle_timeout == 1

    async def test_it_runs_from_the_last_response(self):
        clock = ManualClock()
        async with FaultyUpstream(body=b"x") as upstream, limited(clock, upstream, idle_timeout_ms=60_000) as sidecar:
            client = await sidecar.client()
            for _ in range(3):
                await client.get()
                clock.advance(59_999)
            assert sidecar.http_stats.downstream_cx_idle_timeout == 0
            clock.advance(1)

            assert sidecar.http_stats.downstream_cx_idle_timeout == 1

    async def test_request_under_way_is_not_idle(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(fault="hang") as upstream,
            limited(clock, upstream, idle_timeout_ms=60_000) as sidecar,
        ):
            (await sidecar.client()).send(GET)
            await arrived(upstream)
            clock.advance(200_000)

            assert sidecar.http_stats.downstream_cx_idle_timeout == 0

    def test_client_that_does_not_take_its_last_response_is_cut_off(self):
        """Its connection is closed behind what is unsent, which may be never."""
        clock = ManualClock()
        connection = Closing(active_at=clock.time())
        timers = ConnectionTimers(connection, Deadlines(clock), ListenerOptions(idle_timeout_ms=60_000), HttpStats())
        timers.start()
        clock.advance(59_999)
        assert not connection.aborted
        clock.advance(1)

        assert connection.aborted

    async def test_none_is_set_without_limits(self):
        clock = ManualClock()
        async with FaultyUpstream(body=b"x") as upstream, limited(clock, upstream) as sidecar:
            await (await sidecar.client()).get()

            assert len(sidecar.deadlines) == 1  # of the upstream's connection


class TestStreamIdleTimeout:
    async def test_silent_host_is_504(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(fault="hang") as upstream,
            limited(clock, upstream, stream_idle_timeout_ms=300_000) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await arrived(upstream)
            clock.advance(299_999)
            await asyncio.sleep(0)
            assert sidecar.http_stats.downstream_rq_idle_timeout == 0
            clock.advance(1)
            response = await client.response()

            assert (response.status, response.body, response.header("connection")) == (504, b"stream timeout", None)
            assert logged(sidecar) == (504, "SI", "stream_idle_timeout", 1)
            assert sidecar.http_stats.downstream_rq_idle_timeout == 1

    async def test_silent_client_is_408_and_the_end(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, limited(clock, upstream, stream_idle_timeout_ms=300_000) as sidecar:
            client = await sidecar.client()
            client.send(HALF)
            await arrived(upstream)
            clock.advance(300_000)
            response = await client.response()

            assert (response.status, response.body, response.header("connection")) == (408, b"stream timeout", "close")
            assert logged(sidecar) == (408, "SI", "stream_idle_timeout", 1)
            clock.advance(DELAYED_CLOSE_MS)
            assert await client.read_to_end() == b""

    async def test_response_that_stops_is_cut_off(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(body=b"abcdef", truncate_at=3, end="hang") as upstream,
            limited(clock, upstream, stream_idle_timeout_ms=300_000) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: sidecar.http_stats.downstream_cx_tx_bytes_total)
            clock.advance(300_000)
            response = await client.response()

            assert (response.status, response.complete) == (200, False)
            assert logged(sidecar) == (200, "SI", "stream_idle_timeout", 1)

    async def test_each_piece_starts_it_anew(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, limited(clock, upstream, stream_idle_timeout_ms=300_000) as sidecar:
            client = await sidecar.client()
            client.send(HALF)
            await arrived(upstream)
            for piece in (b"d", b"e", b"f"):
                clock.advance(299_000)
                received = sidecar.http_stats.downstream_cx_rx_bytes_total
                client.send(piece)
                await until(lambda received=received: sidecar.http_stats.downstream_cx_rx_bytes_total > received)
            client.send(b"ghij")

            assert (await client.response()).status == 200


class TestLookingNowAndThen:
    @pytest.mark.parametrize("pause_ms", [1, 7, 999, 74_999, 75_000, 299_999])
    async def test_request_is_ended_exactly_at_its_timeout(self, pause_ms):
        """However long the connection was open before: a look never comes later than what it looks for."""
        clock = ManualClock()
        options = {"idle_timeout_ms": 3_600_000, "stream_idle_timeout_ms": 300_000}
        async with FaultyUpstream(fault="hang") as upstream, limited(clock, upstream, **options) as sidecar:
            client = await sidecar.client()
            await until(lambda: sidecar.listener.connections)
            clock.advance(pause_ms)
            client.send(GET)
            await arrived(upstream)
            clock.advance(299_999)
            assert sidecar.http_stats.downstream_rq_idle_timeout == 0
            clock.advance(1)

            assert sidecar.http_stats.downstream_rq_idle_timeout == 1


class TestMaxConnectionDuration:
    async def test_idle_connection_ends_after_the_drain_timeout(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(body=b"x") as upstream,
            limited(clock, upstream, max_connection_duration_ms=10_000) as sidecar,
        ):
            client = await sidecar.client()
            await client.get()
            clock.advance(9_999)
            assert sidecar.http_stats.downstream_cx_max_duration_reached == 0
            clock.advance(1)
            assert sidecar.http_stats.downstream_cx_max_duration_reached == 1
            clock.advance(DRAIN_TIMEOUT_MS)

            assert await client.read_to_end() == b""

    async def test_busy_connection_ends_with_its_response(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(body=b"x", head_delay_ms=10) as upstream,
            limited(clock, upstream, max_connection_duration_ms=10_000) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await arrived(upstream)
            clock.advance(10_000)

            assert (await client.response()).header("connection") == "close"
            assert await client.read_to_end() == b""


@pytest.mark.parametrize("limit", [1, 3])
async def test_connection_serves_at_most_so_many_requests(limit):
    async with (
        FaultyUpstream(body=b"x") as upstream,
        limited(ManualClock(), upstream, max_requests_per_connection=limit) as sidecar,
    ):
        client = await sidecar.client()
        said = [(await client.get()).header("connection") for _ in range(limit)]

        assert said == [None] * (limit - 1) + ["close"]
        assert await client.read_to_end() == b""
        assert sidecar.http_stats.downstream_cx_max_requests_reached == 1


async def test_client_beyond_the_limit_is_closed_without_a_word():
    """As in Envoy; those that are served are not disturbed, and a place that is free again is given away."""
    async with FaultyUpstream(body=b"x") as upstream, limited(ManualClock(), upstream, max_connections=2) as sidecar:
        first, second = await sidecar.client(), await sidecar.client()
        await first.get()
        await second.get()
        third = await sidecar.client()

        assert await third.read_to_end() == b""
        assert (await first.get()).status == 200
        stats = sidecar.http_stats
        assert (stats.downstream_cx_overflow, stats.downstream_cx_total, stats.downstream_cx_active) == (1, 2, 2)
        second.abort()
        await until(lambda: sidecar.listener.connections == 1)
        assert (await (await sidecar.client()).get()).status == 200


class TestUpstreamMaxConnectionDuration:
    async def test_idle_connection_is_closed(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(body=b"x") as upstream,
            Sidecar(upstream, clock=clock, max_connection_duration_ms=10_000) as sidecar,
        ):
            client = await sidecar.client()
            await client.get()
            clock.advance(9_999)
            assert sidecar.stat("upstream_cx_max_duration_reached") == 0
            clock.advance(1)

            assert sidecar.stat("upstream_cx_max_duration_reached") == 1
            assert sidecar.stat("upstream_cx_active") == 0
            assert (await client.get()).status == 200

    async def test_busy_connection_is_closed_behind_its_response(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(body=b"x", head_delay_ms=10) as upstream,
            Sidecar(upstream, clock=clock, max_connection_duration_ms=10_000) as sidecar,
        ):
            client = await sidecar.client()
            client.send(post(b"y"))
            await arrived(upstream)
            clock.advance(10_000)

            assert (await client.response()).status == 200
            assert sidecar.stat("upstream_cx_active") == 0
