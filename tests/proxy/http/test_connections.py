"""How long a client's connection lives, and that requests on it are answered in order."""

import asyncio

import pytest

from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.raw_upstream import GatedUpstream
from tests.proxy.http.sidecar import GET, WAIT_S, ManualClock, Sidecar, arrived, until


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *lines, "", ""]).encode()


async def test_requests_on_one_connection_share_one_upstream_connection():
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        for _ in range(5):
            assert (await client.get()).status == 200

        assert (upstream.connection_count, upstream.request_count) == (1, 5)
        assert sidecar.http_stats.downstream_cx_total == 1


async def test_nothing_is_left_of_a_requests_timers():
    clock = ManualClock()
    async with (
        FaultyUpstream() as upstream,
        Sidecar(upstream, clock=clock, route={"timeout_ms": 15_000}, idle_timeout_ms=0) as sidecar,
    ):
        client = await sidecar.client()
        for _ in range(20):
            await client.get()
        client.abort()
        await until(lambda: sidecar.listener.connections == 0)

        assert len(sidecar.deadlines) == 0


async def test_pipelined_requests_are_answered_in_order():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        upstream.set(path="/slow", body=b"slow", head_delay_ms=20)
        upstream.set(path="/fast", body=b"fast")
        client = await sidecar.client()
        client.send(get("/slow") + get("/fast") + get("/slow") + get("/fast"))

        assert [(await client.response()).body for _ in range(4)] == [b"slow", b"fast", b"slow", b"fast"]


@pytest.mark.parametrize("cut", range(1, 90, 8))
async def test_pipelined_requests_may_be_cut_anywhere(cut):
    stream = get("/1") + b"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + get("/3")
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(stream[:cut])
        await asyncio.sleep(0)
        client.send(stream[cut:])
        statuses = [(await client.response()).status for _ in range(3)]

        assert statuses == [200] * 3
        assert [request.target for request in upstream.requests] == ["/1", "/2", "/3"]


async def test_pipelined_local_replies_and_responses_are_in_order():
    async with FaultyUpstream(body=b"up") as upstream, Sidecar(upstream) as sidecar:
        upstream.for_next(1, body=b"up")
        upstream.for_next(1, fault="close")
        client = await sidecar.client()
        client.send(get("/1") + get("/2") + get("/3"))

        assert [(await client.response()).status for _ in range(3)] == [200, 503, 200]


@pytest.mark.parametrize("status", [200, 503])
async def test_client_that_asks_for_the_end_gets_it(status):
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(*([upstream] if status == 200 else [])) as sidecar:
        client = await sidecar.client()
        response = await client.get("/", "Connection: close")

        assert (response.status, response.header("connection")) == (status, "close")
        assert await client.read_to_end() == b""


async def test_requests_behind_connection_close_are_not_served():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(get("/1", "Connection: close") + get("/2"))
        await client.response()

        assert await client.read_to_end() == b""
        assert upstream.request_count == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"x", headers={"connection": "close"}),
        Reply(garbage=b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"),
    ],
    ids=["close", "1.0"],
)
async def test_upstream_that_ends_its_connection_does_not_end_the_clients(reply):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        upstream.set(reply)
        client = await sidecar.client()
        for _ in range(2):
            response = await client.get()
            assert (response.body, response.header("connection")) == (b"x", None)

        assert upstream.connection_count == 2


class TestDrain:
    async def test_idle_clients_are_closed_at_once(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            await client.get()
            sidecar.listener.drain()

            assert await client.read_to_end() == b""

    async def test_response_under_way_is_finished_and_says_close(self):
        async with GatedUpstream(b"x") as upstream, Sidecar(upstream.address) as sidecar:
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: upstream.paths)
            sidecar.listener.drain()
            upstream.release()
            response = await client.response()

            assert (response.body, response.header("connection")) == (b"x", "close")
            assert await client.read_to_end() == b""

    async def test_client_that_comes_all_the_same_is_served_once(self):
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
            sidecar.listener.drain()
            client = await sidecar.client()
            response = await client.get()

            assert (response.body, response.header("connection")) == (b"x", "close")
            assert await client.read_to_end() == b""

    async def test_wait_empty_ends_with_the_last_client(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            await client.get()
            sidecar.listener.drain()
            async with asyncio.timeout(WAIT_S):
                await sidecar.listener.wait_empty()

            assert sidecar.listener.connections == 0

    async def test_nobody_is_accepted_after_stop_accepting(self):
        async with Sidecar() as sidecar:
            sidecar.listener.stop_accepting()

            with pytest.raises(ConnectionRefusedError):
                await sidecar.client()


class TestConnect:
    """Envoy 1.40 answers 404 with `connection: close`, since what follows is not HTTP."""

    @pytest.mark.parametrize("behind", [b"", b"\x16\x03\x01", GET], ids=["nothing", "tls", "http"])
    async def test_is_refused_and_the_connection_ends(self, behind):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(b"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n" + behind)
            response = await client.response()

            assert (response.status, response.body, response.header("connection")) == (404, b"", "close")
            clock.advance(1_001)
            assert await client.read_to_end() == b""
            assert upstream.request_count == 0


class TestDelayedClose:
    async def test_client_has_a_second_to_read_the_reply(self):
        """Envoy's delayed_close_timeout; an immediate close could reset the connection before the reply is read."""
        clock = ManualClock()
        async with Sidecar(clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            await client.response("POST")
            await client.read_to_end()
            clock.advance(998)
            assert sidecar.listener.connections == 1
            clock.advance(3)
            await until(lambda: sidecar.listener.connections == 0)

    async def test_it_has_it_too_when_a_response_is_cut_off(self):
        """facts: "Envoy closes the downstream connection about 1 s later"."""
        clock = ManualClock()
        reply = {"body": b"abcdef", "truncate_at": 3}
        async with FaultyUpstream(**reply) as upstream, Sidecar(upstream, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: sidecar.log)
            clock.advance(998)
            await asyncio.sleep(0)
            assert sidecar.listener.connections == 1
            clock.advance(3)
            await until(lambda: sidecar.listener.connections == 0)

    async def test_client_that_closes_is_not_waited_for(self):
        clock = ManualClock()
        async with Sidecar(clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            await client.response("POST")
            client.abort()

            await until(lambda: sidecar.listener.connections == 0)


async def test_client_that_shuts_its_sending_side_is_gone():
    """Envoy's listeners have no half-close: the end of a client's sending is the end of the client."""
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        client.writer.write_eof()

        assert await client.read_to_end() == b""
        await until(lambda: upstream.open_connections == 0)


async def test_listener_of_one_service_ignores_the_authority():
    async with FaultyUpstream() as upstream, Sidecar(upstream, service=("service", 80)) as sidecar:
        client = await sidecar.client()
        response = await client.request(b"GET / HTTP/1.1\r\nHost: anything.example\r\n\r\n")

        assert response.status == 200
        assert upstream.requests[0].header("host") == "anything.example"


async def test_listener_of_an_unknown_service_has_no_route():
    async with FaultyUpstream() as upstream, Sidecar(upstream, service=("nobody", 80)) as sidecar:
        assert (await (await sidecar.client()).get()).status == 404
