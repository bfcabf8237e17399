"""Attempts side by side: one that is late is kept, another is made, the first good response is the client's.

What Envoy does in the same situations is compared in `tests/oracle/test_hedging.py`.
"""

import asyncio

import pytest

from outlier import Result
from proxy.config.cluster_config import CircuitBreakers
from proxy.config.route_config import RetryPolicy
from proxy.router.attempts import Attempts
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, logged, post, until

PER_TRY_MS = 200
BACKOFF_MS = 10
CONNECTED = (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None)
CONNECT_FAILED = (Result.LOCAL_ORIGIN_CONNECT_FAILED, None)
OK = (Result.EXT_ORIGIN_REQUEST_SUCCESS, 200)
UNAVAILABLE = (Result.EXT_ORIGIN_REQUEST_FAILED, 503)
TIMEOUT = (Result.LOCAL_ORIGIN_TIMEOUT, 504)


def hedging(num_retries: int = 1, retry_on: str = "5xx", timeout_ms: int = 0, **fields):
    """Return the fields of a route that hedges after `PER_TRY_MS`."""
    policy = RetryPolicy(
        num_retries=num_retries,
        retry_on=retry_on,
        **{"base_interval_ms": BACKOFF_MS, "per_try_timeout_ms": PER_TRY_MS, **fields},
    )
    return {"timeout_ms": timeout_ms, "retry": policy, "hedge_on_per_try_timeout": True}


class Answering(RawUpstream):
    """Attempts are answered in the order and at the time that the test says; `attempts` are their writers."""

    def __init__(self) -> None:
        super().__init__(self._hear)
        self.attempts: list[asyncio.StreamWriter] = []
        self.lost = 0

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.attempts.append(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lost += 1

    def answer(self, attempt: int, status: int = 200) -> None:
        body = b"%d" % attempt
        self.attempts[attempt].write(b"HTTP/1.1 %d X\r\ncontent-length: 1\r\n\r\n%b" % (status, body))


async def start(sidecar: Sidecar, upstream: Answering, clock: ManualClock, attempts: int = 2):
    """Send a request and let so many attempts be under way; return the client."""
    client = await sidecar.client()
    client.send(GET)
    for number in range(1, attempts + 1):
        await until(lambda number=number: len(upstream.attempts) == number)
        if number < attempts:
            clock.advance(PER_TRY_MS)
            clock.advance(BACKOFF_MS)
    return client


@pytest.mark.parametrize("winner", [0, 1])
async def test_the_first_good_response_is_the_clients_and_the_other_attempt_is_reset(winner):
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock)
        upstream.answer(winner)

        assert (await client.response()).body == b"%d" % winner
        await until(lambda: upstream.lost == 1)
        assert reports == [CONNECTED, TIMEOUT, CONNECTED, OK]
        assert logged(sidecar) == (200, "-", "via_upstream", 2)
        assert sidecar.stat("upstream_rq_retry_success") == winner
        assert sidecar.stat("upstream_rq_per_try_timeout") == 0
        assert sidecar.cluster.resources.retries == 0


async def test_both_sides_of_the_time():
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        client = await start(sidecar, upstream, clock, attempts=1)
        clock.advance(PER_TRY_MS - 1)
        clock.advance(0)
        assert sidecar.stat("upstream_rq_retry") == 0
        clock.advance(1)
        assert sidecar.stat("upstream_rq_retry") == 1
        upstream.answer(0)

        assert (await client.response()).body == b"0"  # in the back-off of the second
        clock.advance(60_000)
        assert len(upstream.attempts) == 1


async def test_a_failure_waits_for_the_other_attempt():
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock)
        upstream.answer(1, 503)
        await until(lambda: UNAVAILABLE in reports)
        assert sidecar.log == []
        upstream.answer(0)

        assert (await client.response()).status == 200
        assert reports == [CONNECTED, TIMEOUT, CONNECTED, UNAVAILABLE, OK]
        assert logged(sidecar) == (200, "URX", "via_upstream", 2)


async def test_of_two_failures_the_last_is_told():
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock)
        upstream.attempts[1].transport.abort()
        await until(lambda: CONNECT_FAILED in reports)
        upstream.answer(0, 503)

        assert (await client.response()).body == b"0"
        assert logged(sidecar) == (503, "URX", "via_upstream", 2)
        assert sidecar.stat("upstream_rq_503") == 2


async def test_route_timeout_ends_all_and_charges_a_late_one_once():
    clock = ManualClock()
    route = hedging(timeout_ms=1_000)
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=route) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock)
        clock.advance(1_000 - PER_TRY_MS)

        assert (await client.response()).status == 504
        await until(lambda: upstream.lost == 2)
        assert reports == [CONNECTED, TIMEOUT, CONNECTED, TIMEOUT]
        assert logged(sidecar) == (504, "URX,UT", "response_timeout", 2)
        assert sidecar.stat("upstream_rq_timeout") == sidecar.stat("upstream_rq_504") == 2


async def test_client_that_leaves_ends_all_and_charges_nobody():
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock)
        client.abort()
        await until(lambda: upstream.lost == 2)

        assert reports == [CONNECTED, TIMEOUT, CONNECTED]
        assert logged(sidecar)[:2] == (0, "DC")
        assert sidecar.cluster.resources.retries == 0
        await until(lambda: sidecar.listener.connections == 0)
        assert len(sidecar.deadlines) == 0


async def test_client_that_is_full_stops_and_starts_the_reading_of_all():
    """An HTTP/2 client may be full before a response has begun, of another stream's."""
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        client = await start(sidecar, upstream, clock)
        (connection,) = sidecar.listener._connections
        connection.pause_writing()
        assert sidecar.stat("upstream_flow_control_paused_reading_total") == 2
        connection.resume_writing()
        upstream.answer(1, 503)
        upstream.answer(0)

        assert (await client.response()).body == b"0"


async def test_request_body_is_sent_with_each():
    clock = ManualClock()
    body = bytes(range(256)) * 100
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock, route=hedging()) as sidecar:
        upstream.sequence([Reply(fault="hang")])
        client = await sidecar.client()
        client.send(post(body))
        await arrived(upstream)
        await until(lambda: len(upstream.requests[0].body) == len(body))
        clock.advance(PER_TRY_MS)
        clock.advance(BACKOFF_MS)

        assert (await client.response("POST")).status == 200
        assert [bytes(request.body) for request in upstream.requests] == [body] * 2


async def test_without_a_word_to_retry_on_a_late_attempt_is_waited_for():
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging(retry_on="")) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock, attempts=1)
        clock.advance(60_000)
        upstream.answer(0)

        assert (await client.response()).status == 200
        assert reports == [CONNECTED, TIMEOUT, OK]


async def test_limit_of_retries_at_a_time_counts():
    clock = ManualClock()
    breakers = CircuitBreakers(max_retries=0)
    async with (
        Answering() as upstream,
        Sidecar(upstream.address, clock=clock, route=hedging(), circuit_breakers=breakers) as sidecar,
    ):
        client = await start(sidecar, upstream, clock, attempts=1)
        clock.advance(PER_TRY_MS)
        assert sidecar.stat("upstream_rq_retry_overflow") == 1
        upstream.answer(0)

        assert (await client.response()).status == 200
        assert logged(sidecar) == (200, "UO", "via_upstream", 1)


async def test_no_host_left_for_the_second_ends_the_first():
    """Envoy's `Filter::continueDoRetry`: without a host the request is over, whatever is under way."""
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        client = await start(sidecar, upstream, clock, attempts=1)
        clock.advance(PER_TRY_MS)
        sidecar.cluster.load_balancer.choose_host = lambda _: None
        clock.advance(BACKOFF_MS)

        assert (await client.response()).body == b"no healthy upstream"
        await until(lambda: upstream.lost == 1)


async def test_interim_response_in_the_back_off_does_not_lose_the_attempt():
    clock = ManualClock()
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=hedging()) as sidecar:
        client = await start(sidecar, upstream, clock, attempts=1)
        clock.advance(PER_TRY_MS)
        upstream.attempts[0].write(b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n")
        await client.reader.readuntil(b"link: a\r\n\r\n")
        clock.advance(BACKOFF_MS)
        await until(lambda: len(upstream.attempts) == 2)
        upstream.answer(0)

        assert (await client.response()).body == b"0"
        await until(lambda: upstream.lost == 1)


async def test_silence_after_the_head_is_charged_but_does_not_end_the_response():
    """Envoy: with hedging every timeout of an attempt is a soft one."""
    clock = ManualClock()
    route = hedging(per_try_timeout_ms=None, per_try_idle_timeout_ms=100)
    async with Answering() as upstream, Sidecar(upstream.address, clock=clock, route=route) as sidecar:
        (reports,) = sidecar.record()
        client = await start(sidecar, upstream, clock, attempts=1)
        upstream.attempts[0].write(b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\na")
        await client.reader.readuntil(b"\r\n\r\na")
        clock.advance(100)
        upstream.attempts[0].write(b"b")

        assert await client.reader.readexactly(1) == b"b"
        assert reports == [CONNECTED, OK, TIMEOUT]


def test_an_exchange_that_does_not_hedge_holds_nothing_for_it():
    assert Attempts._others == ()
    assert "_others" not in vars(object.__new__(Attempts))
