"""Replies that the sidecar makes itself: status, body, header order, and what the access log says of them.

Expected values: Envoy 1.40's, as recorded from a real one.
"""

import asyncio

import pytest

from proxy.config.cluster_config import CircuitBreakers, ClusterType, HealthStatus, LbPolicy, LoadBalancerConfig
from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import WAIT_S, ManualClock, Sidecar, arrived, logged, until, virtual_host

DISCONNECT = b"upstream connect error or disconnect/reset before headers. reset reason: "
PLAIN = ["content-length", "content-type", "date", "server"]


async def refused_address() -> str:
    """Return an address that nobody listens on."""
    async with FaultyUpstream() as upstream:
        return upstream.address


async def test_no_host():
    async with Sidecar() as sidecar:
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (503, b"no healthy upstream")
        assert response.header_names == PLAIN
        assert response.header("content-type") == "text/plain"
        assert response.header("server") == "envoy"
        assert logged(sidecar) == (503, "UH", "no_healthy_upstream", 1)
        assert sidecar.stat("upstream_cx_none_healthy") == 1
        assert (await client.get()).status == 503  # the connection is kept


async def test_all_hosts_down_without_panic():
    async with (
        FaultyUpstream() as upstream,
        Sidecar(upstream, endpoint={"health_status": HealthStatus.UNHEALTHY}) as sidecar,
    ):
        response = await (await sidecar.client()).get()

        assert (response.status, response.body) == (503, b"no healthy upstream")
        assert logged(sidecar) == (503, "UH", "no_healthy_upstream", 1)


@pytest.mark.parametrize("form", ["{}", "a", "a:80", "unix:///run/a.sock", "a:b"])
async def test_no_host_for_whom_the_request_names(form):
    """`resolution: NONE` and `PASSTHROUGH` go to the original destination; Host is only the client's word."""
    async with (
        FaultyUpstream() as upstream,
        Sidecar(
            type=ClusterType.ORIGINAL_DST, load_balancer=LoadBalancerConfig(policy=LbPolicy.CLUSTER_PROVIDED)
        ) as sidecar,
    ):
        client = await sidecar.client()
        named = f"x-envoy-original-dst-host: {upstream.address}"
        response = await client.request(
            f"GET / HTTP/1.1\r\nHost: {form.format(upstream.address)}\r\n{named}\r\n\r\n".encode()
        )

        assert (response.status, response.body) == (503, b"no healthy upstream")
        assert logged(sidecar) == (503, "UH", "no_healthy_upstream", 1)
        assert not upstream.requests
        assert not sidecar.cluster.hosts


async def test_connection_refused():
    address = await refused_address()
    async with Sidecar(address) as sidecar:
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (503, DISCONNECT + b"remote connection failure")
        assert response.header_names == PLAIN
        reason = "remote_connection_failure|delayed_connect_error:_Connection_refused"
        assert logged(sidecar) == (503, "UF", f"upstream_reset_before_response_started{{{reason}}}", 1)
        assert sidecar.log[0]["upstream_host"] == address
        assert sidecar.stat("upstream_cx_connect_fail") == 1
        assert sidecar.stat("upstream_rq_pending_failure_eject") == 1
        assert (sidecar.stat("upstream_rq_total"), sidecar.stat("upstream_rq_503")) == (0, 1)
        assert (await client.get()).status == 503


async def test_connect_timeout(black_hole):
    async with Sidecar(black_hole, connect_timeout_ms=30) as sidecar:
        response = await (await sidecar.client()).get()

        assert (response.status, response.body) == (503, DISCONNECT + b"connection timeout")
        assert logged(sidecar) == (503, "UF", "upstream_reset_before_response_started{connection_timeout}", 1)
        assert sidecar.stat("upstream_cx_connect_timeout") == 1
        assert sidecar.stat("upstream_cx_connect_fail") == 1


@pytest.mark.parametrize("fault", ["reset", "close"])
async def test_upstream_ends_before_headers(fault):
    async with FaultyUpstream(fault=fault) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (503, DISCONNECT + b"connection termination")
        assert response.header_names == PLAIN
        assert logged(sidecar) == (503, "UC", "upstream_reset_before_response_started{connection_termination}", 1)
        assert (await client.get()).status == 503


@pytest.mark.parametrize("end", ["hang", "close", "reset"])
@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX : 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    ],
    ids=["not http", "two lengths", "blank before colon", "NUL", "204 with a body", "101 unasked"],
)
async def test_upstream_bytes_are_not_http(garbage, end):
    async with FaultyUpstream(garbage=garbage, end=end) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (502, DISCONNECT + b"protocol error")
        assert response.header_names == PLAIN
        assert logged(sidecar) == (502, "UPE", "upstream_reset_before_response_started{protocol_error}", 1)
        assert (await client.get()).status == 502
        await until(lambda: upstream.open_connections == 0)


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("part", [b"HTT", b"HTTP/1.1 200 OK\r\nX-A:"])
async def test_upstream_ends_inside_its_head(part, end):
    """Measured on Envoy 1.40: the half of a head is a protocol error, not a mere disconnect."""
    async with FaultyUpstream(garbage=part, end=end) as upstream, Sidecar(upstream) as sidecar:
        response = await (await sidecar.client()).get()

        assert (response.status, response.body) == (502, DISCONNECT + b"protocol error")
        assert logged(sidecar)[1] == "UPE"


@pytest.mark.parametrize(
    ("limits", "counter"),
    [
        ({"max_pending_requests": 0}, "upstream_rq_pending_overflow"),
        ({"max_requests": 0}, "upstream_rq_active_overflow"),
    ],
    ids=["pending", "requests"],
)
async def test_circuit_breaker(limits, counter):
    async with FaultyUpstream() as upstream, Sidecar(upstream, circuit_breakers=CircuitBreakers(**limits)) as sidecar:
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (503, DISCONNECT + b"overflow")
        assert response.header_names == ["x-envoy-overloaded", *PLAIN]
        assert response.header("x-envoy-overloaded") == "true"
        assert logged(sidecar) == (503, "UO", "upstream_reset_before_response_started{overflow}", 1)
        assert sidecar.log[0]["upstream_host"] is None
        assert sidecar.stat(counter) == 1
        assert (await client.get()).status == 503
        assert upstream.request_count == 0


async def test_route_timeout():
    clock = ManualClock()
    async with (
        FaultyUpstream(fault="hang") as upstream,
        Sidecar(upstream, route={"timeout_ms": 300}, clock=clock) as sidecar,
    ):
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await arrived(upstream, 1)
        clock.advance(299)
        assert sidecar.log == []
        clock.advance(2)
        response = await client.response()

        assert (response.status, response.body) == (504, b"upstream request timeout")
        assert response.header_names == PLAIN
        assert logged(sidecar) == (504, "UT", "response_timeout", 1)
        assert sidecar.stat("upstream_rq_timeout") == 1
        await until(lambda: upstream.open_connections == 0)


async def test_no_route():
    async with Sidecar() as sidecar:
        sidecar.set_routes(virtual_host("other"))
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (404, b"")
        assert response.header_names == ["date", "server", "content-length"]
        assert logged(sidecar) == (404, "NR", "route_not_found", 0)
        assert (await client.get()).status == 404


async def test_unknown_cluster():
    async with Sidecar() as sidecar:
        sidecar.set_routes(virtual_host("*", cluster="nobody"))
        client = await sidecar.client()
        response = await client.get()

        assert (response.status, response.body) == (503, b"")
        assert response.header_names == ["date", "server", "content-length"]
        assert logged(sidecar) == (503, "NC", "cluster_not_found", 0)
        assert (await client.get()).status == 503


async def test_head_gets_the_headers_without_the_body():
    async with Sidecar() as sidecar:
        client = await sidecar.client()
        response = await client.get(method="HEAD")

        assert (response.status, response.header("content-length")) == (503, "19")
        assert response.header_names == PLAIN
        assert (await client.get()).body == b"no healthy upstream"


async def test_head_that_gets_an_empty_reply_says_chunked():
    """Envoy: "a HEAD that gets the empty 404 carries transfer-encoding: chunked instead of content-length"."""
    async with Sidecar() as sidecar:
        sidecar.set_routes(virtual_host("other"))
        client = await sidecar.client()
        response = await client.get(method="HEAD")

        assert response.header_names == ["date", "server", "transfer-encoding"]
        assert (await client.get()).status == 404


@pytest.mark.parametrize(
    ("end", "flags", "details"),
    [
        ("close", "UPE", "upstream_reset_after_response_started{protocol_error}"),
        ("reset", "UC", "upstream_reset_after_response_started{connection_termination}"),
    ],
)
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_upstream_ends_inside_the_body(framing, end, flags, details):
    """facts: "the status stands, the body stops, flags UPE for a short body", and the client's connection closes."""
    clock = ManualClock()
    async with (
        FaultyUpstream(body=b"abcdef", truncate_at=3, framing=framing, end=end) as upstream,
        Sidecar(upstream, clock=clock) as sidecar,
    ):
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: sidecar.log)
        clock.advance(1_001)
        response = await client.response()

        assert (response.status, response.body, response.complete) == (200, b"abc", False)
        assert logged(sidecar) == (200, flags, details, 1)
        assert await client.read_to_end() == b""


async def test_route_timeout_inside_the_body():
    clock = ManualClock()
    async with (
        FaultyUpstream(body=b"abcdef", truncate_at=3, end="hang") as upstream,
        Sidecar(upstream, route={"timeout_ms": 300}, clock=clock) as sidecar,
    ):
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.reader.readuntil(b"abc")
        clock.advance(301)

        assert logged(sidecar) == (200, "UT", "response_timeout", 1)
        clock.advance(1_001)
        assert await client.read_to_end() == b""
        await until(lambda: upstream.open_connections == 0)


async def test_route_timeout_counts_from_the_end_of_the_request():
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, route={"timeout_ms": 300}, clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
        await arrived(upstream, 1)
        clock.advance(10_000)
        client.send(b"y")

        assert (await client.response("POST")).status == 200


async def test_timeout_0_means_none():
    clock = ManualClock()
    async with (
        FaultyUpstream(fault="hang") as upstream,
        Sidecar(upstream, route={"timeout_ms": 0}, clock=clock) as sidecar,
    ):
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await arrived(upstream, 1)
        clock.advance(240_000)

        assert sidecar.log == []


async def test_client_abort_is_logged_with_code_0():
    """facts: "Client abort: access log code 0, flag DC, details downstream_remote_disconnect"."""
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await arrived(upstream, 1)
        client.abort()
        await until(lambda: sidecar.log)

        assert logged(sidecar) == (0, "DC", "downstream_remote_disconnect", 1)


async def test_replies_do_not_wait_for_the_rest_of_the_request():
    """The client may still be sending; it gets the reply, and time to read it."""
    clock = ManualClock()
    async with Sidecar(clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000)
        response = await client.response("POST")

        assert (response.status, response.header("connection")) == (503, "close")
        client.send(b"x" * 100_000)
        await asyncio.wait_for(client.writer.drain(), WAIT_S)
        clock.advance(1_001)
        assert await client.read_to_end() == b""
