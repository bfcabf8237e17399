"""What each event reports to a host's monitor, and what it counts on the host.

Expected values: Envoy 1.40's router, row by row (`31_router_reporting.yaml` of the outlier detection vectors).
"""

import pytest

from outlier import Result
from proxy.config.cluster_config import CircuitBreakers
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, until

CONNECTED = (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None)
CONNECT_FAILED = (Result.LOCAL_ORIGIN_CONNECT_FAILED, None)
TIMEOUT = (Result.LOCAL_ORIGIN_TIMEOUT, 504)

GRPC = b"POST /p.S/M HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n"


def success(code: int) -> tuple[Result, int]:
    return Result.EXT_ORIGIN_REQUEST_SUCCESS, code


def failure(code: int) -> tuple[Result, int]:
    return Result.EXT_ORIGIN_REQUEST_FAILED, code


async def reports_of(reply: Reply, request: bytes = GET, **cluster):
    """Return what one request reports that gets this reply."""
    async with FaultyUpstream() as upstream, Sidecar(upstream, **cluster) as sidecar:
        upstream.set(reply)
        (reports,) = sidecar.record()
        await (await sidecar.client()).request(request)
        return reports


@pytest.mark.parametrize("status", [200, 204, 302, 304, 404, 499])
async def test_status_below_500_is_a_success(status):
    assert await reports_of(Reply(status=status)) == [CONNECTED, success(status)]


@pytest.mark.parametrize("status", [500, 502, 503, 599, 600, 999])
async def test_status_from_500_on_is_a_failure(status):
    assert await reports_of(Reply(status=status)) == [CONNECTED, failure(status)]


async def test_a_pooled_connection_reports_as_a_new_one_does():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        (reports,) = sidecar.record()
        client = await sidecar.client()
        await client.get()
        await client.get()

        assert reports == [CONNECTED, success(200)] * 2
        assert upstream.connection_count == 1


@pytest.mark.parametrize("statuses", [(100,), (103,), (102, 103)], ids=str)
async def test_interim_responses_report_nothing(statuses):
    assert await reports_of(Reply(informational=statuses)) == [CONNECTED, success(200)]


@pytest.mark.parametrize(("grpc_status", "report"), [(0, success(200)), (5, success(404)), (14, failure(503))])
async def test_grpc_status_in_the_head_counts_as_the_http_status_it_stands_for(grpc_status, report):
    headers = {"content-type": "application/grpc", "grpc-status": str(grpc_status)}

    assert await reports_of(Reply(headers=headers), GRPC) == [CONNECTED, report]


async def test_grpc_status_in_the_trailers_does_not_count():
    reply = Reply(framing="chunked", headers={"content-type": "application/grpc"}, trailers={"grpc-status": "14"})

    assert await reports_of(reply, GRPC) == [CONNECTED, success(200)]


async def test_grpc_status_counts_only_for_a_grpc_request():
    reply = Reply(headers={"content-type": "application/grpc", "grpc-status": "14"})

    assert await reports_of(reply) == [CONNECTED, success(200)]


@pytest.mark.parametrize(
    ("status", "report"),
    [
        (200, (Result.EXT_ORIGIN_REQUEST_DEGRADED, 200)),
        (404, (Result.EXT_ORIGIN_REQUEST_DEGRADED, 404)),
        (503, failure(503)),
    ],
)
@pytest.mark.parametrize("value", ["true", "", "false"])
async def test_degraded_header_counts_unless_the_status_is_a_failure(status, report, value):
    reply = Reply(status=status, headers={"x-envoy-degraded": value})

    assert await reports_of(reply) == [CONNECTED, report]


@pytest.mark.parametrize(
    ("status", "report"), [(429, failure(500)), (503, failure(503)), (500, success(200)), (200, success(200))]
)
async def test_configured_error_codes_replace_the_5xx_rule(status, report):
    """facts: a match is FAILED (the status if 5xx, else 500), anything else SUCCESS(200), 5xx included."""
    assert await reports_of(Reply(status=status), error_codes=(429, 503)) == [CONNECTED, report]


async def test_connection_refused():
    async with FaultyUpstream() as upstream:
        address = upstream.address
    async with Sidecar(address) as sidecar:
        (reports,) = sidecar.record()
        await (await sidecar.client()).get()

        assert reports == [CONNECT_FAILED]
        assert sidecar.cluster.hosts[0].cx_connect_fail == 1


async def test_connect_timeout_is_a_failed_connect_not_a_timeout(black_hole):
    async with Sidecar(black_hole, connect_timeout_ms=20) as sidecar:
        (reports,) = sidecar.record()
        await (await sidecar.client()).get()

        assert reports == [CONNECT_FAILED]


async def test_every_request_that_waited_for_a_refused_connection_reports(black_hole):
    """Envoy fails all that wait when one connection fails."""
    limits = CircuitBreakers(max_connections=1)
    clock = ManualClock()
    async with Sidecar(black_hole, clock=clock, connect_timeout_ms=2_000, circuit_breakers=limits) as sidecar:
        (reports,) = sidecar.record()
        clients = [await sidecar.client() for _ in range(3)]
        for client in clients:
            client.send(GET)
        await until(lambda: sidecar.stat("upstream_rq_pending_active") == 3)
        clock.advance(2_001)
        for client in clients:
            assert (await client.response()).status == 503

        assert reports == [CONNECT_FAILED] * 3
        assert sidecar.stat("upstream_cx_connect_fail") == 1


@pytest.mark.parametrize("fault", ["reset", "close"])
async def test_end_before_headers(fault):
    assert await reports_of(Reply(fault=fault)) == [CONNECTED, CONNECT_FAILED]


async def test_bytes_that_are_not_http():
    assert await reports_of(Reply(garbage=b"\x00\x01\r\n\r\n", end="hang")) == [CONNECTED, CONNECT_FAILED]


async def test_too_long_a_head_is_charged_to_the_host():
    """CASES HTTP-10: a large upstream header is a 502 and an outlier event."""
    assert await reports_of(Reply(headers={"x": "a" * 90_000})) == [CONNECTED, CONNECT_FAILED]


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("end", ["reset", "close"])
async def test_end_inside_the_body_is_a_second_report(status, end):
    head = success(200) if status == 200 else failure(503)
    clock = ManualClock()
    async with (
        FaultyUpstream(status=status, body=b"abc", truncate_at=1, end=end) as upstream,
        Sidecar(upstream, clock=clock) as sidecar,
    ):
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: sidecar.log)

        assert reports == [CONNECTED, head, CONNECT_FAILED]


async def test_route_timeout_before_headers():
    clock = ManualClock()
    async with (
        FaultyUpstream(fault="hang") as upstream,
        Sidecar(upstream, clock=clock, route={"timeout_ms": 100}) as sidecar,
    ):
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        clock.advance(101)
        await client.response()

        assert reports == [CONNECTED, TIMEOUT]
        assert sidecar.cluster.hosts[0].rq_timeout == 1


async def test_route_timeout_after_headers_reports_nothing_more():
    clock = ManualClock()
    async with (
        FaultyUpstream(body=b"abc", truncate_at=1, end="hang") as upstream,
        Sidecar(upstream, clock=clock, route={"timeout_ms": 100}) as sidecar,
    ):
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: len(reports) == 2)
        clock.advance(101)
        await until(lambda: sidecar.log)

        assert reports == [CONNECTED, success(200)]


async def test_route_timeout_while_connecting_reports_nothing(black_hole):
    """No host had the request yet (Envoy knows the host of an attempt only once its stream is ready or failed)."""
    clock = ManualClock()
    async with Sidecar(black_hole, clock=clock, route={"timeout_ms": 100}) as sidecar:
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: sidecar.stat("upstream_rq_pending_active"))
        clock.advance(101)

        assert (await client.response()).status == 504
        assert reports == []


@pytest.mark.parametrize("when", ["before headers", "inside the body"])
async def test_client_that_goes_away_reports_nothing_more(when):
    reply = {"fault": "hang"} if when == "before headers" else {"body": b"abc", "truncate_at": 1, "end": "hang"}
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream) as sidecar:
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        expected = [CONNECTED] if when == "before headers" else [CONNECTED, success(200)]
        await until(lambda: len(reports) == len(expected))
        client.abort()
        await until(lambda: sidecar.log and upstream.open_connections == 0)

        assert reports == expected


async def test_client_that_goes_away_while_connecting_reports_nothing(black_hole):
    async with Sidecar(black_hole, connect_timeout_ms=30) as sidecar:
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: sidecar.stat("upstream_rq_pending_active"))
        client.abort()
        await until(lambda: sidecar.stat("upstream_cx_connect_timeout"))

        assert reports == []
        assert sidecar.stat("upstream_rq_cancelled") == 1


@pytest.mark.parametrize("limits", [{"max_pending_requests": 0}, {"max_requests": 0}], ids=["pending", "requests"])
async def test_overflow_of_our_own_limits_is_nobodys_fault(limits):
    async with FaultyUpstream() as upstream, Sidecar(upstream, circuit_breakers=CircuitBreakers(**limits)) as sidecar:
        (reports,) = sidecar.record()
        assert (await (await sidecar.client()).get()).status == 503

        assert reports == []


async def test_each_host_gets_its_own_reports():
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=503) as bad,
        Sidecar(good, bad) as sidecar,
    ):
        of_good, of_bad = sidecar.record()
        client = await sidecar.client()
        for _ in range(4):
            await client.get()

        assert of_good == [CONNECTED, success(200)] * 2
        assert of_bad == [CONNECTED, failure(503)] * 2


@pytest.mark.parametrize(
    ("reply", "counted"),
    [
        (Reply(), (1, 1, 0)),
        (Reply(status=499), (1, 1, 0)),
        (Reply(status=500), (1, 0, 1)),
        (Reply(fault="close"), (1, 0, 1)),
    ],
    ids=["200", "499", "500", "closed"],
)
async def test_host_counts_requests_successes_and_errors(reply, counted):
    """The columns of `/clusters`: rq_total, rq_success, rq_error."""
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        upstream.set(reply)
        await (await sidecar.client()).get()
        host = sidecar.cluster.hosts[0]

        assert (host.rq_total, host.rq_success, host.rq_error) == counted
        assert (host.rq_active, host.rq_pending_active) == (0, 0)
