"""An admin application over a sidecar that is only data: real hosts, detectors and statistics, no sockets upstream."""

from functools import cached_property
from types import SimpleNamespace

import attrs
import pytest
from aiohttp.test_utils import TestClient, TestServer

from outlier import Detector, OutlierDetection, Runtime, SeededRandom, SimulatedTime
from proxy.admin.application import create_admin
from proxy.admin.context import AdminContext, ListenerStatus, ServerState
from proxy.admin.overrides import Overrides
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.cluster_config import ClusterConfig, ClusterType, Endpoint, LbPolicy, LoadBalancerConfig
from proxy.config.snapshot import EMPTY_SNAPSHOT
from proxy.event_stream import EventStream
from proxy.load_balancer import LoadBalancer, create_load_balancer
from proxy.stats import Metric, MetricKind, StatsStore
from proxy.upstream.host import Host
from proxy.upstream.priority_set import PrioritySet
from proxy.upstream.stats import ClusterStats


@attrs.define(eq=False)
class FakeCluster:
    name: str
    config: ClusterConfig
    priority_set: PrioritySet
    load_balancer: LoadBalancer
    detector: Detector | None

    @property
    def hosts(self):
        return self.priority_set.hosts


def make_cluster(name: str, endpoints, *, detection: OutlierDetection | None = None, time=None, runtime=None, **config):
    """A cluster as the endpoints see it; every host has a monitor when `detection` is given."""
    detector = None
    if detection is not None:
        detector = Detector(
            detection,
            cluster_name=name,
            time_source=time or SimulatedTime(),
            random=SeededRandom(),
            runtime=runtime,
        )
    hosts = [Host(endpoint) for endpoint in endpoints]
    for host in hosts:
        if detector is not None:
            host.monitor = detector.add_host(host.address)
    priority_set = PrioritySet()
    priority_set.update_hosts(hosts)
    config.setdefault("type", ClusterType.STATIC)
    config.setdefault("load_balancer", LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN))
    cluster_config = ClusterConfig(
        name=name,
        service_host="a.default.svc.cluster.local",
        port=80,
        endpoints=tuple(endpoints),
        outlier_detection=detection,
        **config,
    )
    balancer = create_load_balancer(
        cluster_config.load_balancer, priority_set, SeededRandom(), time or SimulatedTime(), ClusterStats()
    )
    return FakeCluster(name, cluster_config, priority_set, balancer, detector)


@attrs.define(slots=False)
class FakeSidecar:
    """What the admin endpoints are attached to; `done` lists the actions they asked for."""

    time: SimulatedTime = attrs.Factory(SimulatedTime)
    clusters: dict = attrs.Factory(dict)
    stats_store: StatsStore = attrs.Factory(StatsStore)
    runtime: Runtime = attrs.Factory(Runtime)
    state: ServerState = ServerState.LIVE
    snapshot: object = EMPTY_SNAPSHOT
    config_status: object = None
    config_builder: object = None
    call_later: object = None
    done: list[str] = attrs.Factory(list)
    certificates: list = attrs.Factory(list)
    bootstrap: Bootstrap = attrs.field(factory=lambda: Bootstrap(node_id="n1", labels=(("app", "web"),)))

    def add_cluster(self, name="outbound|80||a.default.svc.cluster.local", hosts=1, **kwargs):
        endpoints = [Endpoint(address=f"127.0.0.1:{10_000 + number}") for number in range(hosts)]
        cluster = make_cluster(name, endpoints, time=self.time, runtime=self.runtime, **kwargs)
        self.clusters[name] = cluster
        return cluster

    def count(self, name, value, kind=MetricKind.COUNTER, tags=(), extracted=None):
        metric = Metric(name, value, kind, extracted or name, tags)
        self.stats_store.register(lambda: [metric])

    @cached_property
    def events(self):
        return EventStream(self.time)

    def context(self) -> AdminContext:
        return AdminContext(
            bootstrap=self.bootstrap,
            cluster_manager=SimpleNamespace(clusters=self.clusters),
            stats_store=self.stats_store,
            snapshot=lambda: self.snapshot,
            state=lambda: self.state,
            listeners=lambda: [
                ListenerStatus("outbound", Address("127.0.0.1", 15_001)),
                ListenerStatus("reviews:9080", Address(path="/run/reviews.sock")),
            ],
            runtime=self.runtime,
            time_source=self.time,
            started_ms=0,
            version="1.2.3",
            quit=lambda: self.done.append("quit"),
            drain_listeners=lambda graceful: self.done.append(f"drain_listeners {graceful}"),
            fail_health=lambda fail: self.done.append(f"fail_health {fail}"),
            reset_counters=lambda: self.done.append("reset_counters"),
            reopen_logs=lambda: self.done.append("reopen_logs"),
            events=self.events,
            config_status=lambda: self.config_status,
            config_builder=self.config_builder,
            certificates=lambda: self.certificates,
            overrides=Overrides(self.time, self.events, lambda s, callback: self.call_later(s, callback)),
        )


@pytest.fixture
def sidecar():
    return FakeSidecar()


@pytest.fixture
async def admin(sidecar):
    """An HTTP client of the admin application."""
    async with TestClient(TestServer(create_admin(sidecar.context()))) as client:
        yield client
