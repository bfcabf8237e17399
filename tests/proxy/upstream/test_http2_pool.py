"""HTTP/2 connections of one host: how many there are, who gets which, when they end, and what is counted."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hyperframe.frame import GoAwayFrame, HeadersFrame

from outlier import OutlierDetection
from proxy.config.cluster_config import CircuitBreakers, Http2Options
from proxy.config.route_config import RetryPolicy
from tests.proxy.http.client import Client
from tests.proxy.http.http2_client import Http2Client
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, until
from tests.proxy.upstream.http2_upstream import MAX_CONCURRENT_STREAMS, NO_ERROR, Http2Request, Http2Upstream

HTTP2 = Http2Options()


class Gate:
    """Answers of an upstream that are held back until `open`."""

    def __init__(self) -> None:
        self.held: list[Http2Request] = []
        self._open = False

    def answer(self, request: Http2Request) -> None:
        if self._open or request.path == "/quick":
            request.respond(200, b"ok")
        else:
            self.held.append(request)

    def open(self) -> None:
        """Answer what waits, and from now on at once."""
        self._open = True
        held, self.held = self.held, []
        for request in held:
            request.respond(200, b"ok")


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def send(sidecar: Sidecar, count: int) -> list[Client]:
    """Send requests side by side."""
    clients = [await sidecar.client() for _ in range(count)]
    for client in clients:
        client.send(GET)
    return clients


async def statuses(clients: list[Client]) -> list[int]:
    return [(await client.response()).status for client in clients]


def sizes(upstream: Http2Upstream) -> list[int]:
    """How many requests each connection has carried, the largest first."""
    return sorted((len(connection.requests) for connection in upstream.connections), reverse=True)


async def test_requests_side_by_side_share_a_connection(gate):
    async with Http2Upstream(gate.answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        clients = await send(sidecar, 5)
        await until(lambda: len(gate.held) == 5)
        active = sidecar.stat("upstream_cx_active"), sidecar.stat("upstream_rq_active")
        gate.open()

        assert await statuses(clients) == [200] * 5
        assert active == (1, 5)
        assert sizes(upstream) == [5]
        assert (sidecar.stat("upstream_cx_http2_total"), sidecar.stat("upstream_cx_http1_total")) == (1, 0)


async def test_requests_one_after_the_other_use_one_connection():
    async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        client = await sidecar.client()
        for _ in range(3):
            assert (await client.get()).status == 200

        assert [request.stream_id for request in upstream.requests] == [1, 3, 5]
        assert sidecar.stat("upstream_rq_pending_total") == 1


@pytest.mark.parametrize(("limit", "expected"), [(2, [2, 2, 1]), (4, [4, 1]), (5, [5]), (6, [5])])
async def test_own_limit_of_streams_opens_further_connections(gate, limit, expected):
    options = Http2Options(max_concurrent_streams=limit)
    async with Http2Upstream(gate.answer) as upstream, Sidecar(upstream.address, h2_upstream=options) as sidecar:
        clients = await send(sidecar, 5)
        await until(lambda: len(gate.held) == 5)
        gate.open()

        assert await statuses(clients) == [200] * 5
        assert sizes(upstream) == expected


@pytest.mark.parametrize("allowed", [1, 3, 5, 6])
async def test_limit_of_the_host_holds_once_it_is_known(gate, allowed):
    upstream = Http2Upstream(gate.answer, settings={MAX_CONCURRENT_STREAMS: allowed})
    async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        await (await sidecar.client()).get("/quick")
        clients = await send(sidecar, 5)
        await until(lambda: len(gate.held) == 5)
        gate.open()

        assert await statuses(clients) == [200] * 5
        assert len(upstream.connections[0].requests) == 1 + min(allowed, 5)


async def test_connection_is_ready_again_when_a_stream_ends(gate):
    options = Http2Options(max_concurrent_streams=1)
    async with Http2Upstream(gate.answer) as upstream, Sidecar(upstream.address, h2_upstream=options) as sidecar:
        client = await sidecar.client()
        for _ in range(3):
            assert (await client.get("/quick")).status == 200

        assert sizes(upstream) == [3]


async def test_requests_beyond_the_connections_wait_for_a_stream(gate):
    async with (
        Http2Upstream(gate.answer) as upstream,
        Sidecar(
            upstream.address,
            h2_upstream=Http2Options(max_concurrent_streams=2),
            circuit_breakers=CircuitBreakers(max_connections=1),
        ) as sidecar,
    ):
        clients = await send(sidecar, 5)
        await until(lambda: len(gate.held) == 2 and sidecar.stat("upstream_rq_pending_active") == 3)
        gate.open()

        assert await statuses(clients) == [200] * 5
        assert sizes(upstream) == [5]
        assert sidecar.stat("upstream_cx_overflow") > 0


async def test_too_many_that_wait_are_refused(gate):
    async with (
        Http2Upstream(gate.answer) as upstream,
        Sidecar(
            upstream.address,
            h2_upstream=Http2Options(max_concurrent_streams=1),
            circuit_breakers=CircuitBreakers(max_connections=1, max_pending_requests=1),
        ) as sidecar,
    ):
        clients = await send(sidecar, 1)
        await until(lambda: len(gate.held) == 1)
        clients += await send(sidecar, 2)
        await until(lambda: sidecar.stat("upstream_rq_pending_overflow") == 1)
        gate.open()

        assert sorted(await statuses(clients)) == [200, 200, 503]


@pytest.mark.parametrize("warm", [True, False], ids=["open connection", "new connection"])
async def test_too_many_in_flight_are_refused(gate, warm):
    async with (
        Http2Upstream(gate.answer) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, circuit_breakers=CircuitBreakers(max_requests=1)) as sidecar,
    ):
        if warm:
            await (await sidecar.client()).get("/quick")
        clients = await send(sidecar, 3)
        await until(lambda: sidecar.stat("upstream_rq_active_overflow") == 2 and gate.held)
        gate.open()

        assert sorted(await statuses(clients)) == [200, 503, 503]


@pytest.mark.parametrize(("limit", "expected"), [(2, [2, 2, 1]), (5, [5]), (6, [5])])
async def test_connection_carries_at_most_so_many_requests(limit, expected):
    async with (
        Http2Upstream() as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, max_requests_per_connection=limit) as sidecar,
    ):
        client = await sidecar.client()
        for _ in range(5):
            assert (await client.get()).status == 200

        assert sizes(upstream) == expected
        assert sidecar.stat("upstream_cx_max_requests") == 5 // limit
        await until(lambda: sum(connection.closed for connection in upstream.connections) == 5 // limit)


@pytest.mark.parametrize(("before", "connections"), [(2**29 - 2, 1), (2**29 - 1, 2)])
async def test_connection_is_replaced_before_its_numbers_run_out(before, connections):
    async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        client = await sidecar.client()
        await client.get()
        (connection,) = sidecar.cluster.hosts[0].pool._ready
        connection.requests = before
        for _ in range(2):
            assert (await client.get()).status == 200

        assert len(upstream.connections) == connections
        assert sidecar.stat("upstream_cx_max_requests") == 1


async def test_connections_are_opened_for_no_more_than_they_may_carry(gate):
    async with (
        Http2Upstream(gate.answer) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, max_requests_per_connection=2) as sidecar,
    ):
        clients = await send(sidecar, 5)
        await until(lambda: len(gate.held) == 5)
        gate.open()

        assert await statuses(clients) == [200] * 5
        assert sizes(upstream) == [2, 2, 1]


class TestEndOfConnections:
    async def test_idle_connection_is_closed(self):
        async with (
            Http2Upstream() as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, idle_timeout_ms=20) as sidecar,
        ):
            await (await sidecar.client()).get()
            await until(lambda: upstream.connections[0].closed)

            assert sidecar.stat("upstream_cx_idle_timeout") == 1
            assert sidecar.stat("upstream_cx_destroy_local") == 1

    async def test_busy_connection_is_not_idle(self, gate):
        clock = ManualClock()
        async with (
            Http2Upstream(gate.answer) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, idle_timeout_ms=10, clock=clock) as sidecar,
        ):
            clients = await send(sidecar, 2)
            await until(lambda: len(gate.held) == 2)
            gate.held.pop().respond(200, b"ok")
            await until(lambda: sidecar.stat("upstream_rq_active") == 1)
            clock.advance(1_000)
            gate.open()

            assert await statuses(clients) == [200, 200]
            assert sizes(upstream) == [2]

    async def test_old_connection_finishes_what_it_carries(self, gate):
        clock = ManualClock()
        async with (
            Http2Upstream(gate.answer) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, max_connection_duration_ms=30, clock=clock) as sidecar,
        ):
            clients = await send(sidecar, 2)
            await until(lambda: len(gate.held) == 2)
            clock.advance(30)
            assert sidecar.stat("upstream_cx_max_duration_reached") == 1
            fresh = await (await sidecar.client()).get("/quick")
            gate.open()

            assert fresh.status == 200
            assert await statuses(clients) == [200, 200]
            await until(lambda: upstream.connections[0].closed)
            assert sizes(upstream) == [2, 1]

    async def test_ejected_host_is_left_once_its_requests_are_done(self, gate):
        def answer(request: Http2Request) -> None:
            if request.path == "/unwell":
                request.respond(503)
            else:
                gate.answer(request)

        detection = OutlierDetection(consecutive_5xx=1, max_ejection_percent=100)
        async with (
            Http2Upstream(answer) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, outlier_detection=detection) as sidecar,
        ):
            clients = await send(sidecar, 2)
            await until(lambda: len(gate.held) == 2)
            await (await sidecar.client()).get("/unwell")
            ejected = sidecar.cluster.hosts[0].health_flags_text()
            gate.open()

            assert ejected == "/failed_outlier_check"
            assert await statuses(clients) == [200, 200]
            await until(lambda: upstream.connections[0].closed)
            assert sizes(upstream) == [3]

    async def test_removed_host_is_left_once_its_requests_are_done(self, gate):
        async with Http2Upstream(gate.answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            clients = await send(sidecar, 2)
            await until(lambda: len(gate.held) == 2)
            with removed(sidecar):
                assert not upstream.connections[0].closed
                gate.open()

                assert await statuses(clients) == [200, 200]
                await until(lambda: upstream.connections[0].closed)

    async def test_removed_host_without_requests_is_left_at_once(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            await (await sidecar.client()).get()
            with removed(sidecar):
                await until(lambda: upstream.connections[0].closed)

    @pytest.mark.parametrize("protocol", [{"h2_upstream": HTTP2}, {"use_downstream_protocol": True}], ids=["h2", "any"])
    async def test_late_retry_on_a_removed_host_leaves_no_connection(self, protocol):
        clock = ManualClock()
        policy = RetryPolicy(retry_on="5xx", num_retries=1)
        upstream = Http2Upstream(lambda request: request.respond(503 if len(upstream.connections) == 1 else 200))
        async with upstream, Sidecar(upstream.address, clock=clock, route={"retry": policy}, **protocol) as sidecar:
            client = await Http2Client.connect(sidecar)
            stream_id = client.request()
            await until(lambda: sidecar.stat("upstream_rq_retry"))
            with removed(sidecar):
                clock.advance(100)

                assert (await client.response(stream_id)).status == 200
                await until(lambda: [connection.closed for connection in upstream.connections] == [True, True])
            client.abort()

    async def test_going_away_while_idle_closes_the_connection(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            await client.get()
            upstream.connections[0].go_away(1, NO_ERROR)
            await until(lambda: sidecar.stat("upstream_cx_close_notify") == 1)
            await client.get()

            assert sizes(upstream) == [1, 1]
            assert sidecar.stat("upstream_cx_destroy_local") == 1

    async def test_a_request_that_waits_is_not_given_to_a_host_that_is_going_away(self):
        """The stream that it waits for is free in the very read that says so."""
        held = []

        def leave(request: Http2Request) -> None:
            connection = request.connection
            head = HeadersFrame(1, connection.encoder.encode([(":status", "200")]), flags=["END_HEADERS", "END_STREAM"])
            connection.send(head, GoAwayFrame(0, last_stream_id=1))

        def answer(request: Http2Request) -> None:
            if len(upstream.connections) == 1:
                held.append(request)
            else:
                request.respond()

        upstream = Http2Upstream(answer)
        async with (
            upstream,
            Sidecar(
                upstream.address,
                h2_upstream=Http2Options(max_concurrent_streams=1),
                circuit_breakers=CircuitBreakers(max_connections=1),
            ) as sidecar,
        ):
            clients = await send(sidecar, 2)
            await until(lambda: held and sidecar.stat("upstream_rq_pending_active") == 1)
            leave(held[0])

            assert await statuses(clients) == [200, 200]
            assert sizes(upstream) == [1, 1]

    async def test_going_away_lets_requests_finish_and_takes_no_more(self, gate):
        async with Http2Upstream(gate.answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            clients = await send(sidecar, 2)
            await until(lambda: len(gate.held) == 2)
            upstream.connections[0].go_away(3, NO_ERROR)
            await until(lambda: sidecar.stat("upstream_cx_close_notify") == 1)
            assert (await (await sidecar.client()).get("/quick")).status == 200
            gate.open()

            assert await statuses(clients) == [200, 200]
            assert sizes(upstream) == [2, 1]


@contextmanager
def removed(sidecar: Sidecar) -> Iterator[None]:
    """Take the cluster out of the configuration, and check that nothing stays of it."""
    cluster = sidecar.cluster
    sidecar.apply()
    yield
    assert cluster.stats.upstream_rq_active == 0


async def test_connection_that_cannot_be_had_fails_all_that_wait():
    upstream = Http2Upstream()
    async with upstream:
        pass
    async with Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        clients = await send(sidecar, 3)

        assert await statuses(clients) == [503] * 3
        assert sidecar.stat("upstream_cx_connect_fail") == 1
        assert sidecar.stat("upstream_rq_pending_failure_eject") == 3


async def test_connect_timeout(black_hole):
    clock = ManualClock()
    async with Sidecar(black_hole, h2_upstream=HTTP2, connect_timeout_ms=30, clock=clock) as sidecar:
        clients = await send(sidecar, 2)
        await until(lambda: sidecar.stat("upstream_rq_pending_active") == 2)
        clock.advance(30)

        assert await statuses(clients) == [503] * 2
        assert (sidecar.stat("upstream_cx_total"), sidecar.stat("upstream_cx_connect_timeout")) == (1, 1)
