"""A whole sidecar: what it listens on, how it starts and fails to, how it drains, and that its logs can be renamed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.admin.context import ServerState
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap, ServiceListener
from proxy.errors import ListenError, ProxyError
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.proxy.http.client import Client
from tests.proxy.http.raw_upstream import GatedUpstream, RawUpstream
from tests.proxy.http.sidecar import GET, WAIT_S, arrived, until

ANY_PORT = Address("127.0.0.1", 0)
SERVICE = "reviews.default.svc.cluster.local"

RULES = """
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: reviews, namespace: default}}
spec:
  hosts: [{service}]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{endpoints}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: reviews, namespace: default}}
spec:
  host: {service}
  trafficPolicy:
    outlierDetection: {{consecutive5xxErrors: 1, interval: 10s, baseEjectionTime: 30s, maxEjectionPercent: 100}}
"""


def rules(*upstreams: FaultyUpstream | RawUpstream) -> str:
    endpoints = ", ".join(f"{{address: 127.0.0.1, ports: {{http: {upstream.port}}}}}" for upstream in upstreams)
    return RULES.format(service=SERVICE, endpoints=endpoints)


@asynccontextmanager
async def running(folder: Path, *upstreams: FaultyUpstream | RawUpstream, **options: Any) -> AsyncIterator[Server]:
    """Run a sidecar in front of these upstreams; it is closed at the end, unless it was drained before."""
    (folder / "rules.yaml").write_text(rules(*upstreams))
    defaults = {"config_paths": (folder / "rules.yaml",), "listen": ANY_PORT, "admin": ANY_PORT}
    server = Server(Bootstrap(**(defaults | options)))
    await server.start()
    try:
        yield server
    finally:
        if server.state is not ServerState.DRAINING:
            await server.close()


async def connect(server: Server, service: str | None = None) -> Client:
    line: Any = server.ready_line()
    return await Client.connect(line["services"][service] if service else line["listen"])


def request(host: str = SERVICE, path: str = "/") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def test_authority_chooses_the_service(tmp_path):
    async with FaultyUpstream(body=b"x") as upstream, running(tmp_path, upstream) as server:
        client = await connect(server)

        assert (await client.request(request())).body == b"x"
        assert (await client.request(request(f"{SERVICE}:80"))).body == b"x"
        assert (await client.request(request("reviews"))).body == b"x"
        assert (await client.request(request("nobody"))).status == 404
        client.abort()


async def test_listener_of_a_service_needs_no_authority(tmp_path):
    listener = ServiceListener(SERVICE, 80, ANY_PORT)
    async with FaultyUpstream(body=b"x") as upstream, running(tmp_path, upstream, services=(listener,)) as server:
        client = await connect(server, listener.service)

        assert (await client.request(request("anything"))).body == b"x"
        client.abort()


async def test_ready_line_tells_every_address(tmp_path):
    listener = ServiceListener(SERVICE, 80, ANY_PORT)
    async with FaultyUpstream() as upstream, running(tmp_path, upstream, services=(listener,)) as server:
        line: Any = server.ready_line()

        assert set(line) == {"listen", "admin", "services", "pid"}
        for address in (line["listen"], line["admin"], line["services"][listener.service]):
            host, _, port = address.rpartition(":")
            assert (host, int(port) > 0) == ("127.0.0.1", True)
            (await Client.connect(address)).abort()
        assert json.loads(json.dumps(line)) == line


async def test_unix_sockets_are_listened_on(tmp_path):
    address = Address("", 0, str(tmp_path / "listen.sock"))
    async with FaultyUpstream(body=b"x") as upstream, running(tmp_path, upstream, listen=address) as server:
        reader, writer = await asyncio.open_unix_connection(address.path)
        client = Client(reader, writer)

        assert server.ready_line()["listen"] == f"unix://{address.path}"
        assert (await client.request(request())).body == b"x"
        client.abort()


@pytest.mark.parametrize("option", ["listen", "admin"])
async def test_a_port_in_use_is_a_clear_error(tmp_path, option):
    async with FaultyUpstream() as upstream, running(tmp_path, upstream) as first:
        taken = Address("127.0.0.1", int(str(first.ready_line()[option]).rpartition(":")[2]))
        options = {"config_paths": (tmp_path / "rules.yaml",), "listen": ANY_PORT, "admin": ANY_PORT, option: taken}
        second = Server(Bootstrap(**options))

        with pytest.raises(ListenError, match="in use") as caught:
            await second.start()
        assert caught.value.address == str(taken)
        assert str(taken) in str(caught.value)
        client = await connect(first)
        assert (await client.request(request())).status == 200
        client.abort()


async def test_a_configuration_that_is_wrong_is_a_clear_error_and_nothing_listens(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: 3}\n")
    log = tmp_path / "events.log"
    server = Server(Bootstrap(config_paths=(path,), listen=ANY_PORT, admin=ANY_PORT, event_log=log))

    with pytest.raises(ProxyError, match=r"rules\.yaml"):
        await server.start()
    await server.close()


@pytest.mark.slow
async def test_a_changed_file_is_applied_while_requests_run(tmp_path):
    async with (
        GatedUpstream(b"old") as old,
        FaultyUpstream(body=b"new") as new,
        running(tmp_path, old) as server,
    ):
        client = await connect(server)
        client.send(request())
        await until(lambda: old.paths)
        version = server.snapshot.version
        (tmp_path / "rules.yaml").write_text(rules(new))
        await until(lambda: server.snapshot.version != version)
        old.release()

        assert [(await client.response()).body, (await client.request(request())).body] == [b"old", b"new"]
        client.abort()


class TestDrain:
    async def test_request_under_way_is_finished(self, tmp_path):
        async with GatedUpstream(b"x") as upstream, running(tmp_path, upstream) as server:
            client = await connect(server)
            client.send(request())
            await until(lambda: upstream.paths)
            draining = asyncio.ensure_future(server.drain())
            await until(lambda: server.state is ServerState.DRAINING)
            upstream.release()
            response = await client.response()
            await asyncio.wait_for(draining, WAIT_S)

            assert (response.body, response.header("connection")) == (b"x", "close")
            assert await client.read_to_end() == b""
            client.abort()

    async def test_new_client_is_served_meanwhile(self, tmp_path):
        """Its application may be stopping as well, and have last requests; the response says that it is the last."""
        async with GatedUpstream() as upstream, running(tmp_path, upstream) as server:
            client = await connect(server)
            client.send(request())
            await until(lambda: upstream.paths)
            draining = asyncio.ensure_future(server.drain())
            await until(lambda: server.state is ServerState.DRAINING)

            newcomer = await connect(server)
            newcomer.send(request())
            await until(lambda: len(upstream.paths) == 2)
            upstream.release()
            responses = [await client.response(), await newcomer.response()]
            await asyncio.wait_for(draining, WAIT_S)

            assert [response.header("connection") for response in responses] == ["close", "close"]
            with pytest.raises(ConnectionRefusedError):
                await connect(server)
            client.abort()
            newcomer.abort()

    async def test_idle_clients_are_not_waited_for(self, tmp_path):
        async with FaultyUpstream() as upstream, running(tmp_path, upstream) as server:
            client = await connect(server)
            await client.request(request())
            await asyncio.wait_for(server.drain(), WAIT_S)

            assert await client.read_to_end() == b""
            client.abort()

    async def test_drain_time_is_the_longest_wait(self, tmp_path):
        async with FaultyUpstream(fault="hang") as upstream, running(tmp_path, upstream, drain_time_ms=50) as server:
            client = await connect(server)
            client.send(request())
            await arrived(upstream)
            await asyncio.wait_for(server.drain(), WAIT_S)

            assert await client.read_to_end() == b""
            await until(lambda: upstream.open_connections == 0)
            client.abort()


class TestLogs:
    async def test_one_line_a_request(self, tmp_path):
        log = tmp_path / "access.log"
        async with FaultyUpstream(body=b"xyz") as upstream, running(tmp_path, upstream, access_log=log) as server:
            client = await connect(server)
            await client.request(request(path="/a?b=c"))
            await client.request(request("nobody"))
            first, second = map(json.loads, log.read_text().splitlines())
            address = upstream.address
            client.abort()

        assert (first["method"], first["path"], first["authority"]) == ("GET", "/a?b=c", SERVICE)
        assert (first["response_code"], first["bytes_sent"], first["response_flags"]) == (200, 3, "-")
        assert first["upstream_cluster"] == f"outbound|80||{SERVICE}"
        assert first["upstream_host"] == address
        assert len(first["request_id"]) == 36
        assert (second["response_code"], second["response_flags"], second["upstream_cluster"]) == (404, "NR", None)

    async def test_ejections_go_to_the_event_log(self, tmp_path):
        log = tmp_path / "events.log"
        async with FaultyUpstream(status=500) as upstream, running(tmp_path, upstream, event_log=log) as server:
            client = await connect(server)
            await client.request(request())
            (event,) = map(json.loads, log.read_text().splitlines())
            client.abort()

            assert (event["action"], event["type"], event["upstream_url"]) == (
                "EJECT",
                "CONSECUTIVE_5XX",
                upstream.address,
            )

    async def test_a_renamed_log_goes_on_in_a_new_file(self, tmp_path):
        log, renamed = tmp_path / "access.log", tmp_path / "access.log.1"
        async with FaultyUpstream() as upstream, running(tmp_path, upstream, access_log=log) as server:
            client = await connect(server)
            await client.request(request(path="/1"))
            log.rename(renamed)
            await client.request(request(path="/2"))
            server.reopen_logs()
            await client.request(request(path="/3"))
            client.abort()

            assert [json.loads(line)["path"] for line in renamed.read_text().splitlines()] == ["/1", "/2"]
            assert [json.loads(line)["path"] for line in log.read_text().splitlines()] == ["/3"]

    async def test_a_log_that_cannot_be_reopened_stays_open(self, tmp_path):
        folder = tmp_path / "logs"
        folder.mkdir()
        log = folder / "access.log"
        async with FaultyUpstream() as upstream, running(tmp_path, upstream, access_log=log) as server:
            client = await connect(server)
            folder.rename(tmp_path / "moved")
            server.reopen_logs()
            await client.request(request(path="/1"))
            client.abort()

            assert json.loads((tmp_path / "moved" / "access.log").read_text())["path"] == "/1"


async def test_close_leaves_no_task_and_no_connection(tmp_path):
    async with FaultyUpstream() as upstream:
        before = asyncio.all_tasks()
        async with running(tmp_path, upstream) as server:
            client = await connect(server)
            await client.request(GET.replace(b"Host: a", f"Host: {SERVICE}".encode()))
        assert await client.read_to_end() == b""
        client.abort()
        await until(lambda: upstream.open_connections == 0)

        assert asyncio.all_tasks() == before
