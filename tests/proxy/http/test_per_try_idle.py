"""An attempt that falls silent: details and flags are those recorded from Envoy 1.40."""

import pytest

from outlier import Result
from proxy.config.envoy_routes import envoy_virtual_host
from proxy.config.route_config import RetryPolicy
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, logged, until, virtual_host

CONNECTED = (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None)
TIMEOUT = (Result.LOCAL_ORIGIN_TIMEOUT, 504)
LIMIT_MS = 200


def watched(retry_on: str = "", timeout_ms: int = 0) -> dict[str, object]:
    policy = RetryPolicy(num_retries=1, retry_on=retry_on, base_interval_ms=1, per_try_idle_timeout_ms=LIMIT_MS)
    return {"timeout_ms": timeout_ms, "retry": policy}


async def test_silent_attempt_is_504_at_its_limit():
    clock = ManualClock()
    async with (
        FaultyUpstream(fault="hang") as upstream,
        Sidecar(upstream, clock=clock, route=watched()) as sidecar,
    ):
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        clock.advance(LIMIT_MS - 1)
        assert sidecar.stat("upstream_rq_per_try_idle_timeout") == 0
        clock.advance(1)

        assert (await client.response()).body == b"upstream request timeout"
        assert logged(sidecar) == (504, "UT", "upstream_per_try_idle_timeout", 1)
        assert sidecar.stat("upstream_rq_per_try_idle_timeout") == 1
        assert reports == [CONNECTED, TIMEOUT]


async def test_it_is_tried_again_where_a_timeout_is():
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock, route=watched("5xx")) as sidecar:
        upstream.sequence([Reply(fault="hang"), Reply(body=b"x")])
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        clock.advance(LIMIT_MS)
        clock.advance(5)

        assert (await client.response()).body == b"x"
        assert logged(sidecar) == (200, "-", "via_upstream", 2)


async def test_response_that_stops_is_cut_off():
    clock = ManualClock()
    async with (
        FaultyUpstream(body=b"abcdef", truncate_at=3, end="hang") as upstream,
        Sidecar(upstream, clock=clock, route=watched("5xx")) as sidecar,
    ):
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: sidecar.http_stats.downstream_cx_tx_bytes_total)
        clock.advance(LIMIT_MS)
        response = await client.response()

        assert (response.status, response.complete) == (200, False)
        assert logged(sidecar) == (200, "UT", "upstream_per_try_idle_timeout", 1)


async def test_each_piece_of_the_response_starts_it_anew():
    clock = ManualClock()
    async with (
        FaultyUpstream(body=b"abc", piece_bytes=1, body_delay_ms=5) as upstream,
        Sidecar(upstream, clock=clock, route=watched()) as sidecar,
    ):
        client = await sidecar.client()
        client.send(GET)
        for end in (b"a", b"b"):
            await client.reader.readuntil(end if end != b"a" else b"\r\n\r\na")
            clock.advance(LIMIT_MS - 1)

        assert await client.reader.readexactly(1) == b"c"
        clock.advance(60_000)
        assert sidecar.stat("upstream_rq_per_try_idle_timeout") == 0


@pytest.mark.parametrize("timeout_ms", [LIMIT_MS, LIMIT_MS - 1])
async def test_one_that_ends_with_the_routes_timeout_is_one_reply(timeout_ms):
    clock = ManualClock()
    route = watched(timeout_ms=timeout_ms)
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream, clock=clock, route=route) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        clock.advance(LIMIT_MS)

        assert (await client.response()).status == 504
        assert len(sidecar.log) == 1
        assert len(sidecar.deadlines) == 1  # of the client's connection


async def test_client_that_goes_leaves_no_timeout():
    clock = ManualClock()
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream, clock=clock, route=watched()) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        client.abort()
        await until(lambda: sidecar.listener.connections == 0)

        assert len(sidecar.deadlines) == 0


def test_envoy_is_told():
    (route,) = envoy_virtual_host(virtual_host("*", **watched()), ["*"])["routes"]

    assert route["route"]["retry_policy"]["per_try_idle_timeout"] == "0.2s"
