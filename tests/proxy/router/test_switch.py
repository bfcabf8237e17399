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
from tests.virtual_time import run_in_virtual_time

BIG = 40


class Subject:
    """A switch fed by a pipeline, and what its route table shows."""

    def __init__(self) -> None:
        self.manager = ClusterManager(live_environment(), StatsStore())
        self.routes = Routes()
        self.switched: list[ConfigSnapshot] = []
        self.times: list[float] = []  # of the loop, in seconds, one for each of those
        self.switch = Switch(self.manager, self.routes, self._note)
        self.pipeline = ConfigPipeline(NodeConfig(), apply=self.switch.apply)

    def _note(self, snapshot: ConfigSnapshot) -> None:
        self.switched.append(snapshot)
        self.times.append(asyncio.get_running_loop().time())

    def put(self, part: str, *resources) -> None:
        self.pipeline.update("test", {part: Contents(resources={resource.key: resource for resource in resources})})

    @property
    def versions(self) -> list[str]:
        """Of the snapshots that requests have gone by."""
        return [snapshot.version for snapshot in self.switched]

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
    while subject.manager.clusters:
        assert subject.routed() == 0 or len(subject.manager.clusters) == BIG
        await asyncio.sleep(0)

    assert (len(subject.switched), subject.routed()) == (2, 0)


async def test_what_a_newer_configuration_interrupts_is_part_of_it(subject, monkeypatch):
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a", *services())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert 0 < len(subject.manager.clusters) < BIG
    subject.put("a", *services(BIG - 10))
    await until(lambda: subject.switched and len(subject.manager.clusters) == BIG - 10)

    assert subject.routed() == BIG - 10
    assert subject.versions == [subject.pipeline.snapshot.version]
    assert subject.switched[0].changed == {f"outbound|80||s{number}.default.svc.cluster.local" for number in range(BIG)}


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


async def test_routes_under_way_come_into_force_however_many_small_changes_follow(subject, monkeypatch):
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a", *services())
    first, version = subject.pipeline.snapshot.changed, subject.pipeline.snapshot.version
    await until(lambda: len(subject.manager.clusters) == BIG)
    names = [f"extra{number}" for number in range(4)]
    for name in names:
        for _ in range(3):
            await asyncio.sleep(0)
        subject.put(name, service(name, "10.0.0.2"))
    assert subject.switched == []
    await until(lambda: len(subject.switched) == 2)

    assert subject.versions == [version, subject.pipeline.snapshot.version]
    assert subject.switched[0].changed == first
    assert subject.switched[1].changed == {f"outbound|80||{name}.default.svc.cluster.local" for name in names}
    assert all(subject.routes.table.find(name.encode()) for name in ("s0", *names))


async def test_a_change_that_must_be_made_at_once_waits_for_no_routes_under_way(subject, monkeypatch):
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a", *services())
    await until(lambda: len(subject.manager.clusters) == BIG)
    for _ in range(3):
        await asyncio.sleep(0)
    subject.put("b", service("other", "10.0.0.2"))
    assert subject.switched == []
    subject.switch.apply(subject.pipeline.snapshot, at_once=True)
    assert (subject.routed(), len(subject.switched), len(subject.switched[0].changed)) == (BIG, 1, BIG + 1)
    await until(lambda: len(asyncio.all_tasks()) == 1)

    assert len(subject.switched) == 1


async def test_a_change_left_off_among_its_routes_is_part_of_the_next(subject, monkeypatch):
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a", *services())
    await until(lambda: len(subject.manager.clusters) == BIG)
    for _ in range(3):
        await asyncio.sleep(0)
    subject.put("b", service("other", "10.0.0.2"))
    subject.switch.close()
    subject.put("c", service("third", "10.0.0.3"))
    await until(lambda: subject.switched)

    assert subject.routed() == BIG
    assert len(subject.switched[0].changed) == BIG + 2


async def test_a_small_change_does_not_take_over_a_big_removal(subject, monkeypatch):
    subject.put("a", *services())
    await until(lambda: subject.switched)
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a")
    await until(lambda: len(subject.manager.clusters) == BIG - 1)
    subject.put("b", service("other", "10.0.0.2"))
    assert len(subject.manager.clusters) >= BIG - 1
    await until(lambda: len(subject.manager.clusters) == 1)

    assert len(subject.switched) == 3
    assert subject.routes.table.find(b"other") is not None


async def test_a_switch_is_told_before_what_is_left_over_goes(subject, monkeypatch):
    subject.put("a", *services())
    await until(lambda: subject.switched)
    monkeypatch.setattr("proxy.turns._TURN_MS", 0)
    subject.put("a")
    await until(lambda: len(subject.switched) == 2)

    assert len(subject.manager.clusters) == BIG


def silent(name: str):
    """Return a service whose host is a name that nobody answers for."""
    return service(name, resolution="DNS", endpoints=[{"address": f"{name}.test"}])


def test_clusters_that_never_get_ready_hold_routes_back_for_a_while_whatever_comes_meanwhile():
    async def main() -> tuple[list[float], list[bool]]:
        subject = Subject()
        found: list[bool] = []
        subject.put("a", silent("lost"))
        for number in range(4):
            await asyncio.sleep(7)
            found.append(subject.routes.table.find(b"lost") is not None)
            subject.put("b", service("other", "10.0.0.2"), service(f"s{number}", "10.0.0.3"))
        subject.switch.close()
        subject.manager.close()
        return subject.times, found

    assert run_in_virtual_time(main()) == ([15, 21, 28], [False, False, True, True])


def test_each_cluster_that_never_gets_ready_has_its_own_time():
    async def main() -> list[float]:
        subject = Subject()
        subject.put("a", silent("lost"))
        await asyncio.sleep(10)
        subject.put("b", silent("later"))
        await asyncio.sleep(20)
        subject.put("c", service("other", "10.0.0.2"))
        subject.switch.close()
        subject.manager.close()
        return subject.times

    assert run_in_virtual_time(main()) == [25, 30]


async def test_a_cluster_that_is_gone_again_holds_nothing_back(subject):
    subject.put("a", silent("lost"))
    subject.put("b", service("other", "10.0.0.2"))
    assert subject.routes.table.find(b"other") is None
    subject.put("a")

    assert subject.routes.table.find(b"other") is not None
    assert list(subject.manager.clusters) == ["outbound|80||other.default.svc.cluster.local"]


def test_a_cluster_that_is_gone_again_holds_nothing_back_in_turns_either():
    async def main() -> list[float]:
        subject = Subject()
        subject.put("a", silent("lost"))
        await asyncio.sleep(1)
        subject.put("a", *services())
        await asyncio.sleep(20)
        subject.manager.close()
        return subject.times

    assert run_in_virtual_time(main()) == [1]
