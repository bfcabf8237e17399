"""A new configuration for a running sidecar: requests go by the old one until its new clusters can serve."""

import asyncio
from collections.abc import Mapping

import pytest

from proxy.admin.context import ServerState
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.health_check import HealthCheck, HealthCheckRule, HttpHealthCheck
from proxy.config.node import NodeConfig
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.proxy.cluster.environment import ManualResolver
from tests.proxy.config.resources import rule, service
from tests.proxy.http.client import Client
from tests.proxy.http.sidecar import until

ANYWHERE = Address("127.0.0.1", 0)
CHECK = HealthCheck(
    check=HttpHealthCheck(path="/healthz"),
    timeout_ms=60_000,
    interval_ms=60_000,
    unhealthy_threshold=1,
    healthy_threshold=1,
)
RULES = (HealthCheckRule("checked.default.svc.cluster.local", None, CHECK),)


class Subject:
    """A sidecar whose services the test names, each with one host."""

    def __init__(self) -> None:
        self.server = Server(Bootstrap(listen=ANYWHERE, admin=ANYWHERE, health_checks=RULES))

    def apply(self, services: Mapping[str, FaultyUpstream], *rules) -> None:
        builder = SnapshotBuilder(ConversionContext(node=NodeConfig()))
        resources = [
            service(name, "127.0.0.1", endpoints=[{"address": "127.0.0.1", "ports": {"http": upstream.port}}])
            for name, upstream in services.items()
        ]
        builder.update([(None, resource) for resource in (*resources, *rules)])
        self.server.apply(builder.snapshot)

    async def status(self, name: str) -> int:
        client = await Client.connect(self.server.ready_line()["listen"])
        request = f"GET / HTTP/1.1\r\nhost: {name}.default.svc.cluster.local\r\n\r\n"
        response = await client.request(request.encode())
        client.abort()
        return response.status

    @property
    def clusters(self) -> list[str]:
        return sorted(name.split("|")[3].split(".")[0] for name in self.server.cluster_manager.clusters)


@pytest.fixture
async def subject():
    subject = Subject()
    async with FaultyUpstream() as upstream:
        subject.apply({"old": upstream})
        await subject.server.start()
        yield subject
        await subject.server.close()


async def test_requests_go_by_the_old_routes_until_new_hosts_are_checked(subject):
    async with FaultyUpstream(fault="hang") as upstream:
        subject.apply({"checked": upstream})
        await upstream.wait_requests(1)
        assert [await subject.status("old"), await subject.status("checked")] == [200, 404]
        assert subject.clusters == ["checked", "old"]

        upstream.set(status=200)
        upstream.drop_connections()  # the check has failed, and that is a result
        await until(lambda: subject.clusters == ["checked"])

        assert await subject.status("old") == 404


async def test_a_sidecar_that_drains_waits_for_new_hosts_too(subject):
    async with FaultyUpstream(fault="hang") as last, FaultyUpstream(fault="hang") as upstream:
        subject.apply({"old": last})
        request = asyncio.create_task(subject.status("old"))
        await last.wait_requests(1)
        drain = asyncio.create_task(subject.server.drain())
        await until(lambda: subject.server.state is ServerState.DRAINING)
        subject.apply({"checked": upstream})
        await upstream.wait_requests(1)
        assert subject.clusters == ["checked", "old"]

        upstream.drop_connections()
        await until(lambda: subject.clusters == ["checked"])
        last.drop_connections()
        await request
        await drain


async def test_nothing_is_begun_by_what_comes_in_while_a_sidecar_closes(subject, monkeypatch):
    builder = SnapshotBuilder(ConversionContext(node=NodeConfig()))
    builder.update([(None, service(f"s{number}", "127.0.0.1")) for number in range(20)])
    close = subject.server.pipeline.close

    async def close_late() -> None:
        subject.server.apply(builder.snapshot)
        await close()

    monkeypatch.setattr(subject.server.pipeline, "close", close_late)
    await subject.server.close()
    for _ in range(10):
        await asyncio.sleep(0)

    assert subject.clusters == ["old"]


async def test_without_anything_to_wait_for_the_switch_is_at_once(subject):
    async with FaultyUpstream() as upstream:
        subject.apply({"new": upstream})

        assert subject.clusters == ["new"]
        assert [await subject.status("old"), await subject.status("new")] == [404, 200]


async def test_a_newer_configuration_takes_the_place_of_one_that_waits(subject):
    async with FaultyUpstream(fault="hang") as waiting, FaultyUpstream() as upstream:
        subject.apply({"checked": waiting})
        await waiting.wait_requests(1)
        subject.apply({"new": upstream, "checked": waiting})
        assert await subject.status("new") == 404
        waiting.drop_connections()
        await until(lambda: subject.clusters == ["checked", "new"])

        assert await subject.status("new") == 200
        assert [event.data["clusters"] for event in subject.server.events.since(0) if event.kind == "config"] == [1, 2]


async def test_a_hash_table_is_built_before_requests_need_it(subject):
    balancer = {"consistentHash": {"httpHeaderName": "x", "maglev": {}}}
    maglev = rule("new", {"host": "new", "trafficPolicy": {"loadBalancer": balancer}})
    async with FaultyUpstream() as one, FaultyUpstream() as two:
        endpoints = [{"address": "127.0.0.1", "ports": {"http": each.port}} for each in (one, two)]
        builder = SnapshotBuilder(ConversionContext(node=NodeConfig()))
        builder.update([(None, service("new", "127.0.0.1", endpoints=endpoints)), (None, maglev)])
        subject.server.apply(builder.snapshot)
        (balancer,) = [
            cluster.load_balancer for name, cluster in subject.server.cluster_manager.clusters.items() if "new" in name
        ]
        assert balancer.building
        await until(lambda: subject.clusters == ["new"])

        assert not balancer.building
        assert await subject.status("new") == 200


async def test_hosts_that_are_added_to_a_cluster_hold_nothing_up(subject):
    async with FaultyUpstream() as first, FaultyUpstream(fault="hang") as second, FaultyUpstream() as new:
        subject.apply({"checked": first})
        await until(lambda: subject.clusters == ["checked"])
        subject.apply({"checked": second, "new": new})

        assert subject.clusters == ["checked", "new"]
        assert await subject.status("new") == 200


async def test_a_start_waits_for_every_cluster_even_for_those_that_come_meanwhile(monkeypatch):
    monkeypatch.setattr("proxy.cluster.cluster_manager._WARMING_S", 0)
    resolver = ManualResolver()
    server = Server(Bootstrap(listen=ANYWHERE, admin=ANYWHERE), resolver=resolver)
    builder = SnapshotBuilder(ConversionContext(node=NodeConfig()))

    def add(name: str) -> None:
        named = service(name, resolution="DNS", endpoints=[{"address": f"{name}.test"}])
        server.apply(builder.update([(None, named)]))

    add("one")
    start = asyncio.create_task(server.start())
    await until(lambda: server.ready_line()["admin"] != str(ANYWHERE))
    add("two")
    resolver.answer("one.test", "127.0.0.1")
    for _ in range(10):
        await asyncio.sleep(0)
    assert server.state is ServerState.INITIALIZING
    resolver.answer("two.test", "127.0.0.1")
    await start

    assert server.state is ServerState.LIVE
    await server.close()
