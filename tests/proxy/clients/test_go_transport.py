"""Go's habits: few idle connections, used again at once, and a request that meets the end of one is sent again."""

import asyncio

import pytest

from proxy.config.listener_options import ListenerOptions
from proxy.http.connection_timers import DRAIN_TIMEOUT_MS, REQUEST_HEAD_TIMEOUT_MS
from proxy.testing import FaultyUpstream
from tests.proxy.clients.go_transport import MAX_IDLE, ConnectionLostError, GoTransport
from tests.proxy.http.raw_upstream import GatedUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, post, until

IDLE_MS = 1_000
IDLE = ListenerOptions(idle_timeout_ms=IDLE_MS)


def end_idle(clock: ManualClock) -> None:
    """Let every idle connection of a client be closed."""
    clock.advance(IDLE_MS)
    clock.advance(DRAIN_TIMEOUT_MS)


async def test_two_of_many_connections_are_kept():
    async with (
        GatedUpstream() as upstream,
        Sidecar(upstream.address) as sidecar,
        GoTransport(str(sidecar.listener.address)) as go,
    ):
        burst = asyncio.gather(*(go.round_trip(GET) for _ in range(8)))
        await until(lambda: len(upstream.paths) == 8)
        upstream.release()

        assert [response.status for response in await burst] == [200] * 8
        assert go.idle == MAX_IDLE
        await until(lambda: sidecar.listener.connections == MAX_IDLE)
        await go.round_trip(GET)
        assert sidecar.http_stats.downstream_cx_total == 8


async def test_the_end_of_an_idle_connection_is_seen_and_nothing_else():
    """Go logs "Unsolicited response received on idle HTTP channel" for any byte: no 408, no farewell."""
    clock = ManualClock()
    async with (
        FaultyUpstream() as upstream,
        Sidecar(upstream, clock=clock, options=IDLE) as sidecar,
        GoTransport(str(sidecar.listener.address)) as go,
    ):
        await go.round_trip(GET)
        end_idle(clock)
        await until(lambda: go.idle == 0)
        assert (await go.round_trip(GET)).status == 200
        clock.advance(REQUEST_HEAD_TIMEOUT_MS)

        await until(lambda: go.idle == 0)
        assert (go.sent, go.unsolicited) == (2, [])


@pytest.mark.parametrize("request_", [GET, post(b"x", "Idempotency-Key: 1")], ids=["GET", "keyed POST"])
async def test_a_request_that_crosses_the_end_of_its_connection_is_sent_again_and_served_once(request_):
    clock = ManualClock()
    async with (
        FaultyUpstream(body=b"x") as upstream,
        Sidecar(upstream, clock=clock, options=IDLE) as sidecar,
        GoTransport(str(sidecar.listener.address)) as go,
    ):
        await go.round_trip(GET)
        trip = asyncio.ensure_future(go.round_trip(request_))
        await until(lambda: go.sent == 2)  # written, and not yet read by the sidecar
        end_idle(clock)

        assert (await trip).body == b"x"
        assert go.sent == 3
        assert upstream.request_count == 2


async def test_a_request_that_may_not_be_sent_again_is_not_served_behind_the_clients_back():
    clock = ManualClock()
    async with (
        FaultyUpstream() as upstream,
        Sidecar(upstream, clock=clock, options=IDLE) as sidecar,
        GoTransport(str(sidecar.listener.address)) as go,
    ):
        await go.round_trip(GET)
        trip = asyncio.ensure_future(go.round_trip(post(b"x")))
        await until(lambda: go.sent == 2)
        end_idle(clock)

        with pytest.raises(ConnectionLostError):
            await trip
        assert upstream.request_count == 1


async def test_in_the_time_before_the_end_a_request_is_answered_and_told_to_be_the_last():
    clock = ManualClock()
    async with (
        FaultyUpstream() as upstream,
        Sidecar(upstream, clock=clock, options=IDLE) as sidecar,
        GoTransport(str(sidecar.listener.address)) as go,
    ):
        await go.round_trip(GET)
        clock.advance(IDLE_MS)
        clock.advance(DRAIN_TIMEOUT_MS - 1)
        response = await go.round_trip(GET)

        assert (response.status, response.header("connection")) == (200, "close")
        assert (go.idle, go.sent) == (0, 2)


async def test_a_drain_loses_nothing():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        async with GoTransport(str(sidecar.listener.address)) as go:
            await go.round_trip(GET)
            sidecar.listener.draining = True
            statuses = [(await go.round_trip(GET)).status for _ in range(3)]

        assert statuses == [200] * 3
        assert go.sent == upstream.request_count == 4


async def test_a_connection_of_the_hosts_that_ends_while_idle_costs_the_client_nothing():
    """The sidecar has habits of its own: its idle connections to hosts are watched as well."""
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        async with GoTransport(str(sidecar.listener.address)) as go:
            for _ in range(3):
                assert (await go.round_trip(post(b"x"))).status == 200
                upstream.drop_connections()
                await until(lambda: sidecar.stat("upstream_cx_active") == 0)

        assert upstream.connection_count == upstream.request_count == 3
