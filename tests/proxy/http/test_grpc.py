"""What is different for requests of gRPC, whatever carries them: replies of our own, timeouts, a host's counters.

Here HTTP/1.1 carries them. Expected values: Envoy 1.40's, as recorded from a real one.
"""

import pytest

from proxy.config.cluster_config import CircuitBreakers
from proxy.config.route_config import Fault, RetryPolicy, Route, RouteAction, VirtualHost
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.client import Response
from tests.proxy.http.sidecar import CLUSTER, ManualClock, Sidecar, arrived, logged, until, virtual_host

CONTENT_TYPE = "application/grpc"
DISCONNECT = "upstream connect error or disconnect/reset before headers. reset reason: "


def grpc(*lines: str) -> bytes:
    head = ["POST /p.S/M HTTP/1.1", "Host: a", f"Content-Type: {CONTENT_TYPE}", "Content-Length: 0", *lines, "", ""]
    return "\r\n".join(head).encode()


def status_reply(grpc_status: int | str, **fields) -> Reply:
    """Return a gRPC response that is headers only."""
    return Reply(headers={"content-type": CONTENT_TYPE, "grpc-status": str(grpc_status)}, **fields)


def trailers_reply(status: int | str | None) -> Reply:
    trailers = {} if status is None else {"grpc-status": str(status)}
    return Reply(body=b"abc", framing="chunked", headers={"content-type": CONTENT_TYPE}, trailers=trailers)


async def call(sidecar: Sidecar, *lines: str) -> Response:
    return await (await sidecar.client()).request(grpc(*lines))


def told(response: Response) -> tuple[int, str | None, str | None]:
    """Return the HTTP status, the gRPC status and its message."""
    return response.status, response.header("grpc-status"), response.header("grpc-message")


class TestOwnReplies:
    async def test_connection_refused(self):
        async with FaultyUpstream() as upstream:
            address = upstream.address
        async with Sidecar(address) as sidecar:
            response = await call(sidecar)

            assert told(response) == (200, "14", DISCONNECT + "remote connection failure")
            assert response.body == b""
            assert response.header_names == [
                *("content-type", "grpc-status", "grpc-message", "date", "server", "content-length")
            ]
            assert logged(sidecar)[:2] == (200, "UF")
            assert sidecar.stat("upstream_rq_503") == 1

    async def test_overflow_tells_of_overload_first(self):
        limits = CircuitBreakers(max_requests=0)
        async with FaultyUpstream() as upstream, Sidecar(upstream, circuit_breakers=limits) as sidecar:
            response = await call(sidecar)

            assert told(response) == (200, "14", DISCONNECT + "overflow")
            assert response.header_names[:2] == ["x-envoy-overloaded", "content-type"]

    async def test_no_host(self):
        async with Sidecar() as sidecar:
            assert told(await call(sidecar)) == (200, "14", "no healthy upstream")

    async def test_no_route(self):
        async with Sidecar() as sidecar:
            sidecar.set_routes(virtual_host("elsewhere"))

            assert told(await call(sidecar)) == (200, "12", None)
            assert logged(sidecar) == (200, "NR", "route_not_found", 0)

    async def test_no_cluster(self):
        async with Sidecar() as sidecar:
            sidecar.set_routes(virtual_host("*", cluster="gone"))

            assert told(await call(sidecar)) == (200, "14", None)

    async def test_reset_before_headers(self):
        async with FaultyUpstream(fault="close") as upstream, Sidecar(upstream) as sidecar:
            assert told(await call(sidecar)) == (200, "14", DISCONNECT + "connection termination")

    async def test_fault_with_a_grpc_status(self):
        fault = Fault(abort_grpc_status="NOT_FOUND", abort_per_million=1_000_000)
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            route = Route(action=RouteAction(cluster=CLUSTER), fault=fault)
            sidecar.set_routes(VirtualHost(name="*", service_host="service", port=80, domains=("*",), routes=(route,)))

            assert told(await call(sidecar)) == (200, "5", "fault filter abort")

    @pytest.mark.parametrize("line", ["x-big: " + "a" * 61_500, "bad name: x"])
    async def test_what_the_codec_refuses_is_no_matter_of_grpc(self, line):
        async with Sidecar() as sidecar:
            response = await call(sidecar, line)

            assert response.status in {400, 431}
            assert response.header("content-type") == "text/plain"


class TestTimeout:
    @pytest.mark.parametrize(
        ("route_ms", "sent", "expected"),
        [
            (500, None, {"x-envoy-expected-rq-timeout-ms": "500", "grpc-timeout": "500m"}),
            (500, "100m", {"x-envoy-expected-rq-timeout-ms": "100", "grpc-timeout": "100m"}),
            (500, "1S", {"x-envoy-expected-rq-timeout-ms": "500", "grpc-timeout": "500m"}),
            (500, "0m", {"x-envoy-expected-rq-timeout-ms": "500", "grpc-timeout": "500m"}),
            (500, "1500u", {"x-envoy-expected-rq-timeout-ms": "2", "grpc-timeout": "2m"}),
            (500, "nonsense", {"x-envoy-expected-rq-timeout-ms": "500", "grpc-timeout": "500m"}),
            (0, None, {}),
            (0, "1S", {"x-envoy-expected-rq-timeout-ms": "1000", "grpc-timeout": "1000m"}),
            (0, "99999999S", {"x-envoy-expected-rq-timeout-ms": "99999999000", "grpc-timeout": "99999999S"}),
            (0, "0m", {"grpc-timeout": "0m"}),
            (0, "nonsense", {"grpc-timeout": "nonsense"}),
        ],
    )
    async def test_host_is_told_the_clients_time_within_the_routes(self, route_ms, sent, expected):
        clock = ManualClock()
        async with (
            FaultyUpstream() as upstream,
            Sidecar(upstream, clock=clock, route={"timeout_ms": route_ms}) as sidecar,
        ):
            await call(sidecar, *([] if sent is None else [f"grpc-timeout: {sent}"]))
            headers = upstream.requests[0].headers

            assert {name: value for name, value in headers if "timeout" in name} == expected

    async def test_other_requests_keep_their_header_and_the_routes_time(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream, route={"timeout_ms": 50_000}) as sidecar:
            await (await sidecar.client()).get("/", "grpc-timeout: 1S")
            headers = dict(upstream.requests[0].headers)

            assert headers["grpc-timeout"] == "1S"
            assert headers["x-envoy-expected-rq-timeout-ms"] == "50000"

    @pytest.mark.parametrize(("route_ms", "sent_ms", "over_ms"), [(0, 100, 100), (500, 100, 100), (500, 1_000, 500)])
    async def test_request_ends_when_the_shorter_time_is_over(self, route_ms, sent_ms, over_ms):
        clock = ManualClock()
        async with (
            FaultyUpstream(fault="hang") as upstream,
            Sidecar(upstream, clock=clock, route={"timeout_ms": route_ms}) as sidecar,
        ):
            client = await sidecar.client()
            client.send(grpc(f"grpc-timeout: {sent_ms}m"))
            await arrived(upstream)
            clock.advance(over_ms - 1)
            assert sidecar.stat("upstream_rq_timeout") == 0
            clock.advance(1)
            response = await client.response()

            assert told(response) == (200, "14", "upstream request timeout")
            assert logged(sidecar) == (200, "UT", "response_timeout", 1)

    async def test_per_try_timeout_is_told_if_it_is_shorter(self):
        retry = RetryPolicy(num_retries=1, retry_on="connect-failure", per_try_timeout_ms=200)
        async with (
            FaultyUpstream() as upstream,
            Sidecar(upstream, clock=ManualClock(), route={"timeout_ms": 60_000, "retry": retry}) as sidecar,
        ):
            await call(sidecar, "grpc-timeout: 30S")

            assert dict(upstream.requests[0].headers)["grpc-timeout"] == "200m"

    async def test_retry_is_told_what_is_left(self):
        """It includes the back-off, so what is left depends on the draw."""
        retry = RetryPolicy(num_retries=1, retry_on="unavailable", base_interval_ms=1_000)
        clock = ManualClock()
        async with (
            FaultyUpstream() as upstream,
            Sidecar(upstream, clock=clock, route={"retry": retry}) as sidecar,
        ):
            upstream.for_next(1, status_reply(14))
            client = await sidecar.client()
            client.send(grpc("grpc-timeout: 60S"))
            await until(lambda: sidecar.stat("upstream_rq_retry"))
            clock.advance(1_000)
            await client.response()
            first, second = (dict(request.headers)["grpc-timeout"] for request in upstream.requests)

            assert first == "60000m"
            assert 0 < int(second.removesuffix("m")) <= 60_000


class TestRetry:
    @pytest.mark.parametrize(
        ("word", "status"),
        [
            *(("cancelled", 1), ("deadline-exceeded", 4), ("resource-exhausted", 8)),
            *(("internal", 13), ("unavailable", 14)),
        ],
    )
    async def test_status_in_the_head_is_tried_again(self, word, status):
        retry = RetryPolicy(num_retries=1, retry_on=word, base_interval_ms=1)
        async with FaultyUpstream() as upstream, Sidecar(upstream, route={"retry": retry}) as sidecar:
            upstream.sequence([status_reply(status), status_reply(0)])

            assert told(await call(sidecar)) == (200, "0", None)
            assert logged(sidecar)[3] == 2

    async def test_status_in_the_trailers_is_not(self):
        retry = RetryPolicy(num_retries=1, retry_on="unavailable", base_interval_ms=1)
        async with FaultyUpstream() as upstream, Sidecar(upstream, route={"retry": retry}) as sidecar:
            upstream.set(trailers_reply(14))
            response = await call(sidecar)

            assert dict(response.trailers)["grpc-status"] == "14"
            assert upstream.request_count == 1

    async def test_last_attempts_status_goes_to_the_client(self):
        retry = RetryPolicy(num_retries=1, retry_on="unavailable", base_interval_ms=1)
        async with FaultyUpstream() as upstream, Sidecar(upstream, route={"retry": retry}) as sidecar:
            upstream.set(status_reply(14))

            assert told(await call(sidecar)) == (200, "14", None)
            assert logged(sidecar) == (200, "URX", "via_upstream", 2)


class TestHostCounters:
    """The columns rq_success and rq_error of `/clusters`."""

    @pytest.mark.parametrize(
        ("reply", "counted"),
        [
            (status_reply(0), (1, 0)),
            (status_reply(5), (1, 0)),
            (status_reply(16), (1, 0)),
            (status_reply(14), (0, 1)),
            (status_reply(99), (0, 1)),
            (status_reply("abc"), (0, 1)),
            (status_reply(0, status=503), (0, 1)),
            (Reply(), (0, 1)),
            (trailers_reply(0), (1, 0)),
            (trailers_reply(14), (0, 1)),
            (trailers_reply(None), (0, 1)),
            (Reply(fault="close"), (0, 1)),
            (Reply(body=b"abc", truncate_at=1, end="close", headers={"content-type": CONTENT_TYPE}), (0, 1)),
        ],
        ids=[
            *("head 0", "head 5", "head 16", "head 14", "head 99", "head abc", "503 with 0", "no status"),
            *("trailers 0", "trailers 14", "trailers without", "closed", "cut off"),
        ],
    )
    async def test_success_is_what_the_status_says_wherever_it_stands(self, reply, counted):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            upstream.set(reply)
            client = await sidecar.client()
            client.send(grpc())
            await until(lambda: sidecar.log)
            host = sidecar.cluster.hosts[0]

            assert (host.rq_success, host.rq_error) == counted

    @pytest.mark.parametrize("reply", [status_reply(1), Reply(status=409)], ids=["cancelled", "409"])
    async def test_what_is_tried_again_is_an_error_whatever_its_status(self, reply):
        retry = RetryPolicy(num_retries=1, retry_on="cancelled,retriable-4xx", base_interval_ms=1)
        async with FaultyUpstream() as upstream, Sidecar(upstream, route={"retry": retry}) as sidecar:
            upstream.sequence([reply, status_reply(0)])
            await call(sidecar)
            host = sidecar.cluster.hosts[0]

            assert (host.rq_success, host.rq_error) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "counted"),
    [({"fault": "hang"}, (0, 1, 1)), ({"body": b"abc", "truncate_at": 1, "end": "hang"}, (1, 0, 1))],
    ids=["before headers", "inside the body"],
)
async def test_timeout_counts_on_the_host(fields, counted):
    """For requests of any kind: rq_success, rq_error, rq_timeout."""
    clock = ManualClock()
    async with FaultyUpstream(**fields) as upstream, Sidecar(upstream, clock=clock, route={"timeout_ms": 9}) as sidecar:
        (await sidecar.client()).send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await arrived(upstream)
        host = sidecar.cluster.hosts[0]
        await until(lambda: host.rq_success == counted[0])
        clock.advance(10)
        await until(lambda: sidecar.log)

        assert (host.rq_success, host.rq_error, host.rq_timeout) == counted


async def test_end_inside_the_body_is_no_error_besides_a_counted_success():
    async with FaultyUpstream(body=b"abc", truncate_at=1, end="close") as upstream, Sidecar(upstream) as sidecar:
        (await sidecar.client()).send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: sidecar.log)
        host = sidecar.cluster.hosts[0]

        assert (host.rq_success, host.rq_error) == (1, 0)


async def test_te_trailers_reaches_the_host():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        await call(sidecar, "te: trailers")

        assert ("te", "trailers") in upstream.requests[0].headers
