"""What clients notice while a sidecar is told to go, or gets a new configuration: nothing lost, and a word in time."""

import asyncio
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import WAIT_S, Sidecar, cluster_config, until
from tests.proxy.test_server import connect, request, rules, running


class TooLateError(Exception):
    """Raised when a busy machine let the drain time pass before the client came."""


@asynccontextmanager
async def admin(server):
    async with aiohttp.ClientSession(f"http://{server.ready_line()['admin']}") as session:
        yield session


class TestFailedHealth:
    """Envoy 1.40: every response then ends its connection; idle ones stay."""

    async def test_responses_end_their_connections_until_it_is_taken_back(self, tmp_path):
        async with FaultyUpstream(body=b"x") as upstream, running(tmp_path, upstream) as server, admin(server) as http:
            first, second = await connect(server), await connect(server)
            await second.request(request())
            await http.post("/healthcheck/fail")
            assert (await first.request(request())).header("connection") == "close"
            await http.post("/healthcheck/ok")

            assert (await second.request(request())).header("connection") is None
            first.abort()
            second.abort()


class TestDrainListeners:
    async def test_at_once_nobody_new_is_accepted_and_connections_go_on(self, tmp_path):
        async with FaultyUpstream(body=b"x") as upstream, running(tmp_path, upstream) as server, admin(server) as http:
            client = await connect(server)
            await client.request(request())
            await http.post("/drain_listeners")

            with pytest.raises(ConnectionRefusedError):
                await connect(server)
            assert [(await client.request(request())).header("connection") for _ in range(2)] == [None, None]
            client.abort()

    async def test_gracefully_clients_are_asked_to_go_first(self, tmp_path):
        for drain_time_ms in (100, 1_000, 10_000):
            with suppress(TooLateError):
                await self._come_while_it_drains(tmp_path, drain_time_ms)
                return
        pytest.fail("nobody was accepted any more")

    async def _come_while_it_drains(self, folder, drain_time_ms):
        async with (
            FaultyUpstream(body=b"x") as upstream,
            running(folder, upstream, drain_time_ms=drain_time_ms) as server,
            admin(server) as http,
        ):
            await http.post("/drain_listeners?graceful")
            try:
                client = await connect(server)
                response = await client.request(request())
            except (ConnectionError, EOFError):
                raise TooLateError from None

            assert response.header("connection") == "close"
            async with asyncio.timeout(WAIT_S):
                while await (await http.get("/listeners")).text():
                    pass
            with pytest.raises(ConnectionRefusedError):
                await connect(server)
            client.abort()


async def ask(client, statuses: list[int], stop: asyncio.Event, data: bytes) -> None:
    """Send one request after the other on one connection until told to stop."""
    while not stop.is_set():
        statuses.append((await client.request(data)).status)
    client.abort()


async def test_configurations_change_under_load_and_nothing_is_lost():
    """Hosts come and go, and settings with them; each request is answered by some host."""
    statuses: list[int] = []
    stop = asyncio.Event()
    async with FaultyUpstream(body=b"x") as one, FaultyUpstream(body=b"x") as two, Sidecar(one) as sidecar:
        data = b"GET / HTTP/1.1\r\nHost: service\r\n\r\n"
        asking = [asyncio.ensure_future(ask(await sidecar.client(), statuses, stop, data)) for _ in range(4)]
        for turn in range(30):
            upstreams = [(one,), (one, two), (two,), (two, one)][turn % 4]
            sidecar.apply(
                cluster_config(upstreams, connect_timeout_ms=30_000 + turn, max_requests_per_connection=turn % 3)
            )
            answered = len(statuses)
            await until(lambda answered=answered: len(statuses) >= answered + 4)
        stop.set()
        await asyncio.gather(*asking)

        assert set(statuses) == {200}
        assert min(one.request_count, two.request_count) > 0


@pytest.mark.slow
async def test_files_change_under_load_and_nothing_is_lost(tmp_path):
    statuses: list[int] = []
    stop = asyncio.Event()
    async with (
        FaultyUpstream(body=b"x") as one,
        FaultyUpstream(body=b"x") as two,
        running(tmp_path, one, debounce_after_ms=1) as server,
    ):
        asking = [asyncio.ensure_future(ask(await connect(server), statuses, stop, request())) for _ in range(2)]
        for upstreams in ((two,), (one, two), (one,)):
            version = server.snapshot.version
            (tmp_path / "rules.yaml").write_text(rules(*upstreams))
            await until(lambda version=version: server.snapshot.version != version)
        answered = len(statuses)
        await until(lambda: len(statuses) > answered + 4)
        stop.set()
        await asyncio.gather(*asking)

        assert set(statuses) == {200}
        assert two.request_count > 0
