"""Attempts behind one response: what is sent again, who is charged, and that nothing is left of any of them."""

import asyncio
import socket

import pytest

from outlier import OutlierDetection, Result
from proxy.config.cluster_config import CircuitBreakers
from proxy.config.route_config import RetryPolicy
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, logged, post, until

CONNECTED = (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None)
CONNECT_FAILED = (Result.LOCAL_ORIGIN_CONNECT_FAILED, None)
OK = (Result.EXT_ORIGIN_REQUEST_SUCCESS, 200)
UNAVAILABLE = (Result.EXT_ORIGIN_REQUEST_FAILED, 503)
TIMEOUT = (Result.LOCAL_ORIGIN_TIMEOUT, 504)


def retrying(retry_on: str = "5xx", num_retries: int = 2, timeout_ms: int = 0, **fields):
    """Return the fields of a route that tries again after about no time."""
    policy = RetryPolicy(num_retries=num_retries, retry_on=retry_on, **{"base_interval_ms": 1, **fields})
    return {"timeout_ms": timeout_ms, "retry": policy}


async def test_every_attempt_is_charged_to_its_host():
    """CASES SEM-10: the client sees 200 each time, the failing host is ejected after its fifth failure."""
    detection = OutlierDetection(consecutive_5xx=5, max_ejection_percent=100)
    async with (
        FaultyUpstream(status=503) as bad,
        FaultyUpstream() as good,
        Sidecar(bad, good, outlier_detection=detection, route=retrying()) as sidecar,
    ):
        client = await sidecar.client()
        statuses = []
        while not sidecar.cluster.hosts[0].monitor.ejected and len(statuses) < 20:
            statuses.append((await client.get()).status)

        assert set(statuses) == {200}
        assert bad.request_count == 5


async def test_reports_of_a_request_that_succeeds_at_last():
    async with FaultyUpstream() as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        (reports,) = sidecar.record()
        upstream.sequence([Reply(status=503), Reply(fault="reset")])
        response = await (await sidecar.client()).get()

        assert response.status == 200
        assert reports == [CONNECTED, UNAVAILABLE, CONNECTED, CONNECT_FAILED, CONNECTED, OK]
        assert logged(sidecar) == (200, "-", "via_upstream", 3)
        assert sidecar.stat("upstream_rq_retry") == 2
        assert sidecar.stat("upstream_rq_retry_success") == 1
        assert (sidecar.stat("upstream_rq_200"), sidecar.stat("upstream_rq_503")) == (1, 0)
        assert sidecar.stat("retry.upstream_rq_503") == 1


async def test_last_response_goes_through_when_no_try_is_left():
    async with FaultyUpstream(status=503, body=b"theirs") as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        response = await (await sidecar.client()).get()

        assert (response.status, response.body) == (503, b"theirs")
        assert logged(sidecar) == (503, "URX", "via_upstream", 3)
        assert (upstream.request_count, sidecar.stat("upstream_rq_retry_limit_exceeded")) == (3, 1)


async def test_last_reset_is_told_when_no_try_is_left():
    async with FaultyUpstream(fault="close") as upstream, Sidecar(upstream, route=retrying(num_retries=1)) as sidecar:
        response = await (await sidecar.client()).get()

        assert response.body == (
            b"upstream connect error or disconnect/reset before headers. "
            b"retried and the latest reset reason: connection termination"
        )
        assert logged(sidecar)[:2] == (503, "URX,UC")


async def test_body_of_a_retried_response_is_not_mixed_with_the_next():
    async with FaultyUpstream(body=b"good") as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        upstream.for_next(1, status=503, body=b"bad" * 10_000)
        client = await sidecar.client()

        assert [(await client.get()).body for _ in range(2)] == [b"good", b"good"]


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_request_body_is_sent_again_whole(framing):
    body = bytes(range(256)) * 400
    request = post(body)
    if framing == "chunked":
        head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        request = head + b"%x\r\n%b\r\n0\r\nx-t: 1\r\n\r\n" % (len(body), body)
    async with FaultyUpstream() as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        upstream.sequence([Reply(status=503), Reply(fault="close")])
        response = await (await sidecar.client()).request(request)

        assert response.status == 200
        assert [bytes(each.body) for each in upstream.requests] == [body] * 3
        assert [each.trailers for each in upstream.requests] == [[("x-t", "1")] if framing == "chunked" else []] * 3


@pytest.mark.parametrize(("size", "attempts"), [(1024 * 1024, 3), (1024 * 1024 + 1, 1)])
async def test_a_body_above_the_limit_ends_retries(size, attempts):
    """facts: "bodies over the per-request buffer limit end retries (retry_or_shadow_abandoned)"."""
    async with FaultyUpstream(status=503) as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        response = await (await sidecar.client()).request(post(bytes(size)))

        assert response.status == 503
        assert (upstream.request_count, sidecar.log[0]["attempt"]) == (attempts, attempts)
        assert sidecar.stat("retry_or_shadow_abandoned") == (1 if attempts == 1 else 0)


async def test_a_failure_after_the_head_is_not_tried_again():
    reply = {"body": b"abc", "truncate_at": 1}
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream, route=retrying("5xx,reset")) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: sidecar.log)

        assert upstream.request_count == 1


async def test_requests_of_a_pipeline_wait_for_the_retries_before_them():
    async with FaultyUpstream() as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        upstream.set(body=b"rest")
        upstream.sequence([Reply(status=503), Reply(status=503), Reply(body=b"first")])
        client = await sidecar.client()
        client.send(GET * 3)

        assert [(await client.response()).body for _ in range(3)] == [b"first", b"rest", b"rest"]


async def test_a_refusal_in_the_middle_of_the_body_is_tried_again_with_the_whole():
    async with FaultyUpstream() as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        upstream.for_next(1, status=503, early=True)
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
        await arrived(upstream, 2)
        client.send(b"def")

        assert (await client.response("POST")).status == 200
        assert bytes(upstream.requests[-1].body) == b"abcdef"


async def test_a_long_body_behind_a_response_that_has_begun_abandons_nothing():
    reply = {"body": b"ab", "truncate_at": 1, "end": "hang", "early": True}
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000001\r\n\r\n")
        await client.reader.readuntil(b"\r\n\r\na")
        client.send(bytes(2_000_000))
        await until(lambda: len(upstream.requests[0].body) == 2_000_000)

        assert sidecar.stat("retry_or_shadow_abandoned") == 0


@pytest.mark.parametrize("first", [Reply(status=503), Reply(fault="close")], ids=["503", "closed"])
async def test_an_upgrade_is_tried_again_too(first):
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
    async with FaultyUpstream() as upstream, Sidecar(upstream, route=retrying()) as sidecar:
        upstream.sequence([first, Reply(garbage=switch, end="hang")])
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")

        assert (await client.response()).status == 101
        assert await client.reader.readexactly(5) == b"hello"
        assert [request.header("upgrade") for request in upstream.requests][:2] == ["websocket"] * 2


class TestPerTryTimeout:
    async def test_each_try_has_its_own_time(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(fault="hang") as upstream,
            Sidecar(upstream, clock=clock, route=retrying(num_retries=1, per_try_timeout_ms=200)) as sidecar,
        ):
            (reports,) = sidecar.record()
            client = await sidecar.client()
            client.send(GET)
            await arrived(upstream)
            clock.advance(201)
            clock.advance(10)  # the back-off
            await arrived(upstream, 2)
            clock.advance(199)
            assert sidecar.log == []
            clock.advance(2)
            response = await client.response()

            assert (response.status, response.body) == (504, b"upstream request timeout")
            assert logged(sidecar) == (504, "URX,UT", "upstream_per_try_timeout", 2)
            assert reports == [CONNECTED, TIMEOUT] * 2
            assert sidecar.stat("upstream_rq_per_try_timeout") == 2
            await until(lambda: upstream.open_connections == 0)

    async def test_that_ends_with_the_routes_own_is_one_reply(self):
        clock = ManualClock()
        route = retrying("", timeout_ms=200, per_try_timeout_ms=200)
        async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream, clock=clock, route=route) as sidecar:
            client = await sidecar.client()
            client.send(GET)
            await arrived(upstream)
            clock.advance(201)
            assert (await client.response()).status == 504
            upstream.set(body=b"next")

            assert (await client.get()).body == b"next"
            assert sidecar.stat("upstream_rq_completed") == 2
            assert sidecar.stat("upstream_rq_timeout") + sidecar.stat("upstream_rq_per_try_timeout") == 1

    async def test_works_without_retries(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(fault="hang") as upstream,
            Sidecar(upstream, clock=clock, route=retrying("", per_try_timeout_ms=200)) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await arrived(upstream)
            clock.advance(201)

            assert (await client.response()).status == 504
            assert logged(sidecar) == (504, "UT", "upstream_per_try_timeout", 1)

    async def test_does_not_count_once_the_head_was_passed_on(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(body=b"ab", truncate_at=1, end="hang") as upstream,
            Sidecar(upstream, clock=clock, route=retrying(per_try_timeout_ms=200)) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await client.reader.readuntil(b"\r\n\r\na")
            clock.advance(60_000)

            assert (sidecar.log, upstream.open_connections) == ([], 1)

    async def test_counts_from_the_end_of_the_request(self):
        clock = ManualClock()
        async with (
            FaultyUpstream() as upstream,
            Sidecar(upstream, clock=clock, route=retrying(per_try_timeout_ms=200)) as sidecar,
        ):
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")
            await arrived(upstream)
            clock.advance(60_000)
            client.send(b"x")

            assert (await client.response("POST")).status == 200


class TestBackOff:
    """Between two attempts nobody has the request."""

    async def _in_back_off(self, sidecar, upstream):
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: sidecar.stat("upstream_rq_retry"))
        return client

    async def test_client_that_leaves_ends_it(self):
        clock = ManualClock()
        async with FaultyUpstream(status=503) as upstream, Sidecar(upstream, clock=clock, route=retrying()) as sidecar:
            client = await self._in_back_off(sidecar, upstream)
            client.abort()
            await until(lambda: sidecar.log)
            clock.advance(60_000)

            assert upstream.request_count == 1
            assert sidecar.cluster.resources.retries == 0
            assert logged(sidecar)[:2] == (0, "DC")

    @pytest.mark.parametrize("end", ["client", "response"])
    async def test_nothing_is_left_of_its_timers(self, end):
        clock = ManualClock()
        route = retrying(timeout_ms=15_000, per_try_timeout_ms=5_000)
        async with (
            FaultyUpstream() as upstream,
            Sidecar(upstream, clock=clock, route=route, idle_timeout_ms=0) as sidecar,
        ):
            upstream.for_next(1, status=503)
            client = await self._in_back_off(sidecar, upstream)
            if end == "response":
                clock.advance(100)
                await client.response()
            client.abort()
            await until(lambda: sidecar.listener.connections == 0)

            assert len(sidecar.deadlines) == 0

    async def test_route_timeout_ends_it(self):
        """facts: "a route timeout while a retry waits or runs: 504 UT, no URX"."""
        clock = ManualClock()
        route = retrying(base_interval_ms=10_000, timeout_ms=100)
        async with FaultyUpstream(status=503) as upstream, Sidecar(upstream, clock=clock, route=route) as sidecar:
            (reports,) = sidecar.record()
            client = await self._in_back_off(sidecar, upstream)
            clock.advance(101)

            assert (await client.response()).status == 504
            assert logged(sidecar)[:3] == (504, "UT", "response_timeout")
            assert reports == [CONNECTED, UNAVAILABLE]
            assert sidecar.cluster.resources.retries == 0

    async def test_cluster_that_goes_leaves_no_connection(self):
        """The retry opens one, since that of the first attempt is drained, and nobody would use it again."""
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock, route=retrying()) as sidecar:
            upstream.for_next(1, status=503)
            client = await self._in_back_off(sidecar, upstream)
            sidecar.apply()
            clock.advance(100)

            assert (await client.response()).status == 200
            await until(lambda: upstream.open_connections == 0)

    async def test_drain_waits_for_it(self):
        clock = ManualClock()
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, clock=clock, route=retrying()) as sidecar:
            upstream.for_next(1, status=503)
            client = await self._in_back_off(sidecar, upstream)
            sidecar.listener.drain()
            clock.advance(60_000)
            response = await client.response()

            assert (response.body, response.header("connection")) == (b"x", "close")


async def test_limit_of_retries_at_a_time():
    """vectors `cbretry1`: the original response is passed through with flag UO."""
    clock = ManualClock()
    async with (
        FaultyUpstream(status=503) as upstream,
        Sidecar(upstream, clock=clock, route=retrying(), circuit_breakers=CircuitBreakers(max_retries=1)) as sidecar,
    ):
        first = await sidecar.client()
        first.send(GET)
        await until(lambda: sidecar.cluster.resources.retries == 1)
        assert sidecar.stat("circuit_breakers.default.rq_retry_open") == 1
        assert (await (await sidecar.client()).get()).status == 503
        assert logged(sidecar) == (503, "UO", "via_upstream", 1)
        assert sidecar.stat("upstream_rq_retry_overflow") == 1
        first.abort()
        await until(lambda: sidecar.cluster.resources.retries == 0)

        assert sidecar.stat("circuit_breakers.default.rq_retry_open") == 0


async def test_a_full_way_to_the_first_host_does_not_stop_the_body_for_the_second():
    """The client is not read while the host is full; that host fails, and the retry must be able to go on."""
    body = bytes(1_000_000)
    taken = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        taken.append(writer)
        if len(taken) == 1:
            await failed.wait()
            writer.transport.abort()
            return
        await reader.readexactly(len(body))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    failed = asyncio.Event()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # keeps the sending side small, too
    listener.bind(("127.0.0.1", 0))
    async with (
        RawUpstream(serve, sock=listener, limit=1_024) as upstream,
        Sidecar(upstream.address, route=retrying("reset")) as sidecar,
    ):
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body))
        await until(lambda: taken)
        client.send(body[:900_000])
        await until(lambda: sidecar.http_stats.downstream_flow_control_paused_reading_total)
        failed.set()
        client.send(body[900_000:])

        assert (await client.response("POST")).body == b"ok"
