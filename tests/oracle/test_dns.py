"""Names become hosts: the sidecar and a real Envoy ask one DNS server, whose answers change.

Envoy is started with what `outlier envoy` prints for the same resources and options. After each change both must have
asked again and then show the same hosts, flags, memberships and kinds of updates.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import aiohttp
import attrs
import pytest
import yaml

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.dns import DnsLookupFamily
from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.mesh_config import MeshConfig
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import static_config
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.oracle.client import Client
from tests.oracle.envoy import Envoy
from tests.proxy.upstream.dns_server import BROKEN, MISSING, SILENT, DnsServer, Reply

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("_envoy")]

ANYWHERE = Address("127.0.0.1", 0)
MESH = MeshConfig(dns_refresh_rate=1_000_000_000)
PATIENCE_S = 60.0  # reached only where the two differ
POLL_S = 0.1
REQUESTS = 6  # of each service after each change
FIRST, SECOND, THIRD = (f"127.0.0.{number}" for number in (1, 2, 3))
FATE = ("update_success", "update_failure")
RULE = {
    "outlierDetection": {
        "consecutive5xxErrors": 1,
        "maxEjectionPercent": 100,
        "interval": "600s",
        "baseEjectionTime": "600s",
    },
    "loadBalancer": {"simple": "ROUND_ROBIN"},
}


def addresses(*found: str) -> Reply:
    return Reply(found, ttl_s=1)


@attrs.frozen(kw_only=True)
class Case:
    """One service over some names, and what these resolve to in each phase; the last entry of a list holds on."""

    name: str
    names: Mapping[str, Sequence[Reply]]
    resolution: str = "DNS"
    endpoint: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def host(self) -> str:
        return f"{self.name}.example"

    @property
    def cluster_name(self) -> str:
        return f"outbound|80||{self.host}"

    def resources(self, port: int) -> list[dict[str, Any]]:
        endpoints = [{"address": name, "ports": {"http": port}, **self.endpoint} for name in self.names]
        specs: dict[str, dict[str, Any]] = {
            "ServiceEntry": {
                "hosts": [self.host],
                "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
                "resolution": self.resolution,
                "endpoints": endpoints,
            },
            "DestinationRule": {"host": self.host, "trafficPolicy": RULE},
        }
        return [
            {
                "apiVersion": "networking.istio.io/v1",
                "kind": kind,
                "metadata": {"name": self.name, "namespace": "default"},
                "spec": spec,
            }
            for kind, spec in specs.items()
        ]


ONE, TWO, NONE = addresses(FIRST), addresses(FIRST, SECOND), Reply()
CASES = [
    Case(name="stays", names={"stays.test": [TWO]}, endpoint={"weight": 3, "locality": "r/z/s"}),
    Case(name="moves", names={"moves.test": [ONE, TWO, addresses(SECOND, THIRD), ONE]}),
    Case(name="turns", names={"turns.test": [TWO, addresses(SECOND, FIRST)]}),
    Case(name="repeats", names={"repeats.test": [addresses(FIRST, SECOND, FIRST), addresses(THIRD, THIRD)]}),
    Case(name="shares", names={"a.shares.test": [TWO], "b.shares.test": [addresses(SECOND, THIRD), ONE, TWO]}),
    Case(name="missing", names={"missing.test": [MISSING, ONE, MISSING, TWO]}),
    Case(name="empty", names={"empty.test": [NONE, ONE, NONE, TWO]}),
    Case(name="broken", names={"broken.test": [BROKEN, ONE, BROKEN, TWO]}),
    Case(name="half", names={"good.half.test": [ONE, TWO], "bad.half.test": [BROKEN, MISSING, BROKEN, ONE]}),
    Case(name="aliased", names={"aliased.test": [Reply([FIRST, SECOND], ttl_s=60, alias="other.test", alias_ttl_s=1)]}),
    Case(name="literal", names={FIRST: []}),
    Case(name="logical", names={"logical.test": [TWO]}, resolution="DNS_ROUND_ROBIN"),
    Case(
        name="logical-turns",
        names={"turning.test": [TWO, addresses(SECOND, FIRST), TWO]},
        resolution="DNS_ROUND_ROBIN",
    ),
    Case(
        name="logical-shrinks",
        names={"shrinking.test": [TWO, ONE, addresses(FIRST, THIRD), addresses(THIRD)]},
        resolution="DNS_ROUND_ROBIN",
    ),
    Case(name="logical-empty", names={"void.test": [ONE, NONE, TWO]}, resolution="DNS_ROUND_ROBIN"),
    Case(name="logical-broken", names={"cut.test": [BROKEN, ONE, BROKEN, TWO]}, resolution="DNS_ROUND_ROBIN"),
]
PHASES = 5
FAILING: Mapping[int, Collection[str]] = {1: {SECOND}, 2: {SECOND, FIRST}}  # who answers 500, by phase


class NamedEnvoy(Envoy):
    """An Envoy with the configuration that `outlier envoy` prints."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        super().__init__([])
        self._message = dict(message)

    def bootstrap(self) -> dict[str, Any]:
        return self._message


@attrs.frozen(kw_only=True)
class View:
    """What one proxy shows of a cluster."""

    hosts: Sequence[str]
    stats: Mapping[str, int]

    @property
    def ended(self) -> int:
        """How many lookups have come to an end."""
        return sum(self.stats[stat] for stat in FATE)

    def comparable(self, earlier: "View") -> tuple[Sequence[str], int, list[str]]:
        """Return the hosts, how often they changed, and which kinds of updates have come since an earlier view."""
        kinds = [stat for stat, value in self.stats.items() if value > earlier.stats[stat] and "update" in stat]
        return self.hosts, self.stats["membership_change"], kinds


class Pair:
    """Both proxies on the same resources, and how to look at them."""

    def __init__(self, envoy: NamedEnvoy, server: Server) -> None:
        self._admins = (envoy.admin, str(server.ready_line()["admin"]))
        self._listens = (envoy.listen, Address.parse(str(server.ready_line()["listen"])))
        self._http = aiohttp.ClientSession()

    async def close(self) -> None:
        await self._http.close()

    async def look(self) -> list[dict[str, View]]:
        """Return the views of all clusters, of Envoy and of the sidecar."""
        return [await self._view(admin) for admin in self._admins]

    async def statuses(self, case: Case) -> list[list[int]]:
        """Return the distinct statuses of some requests to a service, of each proxy."""
        found = []
        for listen in self._listens:
            host, port = (listen.host, listen.port) if isinstance(listen, Address) else listen
            client = Client(host, port)
            request = f"GET / HTTP/1.1\r\nhost: {case.host}\r\n\r\n".encode()
            found.append(sorted({(await client.exchange(request)).status for _ in range(REQUESTS)}))
            await client.close()
        return found

    async def _view(self, admin: str) -> dict[str, View]:
        async with self._http.get(f"http://{admin}/clusters?format=json") as page:
            clusters = json.loads(await page.text())["cluster_statuses"]
        pattern = "cluster.*(update_[a-z_]*|membership_change)$"
        async with self._http.get(f"http://{admin}/stats", params={"format": "json", "filter": pattern}) as page:
            stats = {stat["name"]: stat.get("value", 0) for stat in json.loads(await page.text())["stats"]}
        names = (*FATE, "update_attempt", "update_empty", "update_no_rebuild", "membership_change")
        return {
            cluster["name"]: View(
                hosts=sorted(json.dumps(_shown(host)) for host in cluster.get("host_statuses", [])),
                stats={name: stats[f"cluster.{cluster['name']}.{name}"] for name in names},
            )
            for cluster in clusters
        }


def _shown(host: Mapping[str, Any]) -> list[Any]:
    fields = ("address", "hostname", "health_status", "weight", "priority", "locality")
    return [host.get(field) for field in fields]


@contextlib.asynccontextmanager
async def both(
    dns: DnsServer, cases: Sequence[Case], port: int, family: DnsLookupFamily = DnsLookupFamily.V4_ONLY
) -> AsyncIterator[Pair]:
    """Run Envoy and the sidecar over the services."""
    text = yaml.safe_dump_all([document for case in cases for document in case.resources(port)])
    options = Bootstrap(
        listen=ANYWHERE,
        admin=ANYWHERE,
        mesh=MESH,
        dns_resolvers=(dns.address,),
        dns_lookup_family=family,
    )
    snapshot = static_config({"names.yaml": text}, ConversionContext(node=options.node, mesh=MESH)).builder.snapshot
    server = Server(options)
    server.apply(snapshot)
    async with NamedEnvoy(envoy_bootstrap(snapshot, options)) as envoy:
        await server.start()
        pair = Pair(envoy, server)
        try:
            yield pair
        finally:
            await pair.close()
            await server.close()


async def disagreements(pair: Pair, cases: Sequence[Case]) -> dict[str, tuple[View, View]]:
    """Wait until both proxies have asked again and agree; return the cases where they do not.

    The first lookup may have begun before the change, the second brings it, the third confirms it.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    begin = now = await pair.look()
    since: dict[str, list[View]] = {}
    waiting = {case.cluster_name: len(case.names) for case in cases}
    while waiting and time.monotonic() < deadline_s:
        await asyncio.sleep(POLL_S)
        now = await pair.look()
        for name, lookups in tuple(waiting.items()):
            views = [clusters[name] for clusters in now]
            if name not in since:
                if all(view.ended >= before[name].ended + lookups for view, before in zip(views, begin, strict=True)):
                    since[name] = views
            elif all(view.ended >= before.ended + 3 * lookups for view, before in zip(views, since[name], strict=True)):
                theirs, ours = (view.comparable(before) for view, before in zip(views, since[name], strict=True))
                if theirs == ours:
                    del waiting[name]
                since[name] = views
    return {name: (now[0][name], now[1][name]) for name in waiting}


async def settle(pair: Pair, cases: Sequence[Case]) -> dict[str, tuple[View, View]]:
    """Wait until both show the same hosts and flags: Envoy's main thread ejects what its worker has found."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        theirs, ours = await pair.look()
        names = [case.cluster_name for case in cases]
        found = {name: (theirs[name], ours[name]) for name in names if theirs[name].hosts != ours[name].hosts}
        if not found or time.monotonic() > deadline_s:
            return found
        await asyncio.sleep(POLL_S)


def set_phase(dns: DnsServer, cases: Sequence[Case], phase: int) -> None:
    for case in cases:
        for name, replies in case.names.items():
            if replies:
                dns.zone[name] = replies[min(phase, len(replies) - 1)]


@contextlib.asynccontextmanager
async def upstreams() -> AsyncIterator[dict[str, FaultyUpstream]]:
    """Run an upstream at each address, all at one port."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(FaultyUpstream(host=FIRST))
        others = {
            host: await stack.enter_async_context(FaultyUpstream(host=host, port=first.port))
            for host in (SECOND, THIRD)
        }
        yield {FIRST: first, **others}


async def test_hosts_follow_their_names_as_under_envoy() -> None:
    found: dict[str, object] = {}
    async with upstreams() as hosts, DnsServer() as dns:
        set_phase(dns, CASES, 0)
        async with both(dns, CASES, hosts[FIRST].port) as pair:
            for phase in range(PHASES):
                set_phase(dns, CASES, phase)
                for name, views in (await disagreements(pair, CASES)).items():
                    found.setdefault(name, (phase, views))
                for host, upstream in hosts.items():
                    upstream.set(status=500 if host in FAILING.get(phase, ()) else 200)
                for case in CASES:
                    await pair.statuses(case)
                for name, views in (await settle(pair, CASES)).items():
                    found.setdefault(name, (phase, views))
                for case in CASES:
                    theirs, ours = await pair.statuses(case)
                    if theirs != ours:
                        found.setdefault(case.cluster_name, (phase, theirs, ours))

    assert found == {}


@pytest.mark.parametrize("family", DnsLookupFamily, ids=lambda family: family.value)
async def test_families_are_looked_up_as_under_envoy(family: DnsLookupFamily) -> None:
    names = {"both": addresses(FIRST, "::1"), "four": ONE, "six": addresses("::1"), "none": NONE, "lost": BROKEN}
    cases = [Case(name=name, names={f"{name}.test": [reply]}) for name, reply in names.items()]
    cases.append(Case(name="local", names={"localhost": []}))
    async with DnsServer() as dns:
        set_phase(dns, cases, 0)
        async with both(dns, cases, 80, family) as pair:
            assert await disagreements(pair, cases) == {}


async def test_a_dns_server_that_says_nothing_takes_no_host_away() -> None:
    cases = [Case(name="stays", names={"stays.test": [TWO, SILENT]})]
    async with upstreams() as hosts, DnsServer() as dns:
        set_phase(dns, cases, 0)
        async with both(dns, cases, hosts[FIRST].port) as pair:
            before = await pair.look()
            set_phase(dns, cases, 1)
            asked = len(dns.asked)
            async with asyncio.timeout(PATIENCE_S):
                while len(dns.asked) < asked + 4:  # noqa: ASYNC110 - a datagram has no event; two proxies ask twice
                    await asyncio.sleep(POLL_S)
            after = await pair.look()

    for view, earlier in zip(after, before, strict=True):
        stays = view["outbound|80||stays.example"]
        assert stays.hosts == earlier["outbound|80||stays.example"].hosts
        assert stays.stats["update_failure"] == 0
