"""Situations that users of other proxies reported: limits (HTTP-10) and slow clients (HTTP-11)."""

import asyncio

import pytest

from outlier import Result
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, post, until


class TestHttp10:
    """Limits are Envoy's: 60 KiB of a request's head, 80 of a response's.

    What is too large from a client is never an outlier event.
    """

    @pytest.mark.parametrize(("size", "status"), [(9_000, 200), (20_000, 200), (59_000, 200), (62_000, 431)])
    async def test_large_request_heads(self, size, status):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            (reports,) = sidecar.record()
            response = await (await sidecar.client()).get("/", "Cookie: " + "c" * size)

            assert response.status == status
            assert len(reports) == (2 if status == 200 else 0)

    @pytest.mark.parametrize(
        ("size", "status"), [(9_000, 200), (20_000, 200), (59_000, 200), (79_000, 200), (84_000, 502)]
    )
    async def test_large_response_heads(self, size, status):
        async with FaultyUpstream(headers={"x-big": "b" * size}) as upstream, Sidecar(upstream) as sidecar:
            (reports,) = sidecar.record()
            response = await (await sidecar.client()).get()

            assert response.status == status
            failed = reports[-1][0] is Result.LOCAL_ORIGIN_CONNECT_FAILED
            assert failed is (status == 502)

    async def test_large_bodies_both_ways(self):
        body = bytes(range(256)) * 8 * 1024  # 2 MiB
        async with FaultyUpstream(body=body) as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).request(post(body))

            assert response.body == body
            assert bytes(upstream.requests[0].body) == body

    async def test_redirects_are_the_clients_to_follow(self):
        async with FaultyUpstream(status=302, headers={"location": "/"}) as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get()

            assert (response.status, response.header("location")) == (302, "/")
            assert upstream.request_count == 1

    async def test_a_stream_may_last_as_long_as_something_is_sent(self):
        """Server-sent events for much longer than any timeout of an idle stream."""

        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            while True:
                await due.wait()
                due.clear()
                writer.write(b"data: x\n\n")

        due = asyncio.Event()
        clock = ManualClock()
        async with RawUpstream(serve) as upstream, Sidecar(upstream.address, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(GET)
            for _ in range(10):
                due.set()
                await client.reader.readuntil(b"data: x\n\n\r\n")
                clock.advance(4 * 60_000)

            assert (sidecar.listener.connections, sidecar.log) == (1, [])

    async def test_150_requests_wait_side_by_side(self):
        async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
            clients = [await sidecar.client() for _ in range(150)]
            for client in clients:
                client.send(GET)
            await arrived(upstream, 150)

            assert (upstream.open_connections, sidecar.stat("upstream_rq_active")) == (150, 150)


class TestHttp11:
    """Slow clients: a deadline for a complete head, none for a body or between requests that is as short."""

    @pytest.mark.parametrize("part", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
    async def test_half_a_head_does_not_stay_for_ever(self, part):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
            (reports,) = sidecar.record()
            client = await sidecar.client()
            client.send(part)
            await until(lambda: sidecar.http_stats.downstream_cx_rx_bytes_total)
            for _ in range(310):
                clock.advance(1_000)
            data = await client.read_to_end()

            assert data == b"" or data.startswith(b"HTTP/1.1 408 ")
            assert (upstream.request_count, reports) == (0, [])

    async def test_a_byte_now_and_then_does_not_buy_more_time(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(b"GET / HTTP/1.1\r\nX: ")
            await until(lambda: sidecar.http_stats.downstream_cx_rx_bytes_total)
            for second in range(310):
                if sidecar.listener.connections == 0 or client.writer.is_closing():
                    break
                seen = sidecar.http_stats.downstream_cx_rx_bytes_total
                client.send(b"a")
                if second < 5:
                    await until(lambda seen=seen: sidecar.http_stats.downstream_cx_rx_bytes_total > seen)
                clock.advance(1_000)
            data = await client.read_to_end()

            assert data == b"" or data.startswith(b"HTTP/1.1 408 ")
            assert upstream.request_count == 0

    async def test_half_a_head_behind_a_slow_request_does_not_stay_for_ever(self):
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await answer.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        asked, answer = asyncio.Event(), asyncio.Event()
        clock = ManualClock()
        async with RawUpstream(serve) as upstream, Sidecar(upstream.address, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(GET + b"GET / HT")
            await asked.wait()
            for _ in range(120):
                clock.advance(1_000)
            answer.set()
            assert (await client.response()).status == 200
            for _ in range(310):
                clock.advance(1_000)
            data = await client.read_to_end()

            assert data == b"" or data.startswith(b"HTTP/1.1 408 ")

    async def test_idle_connection_opened_beforehand_is_tolerated(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
            client = await sidecar.client()
            await until(lambda: sidecar.listener.connections)
            clock.advance(4 * 60_000)

            assert (await client.get()).status == 200

    async def test_slow_body_is_tolerated(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1")
            await arrived(upstream)
            clock.advance(4 * 60_000)
            client.send(b"2")

            assert (await client.response("POST")).status == 200

    @pytest.mark.slow
    async def test_500_slow_clients_are_not_in_the_way_of_others(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            slow = [await sidecar.client() for _ in range(500)]
            for byte in (b"G", b"E", b"T", b" "):
                for client in slow:
                    client.send(byte)
                await asyncio.sleep(0)
            fast = await sidecar.client()

            assert [(await fast.get()).status for _ in range(20)] == [200] * 20
            assert upstream.request_count == 20
