"""Connections of one host: who gets which, when they end, and what is counted."""

import asyncio

import pytest

from outlier import OutlierDetection
from proxy.config.cluster_config import CircuitBreakers
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import GatedUpstream, RawUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, cluster_config, until


async def test_idle_connection_is_used_again_by_any_client():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        for _ in range(3):
            await (await sidecar.client()).get()

        assert upstream.connection_count == 1
        assert sidecar.stat("upstream_cx_total") == 1
        assert sidecar.stat("upstream_rq_pending_total") == 1


async def test_requests_side_by_side_have_a_connection_each():
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        for _ in range(3):
            (await sidecar.client()).send(GET)
        await arrived(upstream, 3)

        assert upstream.open_connections == 3
        assert (sidecar.stat("upstream_cx_active"), sidecar.stat("upstream_rq_active")) == (3, 3)
        assert (sidecar.cluster.hosts[0].cx_active, sidecar.cluster.hosts[0].rq_active) == (3, 3)


async def test_requests_that_wait_open_a_connection_each_at_once(black_hole):
    async with Sidecar(black_hole) as sidecar:
        for _ in range(3):
            (await sidecar.client()).send(GET)
        await until(lambda: sidecar.stat("upstream_rq_pending_active") == 3)

        assert sidecar.stat("upstream_cx_total") == 3


async def test_connection_used_last_is_used_next():
    """The others can then grow old and close."""
    async with GatedUpstream(held="/slow") as upstream, Sidecar(upstream.address) as sidecar:
        clients = [await sidecar.client() for _ in range(2)]
        for client in clients:
            client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: len(upstream.paths) == 2)
        await (await sidecar.client()).get("/quick")
        upstream.release()
        for client in clients:
            await client.response()
        for _ in range(5):
            await clients[0].get("/next")

        assert upstream.connection_count == 3
        assert sidecar.stat("upstream_cx_active") == 3
        assert max(upstream.paths_of_connections, key=len)[-5:] == ["/next"] * 5


@pytest.mark.parametrize(("limit", "connections"), [(0, 1), (1, 5), (2, 3), (5, 1)])
async def test_connection_carries_at_most_so_many_requests(limit, connections):
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, max_requests_per_connection=limit) as sidecar:
        client = await sidecar.client()
        for _ in range(5):
            assert (await client.get()).status == 200

        assert upstream.connection_count == connections
        assert sidecar.stat("upstream_cx_max_requests") == (5 // limit if limit else 0)


async def test_a_connection_at_its_limit_is_not_given_to_a_request_that_waits():
    async with (
        GatedUpstream() as upstream,
        Sidecar(
            upstream.address,
            max_requests_per_connection=1,
            circuit_breakers=CircuitBreakers(max_connections=1),
        ) as sidecar,
    ):
        clients = [await sidecar.client() for _ in range(3)]
        for client in clients:
            client.send(GET)
        await until(lambda: sidecar.stat("upstream_rq_active") and sidecar.stat("upstream_rq_pending_active") == 2)
        upstream.release()
        for client in clients:
            assert (await client.response()).status == 200

        assert [len(paths) for paths in upstream.paths_of_connections] == [1, 1, 1]


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
async def test_a_fault_of_ours_while_connecting_keeps_nobody_waiting(monkeypatch, error):
    async def fail(*_: object, **__: object) -> None:
        raise error("a fault")

    monkeypatch.setattr("proxy.upstream.connection_pool.connect", fail)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is told of, in its own time
    async with Sidecar("127.0.0.1:1") as sidecar:
        assert (await (await sidecar.client()).get()).status == 503
        assert (sidecar.stat("upstream_cx_connect_fail"), sidecar.stat("upstream_cx_active")) == (1, 0)


class TestIdleTimeout:
    async def test_idle_connection_is_closed(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream, idle_timeout_ms=20) as sidecar:
            await (await sidecar.client()).get()
            await until(lambda: upstream.open_connections == 0)

            assert sidecar.stat("upstream_cx_idle_timeout") == 1
            assert sidecar.stat("upstream_cx_destroy_local") == 1

    async def test_busy_connection_is_not(self):
        clock = ManualClock()
        async with (
            GatedUpstream(b"x") as upstream,
            Sidecar(upstream.address, idle_timeout_ms=10, clock=clock) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: upstream.paths)
            clock.advance(1_000)
            upstream.release()

            assert (await client.response()).body == b"x"

    async def test_use_starts_the_time_anew(self):
        """When the sweep comes the connection was used a moment ago."""
        clock = ManualClock()
        async with (
            FaultyUpstream() as upstream,
            Sidecar(upstream, idle_timeout_ms=600_000, clock=clock) as sidecar,
        ):
            client = await sidecar.client()
            await client.get()
            clock.advance(600_000)
            await client.get()

            assert (upstream.connection_count, sidecar.stat("upstream_cx_idle_timeout")) == (1, 0)

    async def test_connection_that_was_opened_for_a_refused_request_is_closed(self):
        """The breaker refuses the request when its connection is there; nobody has used it yet."""
        limits = CircuitBreakers(max_requests=1)
        async with (
            FaultyUpstream(fault="hang") as upstream,
            Sidecar(upstream, idle_timeout_ms=20, circuit_breakers=limits) as sidecar,
        ):
            (await sidecar.client()).send(GET)
            await arrived(upstream)
            assert (await (await sidecar.client()).get()).status == 503
            assert sidecar.stat("upstream_cx_total") == 2
            await until(lambda: sidecar.stat("upstream_cx_idle_timeout"))

            assert sidecar.stat("upstream_cx_active") == 1
            await until(lambda: upstream.open_connections == 1)

    async def test_none_keeps_it_for_ever(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, idle_timeout_ms=0, clock=clock) as sidecar:
            client = await sidecar.client()
            await client.get()
            client.abort()
            await until(lambda: sidecar.listener.connections == 0)

            assert len(sidecar.deadlines) == 0
            assert upstream.open_connections == 1


class TestReuse:
    """What makes a connection unfit for another request; the next one then gets a new connection."""

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokx",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX-He",
            b"HTTP/1.1 304 Not Modified\r\n\r\nbody",
        ],
        ids=["length", "length 0", "chunked", "half a response", "a response", "half a head", "304"],
    )
    async def test_not_after_bytes_behind_the_response(self, answer):
        """They would be taken for the response to the next request, which may be another client's."""
        async with FaultyUpstream(body=b"good") as upstream, Sidecar(upstream) as sidecar:
            upstream.for_next(1, garbage=answer, end="hang")
            (reports,) = sidecar.record()
            await (await sidecar.client()).get()
            responses = [await (await sidecar.client()).get() for _ in range(2)]

            assert [(response.status, response.body) for response in responses] == [(200, b"good")] * 2
            assert [code for _, code in reports][2:] == [None, 200] * 2

    async def test_not_after_bytes_that_come_while_idle(self):
        async def serve(reader, writer):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await sent.wait()
                sent.clear()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

        sent = asyncio.Event()
        async with RawUpstream(serve) as upstream, Sidecar(upstream.address) as sidecar:
            client = await sidecar.client()
            await client.get()
            sent.set()
            await until(lambda: sidecar.stat("upstream_cx_active") == 0)

            assert (await client.get()).body == b""
            assert sidecar.stat("upstream_cx_total") == 2

    @pytest.mark.parametrize("cut", [1, 19, 30, 38])
    async def test_not_after_bytes_behind_a_response_in_two_reads(self, cut):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokextra"
        answers = [answer, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"]

        async def serve(reader, writer):
            mine = answers.pop(0)
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(mine[:cut])
                await asyncio.sleep(0.002)
                writer.write(mine[cut:])

        async with RawUpstream(serve) as upstream, Sidecar(upstream.address) as sidecar:
            client = await sidecar.client()
            await client.get()

            assert (await client.get()).body == b"good"

    @pytest.mark.parametrize("end", ["close", "reset"])
    async def test_not_after_the_upstream_has_closed(self, end):
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            await client.get()
            upstream.drop_connections(reset=end == "reset")
            await until(lambda: sidecar.stat("upstream_cx_active") == 0)

            assert (await client.get()).status == 200
            assert sidecar.stat("upstream_cx_destroy_remote") == 1

    async def test_after_head_without_a_length(self):
        head = b"HTTP/1.1 200 OK\r\n\r\n"

        async def serve(reader, writer):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(head)

        async with RawUpstream(serve) as upstream, Sidecar(upstream.address) as sidecar:
            client = await sidecar.client()
            for _ in range(2):
                assert (await client.get(method="HEAD")).status == 200

            assert sidecar.stat("upstream_cx_total") == 1


class TestDrain:
    async def test_ejected_host_loses_its_idle_connections_at_once(self):
        """facts: "connections to a freshly ejected host are drained: idle ones close"."""
        detection = OutlierDetection(consecutive_5xx=1, max_ejection_percent=100)
        async with (
            GatedUpstream(held="/bad", statuses={"/bad": 500}) as upstream,
            Sidecar(upstream.address, outlier_detection=detection) as sidecar,
        ):
            bad, good = await sidecar.client(), await sidecar.client()
            bad.send(b"GET /bad HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: upstream.paths)
            await good.get("/good")
            assert sidecar.stat("upstream_cx_active") == 2
            upstream.release()
            await bad.response()

            assert sidecar.cluster.hosts[0].monitor.ejected
            assert sidecar.stat("upstream_cx_active") == 0
            await until(lambda: upstream.open_connections == 0)

    async def test_ejected_hosts_busy_connections_finish_and_count(self):
        detection = OutlierDetection(consecutive_5xx=1, max_ejection_percent=100)
        async with (
            GatedUpstream(held="/slow", statuses={"/bad": 500}) as upstream,
            Sidecar(upstream.address, outlier_detection=detection) as sidecar,
        ):
            slow, bad = await sidecar.client(), await sidecar.client()
            slow.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: upstream.paths)
            await bad.get("/bad")
            host = sidecar.cluster.hosts[0]
            assert (host.monitor.ejected, host.monitor.external.total) == (True, 1)
            upstream.release()

            assert (await slow.response()).body == b"late"
            assert host.monitor.external.total == 2
            await until(lambda: upstream.open_connections == 0)

    async def test_host_that_leaves_while_a_connection_opens_keeps_none(self):
        async with FaultyUpstream(body=b"x") as upstream, FaultyUpstream() as other, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: sidecar.stat("upstream_rq_pending_active"))
            sidecar.apply(cluster_config([other]))

            assert (await client.response()).body == b"x"
            await until(lambda: upstream.open_connections == 0)
            assert sidecar.stat("upstream_cx_active") == 0

    async def test_host_that_leaves_while_a_connection_opens_for_a_refused_request_keeps_none(self):
        limits = CircuitBreakers(max_requests=1)
        async with (
            FaultyUpstream(fault="hang") as upstream,
            FaultyUpstream() as other,
            Sidecar(upstream, circuit_breakers=limits) as sidecar,
        ):
            first, second = await sidecar.client(), await sidecar.client()
            first.send(GET)
            await arrived(upstream)
            second.send(GET)
            await until(lambda: sidecar.stat("upstream_rq_pending_active"))
            sidecar.apply(cluster_config([other], circuit_breakers=limits))
            await second.response()
            first.abort()

            await until(lambda: upstream.open_connections == 0)


class TestAddresses:
    async def test_ipv6(self):
        try:
            upstream = FaultyUpstream(host="::1", body=b"six")
            await upstream.start()
        except OSError:
            pytest.skip("no IPv6 here")
        try:
            async with Sidecar(upstream) as sidecar:
                assert (await (await sidecar.client()).get()).body == b"six"
        finally:
            await upstream.close()

    async def test_unix_socket(self, tmp_path):
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nunix")
            writer.close()
            await writer.wait_closed()

        path = tmp_path / "socket"
        async with await asyncio.start_unix_server(serve, path), Sidecar(f"unix://{path}") as sidecar:
            assert (await (await sidecar.client()).get()).body == b"unix"
