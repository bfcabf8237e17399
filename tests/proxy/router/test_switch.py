"""From one configuration to the next, small or big, while something else wants its turn too."""

import asyncio

import pytest

from proxy.cluster.cluster_manager import ClusterManager
from proxy.config.node import NodeConfig
from proxy.config.resource import Contents
from proxy.config.snapshot import ConfigSnapshot
from proxy.push.pipeline import ConfigPipeline
from proxy.router.route_table import Routes, RouteTable
from proxy.router.switch import Switch
from proxy.stats import StatsStore
from tests.proxy.cluster.environment import live_environment
from tests.proxy.config.resources import routes, rule, service
from tests.proxy.http.sidecar import until

BIG = 40


class Subject:
    """A switch fed by a pipeline, and what its route table shows."""

    def __init__(self) -> None:
        self.manager = ClusterManager(live_environment(), StatsStore())
        self.routes = Routes()
        self.switched: list[ConfigSnapshot] = []
        self.switch = Switch(self.manager, self.routes, self.switched.append)
        self.pipeline = ConfigPipeline(NodeConfig(), apply=self.switch.apply)

    def put(self, part: str, *resources) -> None:
        self.pipeline.update("test", {part: Contents(resources={resource.key: resource for resource in resources})})

    def routed(self) -> int:
        """How many of the services requests find."""
        return sum(self.routes.table.find(b"s%d" % number) is not None for number in range(BIG))


@pytest.fixture
async def subject():
    subject = Subject()
    yield subject
    subject.switch.close()
    subject.manager.close()


def services(count: int = BIG):
    return [service(f"s{number}", "10.0.0.1") for number in range(count)]


async def test_a_small_change_is_made_in_the_same_call(subject):
    subject.put("a", *services(5))  # five clusters and the routes of five hosts

    assert (len(subject.manager.clusters), subject.routed()) == (5, 5)
    assert subject.switched == [subject.pipeline.snapshot]


async def test_a_big_change_shows_all_at_once_after_others_had_their_turns(subject, monkeypatch):
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a", *services())
    seen = [(len(subject.manager.clusters), subject.routed())]
    while not subject.switched:
        await asyncio.sleep(0)
        seen.append((len(subject.manager.clusters), subject.routed()))

    assert seen[0] == (0, 0)
    assert len(seen) > BIG
    assert {routed for _, routed in seen} == {0, BIG}
    assert all(clusters == BIG for clusters, routed in seen if routed)


async def test_clusters_that_are_gone_stay_until_requests_go_elsewhere(subject, monkeypatch):
    subject.put("a", *services())
    await until(lambda: subject.switched)
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a")
    while len(subject.switched) < 2:
        assert subject.routed() == 0 or len(subject.manager.clusters) == BIG
        await asyncio.sleep(0)

    assert (len(subject.manager.clusters), subject.routed()) == (0, 0)


async def test_what_a_newer_configuration_interrupts_is_part_of_it(subject, monkeypatch):
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a", *services())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(subject.manager.clusters) < BIG
    subject.put("a", *services(BIG - 10))
    await until(lambda: subject.switched)

    assert (len(subject.manager.clusters), subject.routed()) == (BIG - 10, BIG - 10)
    assert subject.switched == [subject.pipeline.snapshot]


async def test_routes_that_did_not_change_are_not_made_ready_again(subject):
    subject.put("a", *services(5))
    kept, changed = subject.routes.table.find(b"s1"), subject.routes.table.find(b"s2")
    subject.put("v", routes("v", "{hosts: [s2], http: [{timeout: 1s, route: [{destination: {host: s2}}]}]}"))

    assert subject.routes.table.find(b"s1") is kept
    assert subject.routes.table.find(b"s2") is not changed
    assert subject.routes.table.find(b"s2").routes[0].timeout_ms == 1_000


async def test_a_change_in_a_big_mesh_touches_nothing_else(subject, monkeypatch):
    subject.put("a", *services(400))
    await until(lambda: subject.switched)
    rerouted, looked_at = [], []
    replace, look_at = RouteTable.replace, ClusterManager._look_at
    monkeypatch.setattr(RouteTable, "replace", lambda self, *host: rerouted.append(host[0]) or replace(self, *host))
    monkeypatch.setattr(ClusterManager, "_look_at", lambda self, name: looked_at.append(name) or look_at(self, name))
    subject.put("v", routes("v", "{hosts: [s7], http: [{timeout: 1s, route: [{destination: {host: s7}}]}]}"))
    subject.put("r", rule("r", "{host: s8, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1s}}}}"))

    assert rerouted == ["s7.default.svc.cluster.local"]
    assert looked_at == ["outbound|80||s8.default.svc.cluster.local"]


async def test_a_cluster_that_never_gets_ready_holds_the_routes_back_for_a_while_only(subject, monkeypatch):
    monkeypatch.setattr(ClusterManager, "initialized", False)
    monkeypatch.setattr(ClusterManager, "wait_initialized", lambda _self: asyncio.Event().wait())
    subject.put("a", *services(1))
    await asyncio.sleep(0)
    before = (len(subject.manager.clusters), subject.routed())
    subject.switch.close()
    monkeypatch.setattr("proxy.router.switch._WARMING_S", 0)
    subject.put("b", service("other", "10.0.0.2"))
    await until(lambda: subject.switched)

    assert before == (1, 0)
    assert subject.routed() == 1
