"""Names become hosts in a running sidecar: real DNS messages, real connections, on loopback."""

import asyncio

import aiohttp
import pytest

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.node import NodeConfig
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.proxy.config.resources import rule, service
from tests.proxy.http.client import Client
from tests.proxy.http.sidecar import until
from tests.proxy.upstream.dns_server import BROKEN, SILENT, DnsServer, Reply

ANYWHERE = Address("127.0.0.1", 0)
NAME = "shop.default.svc.cluster.local"


class Subject:
    """A sidecar with one service, whose endpoints are names."""

    def __init__(self, dns: DnsServer) -> None:
        self.server = Server(Bootstrap(listen=ANYWHERE, admin=ANYWHERE, dns_resolvers=(dns.address,)))

    def apply(
        self, port: int, *names: str, resolution: str = "DNS", policy: str = "{loadBalancer: {simple: ROUND_ROBIN}}"
    ) -> None:
        builder = SnapshotBuilder(ConversionContext(node=NodeConfig()))
        endpoints = [{"address": name, "ports": {"http": port}} for name in names]
        entry = service("shop", host=NAME, resolution=resolution, endpoints=endpoints)
        builder.update([(None, entry), (None, rule("shop", f"{{host: {NAME}, trafficPolicy: {policy}}}"))])
        self.server.apply(builder.snapshot)

    @property
    def hosts(self) -> list[str]:
        (cluster,) = self.server.cluster_manager.clusters.values()
        return [host.address.rpartition(":")[0] for host in cluster.hosts]

    async def statuses(self, count: int) -> list[int]:
        client = await Client.connect(self.server.ready_line()["listen"])
        found = [
            (await client.request(f"GET / HTTP/1.1\r\nhost: {NAME}\r\n\r\n".encode())).status for _ in range(count)
        ]
        client.abort()
        return found


@pytest.fixture
async def dns():
    async with DnsServer() as server:
        yield server


@pytest.fixture
async def upstreams():
    """Return two upstreams at one port of two addresses."""
    async with (
        FaultyUpstream(host="127.0.0.1") as first,
        FaultyUpstream(host="127.0.0.2", port=first.port) as second,
    ):
        yield first, second


@pytest.mark.slow
async def test_a_change_of_addresses_leaves_alone_who_stays(dns, upstreams):
    good, bad = upstreams
    dns.zone["shop.test"] = Reply(["127.0.0.2"], ttl_s=1)
    subject = Subject(dns)
    subject.apply(
        good.port,
        "shop.test",
        policy="{outlierDetection: {consecutive5xxErrors: 2, maxEjectionPercent: 100, baseEjectionTime: 1h}}",
    )
    await subject.server.start()
    try:
        assert subject.hosts == ["127.0.0.2"]
        bad.set(status=500)
        assert await subject.statuses(3) == [500, 500, 503]

        dns.zone["shop.test"] = Reply(["127.0.0.1", "127.0.0.2"], ttl_s=1)
        await until(lambda: len(subject.hosts) == 2)
        assert await subject.statuses(4) == [200] * 4
        connections = good.connection_count
        asked = len(dns.asked)
        await until(lambda: len(dns.asked) > asked)
        assert await subject.statuses(1) == [200]
        assert good.connection_count == connections
    finally:
        await subject.server.close()


async def test_the_listener_opens_after_the_first_answer(dns, upstreams):
    dns.zone = {"shop.test": SILENT, "spare.test": Reply(["127.0.0.1"])}
    subject = Subject(dns)
    subject.apply(upstreams[0].port, "shop.test")
    starting = asyncio.create_task(subject.server.start())
    try:
        await until(lambda: dns.asked)
        assert not starting.done()

        subject.apply(upstreams[0].port, "spare.test")
        await starting
        assert await subject.statuses(1) == [200]
    finally:
        await subject.server.close()


async def test_a_failure_opens_it_too(dns):
    dns.zone["shop.test"] = BROKEN
    subject = Subject(dns)
    subject.apply(80, "shop.test")
    await subject.server.start()
    try:
        assert await subject.statuses(1) == [503]
    finally:
        await subject.server.close()


async def test_a_logical_name_is_connected_to_where_somebody_listens(dns):
    async with FaultyUpstream(host="127.0.0.2") as upstream:
        dns.zone["shop.test"] = Reply(["127.0.0.3", "127.0.0.2"])
        subject = Subject(dns)
        subject.apply(upstream.port, "shop.test", resolution="DNS_ROUND_ROBIN")
        await subject.server.start()
        try:
            assert subject.hosts == ["127.0.0.3"]
            assert await subject.statuses(2) == [200, 200]
            assert upstream.connection_count == 1
        finally:
            await subject.server.close()


async def test_addresses_and_counters_are_shown(dns):
    dns.zone["shop.test"] = Reply(["127.0.0.9"])
    subject = Subject(dns)
    subject.apply(8080, "shop.test")
    await subject.server.start()
    try:
        async with aiohttp.ClientSession(f"http://{subject.server.ready_line()['admin']}") as admin:
            async with admin.get("/clusters?format=json") as page:
                (cluster,) = (await page.json())["cluster_statuses"]
            async with admin.get("/stats?filter=[.]update_") as page:
                stats = await page.text()

        (host,) = cluster["host_statuses"]
        assert host["hostname"] == "shop.test"
        assert host["address"] == {"socket_address": {"address": "127.0.0.9", "port_value": 8080}}
        counts = [line.rpartition(".")[2] for line in stats.splitlines()]
        assert counts == [
            "update_attempt: 1",
            "update_empty: 0",
            "update_failure: 0",
            "update_no_rebuild: 0",
            "update_success: 1",
        ]
    finally:
        await subject.server.close()
