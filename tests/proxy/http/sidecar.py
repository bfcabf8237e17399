"""A data plane without the rest of a sidecar: one listener and its clusters, on real sockets.

What it reports to outlier detection, counts and logs is open to the tests.
"""

import asyncio
import heapq
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self, cast

from outlier import EnvoyRelease, HostMonitor, OutlierDetection, Result, Runtime, SeededRandom
from outlier.runtime import Settings
from proxy.cluster.cluster import Cluster
from proxy.cluster.cluster_manager import ClusterManager
from proxy.cluster.environment import Environment
from proxy.cluster.time_source import LoopTime
from proxy.config.address import Address
from proxy.config.cluster_config import ClusterConfig, Endpoint, LbPolicy, LoadBalancerConfig
from proxy.config.listener_options import ListenerOptions
from proxy.config.route_config import Route, RouteAction, RouteConfiguration, VirtualHost
from proxy.deadlines import Deadlines
from proxy.http.access_log import AccessLog
from proxy.http.listener import Listener
from proxy.http.stats import HttpStats
from proxy.http.tls import ListenerTls
from proxy.log_file import LogFile
from proxy.router.exchange import Router
from proxy.router.route_table import Routes, RouteTable
from proxy.stats import StatsStore
from proxy.testing import FaultyUpstream
from tests.proxy.cluster.environment import ManualResolver
from tests.proxy.http.client import Client

CLUSTER = "outbound|80||service"
WAIT_S = 30.0  # longer than anything here takes; reached only by a failing test

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

ROUND_ROBIN = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, healthy_panic_threshold=0)


def post(body: bytes, *lines: str) -> bytes:
    """Return a POST with a body of stated length."""
    head = ["POST / HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until `condition` holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def arrived(upstream: FaultyUpstream, count: int = 1) -> None:
    """Wait until the upstream has seen the heads of `count` requests."""
    async with asyncio.timeout(WAIT_S):
        await upstream.wait_requests(count)


class ManualClock:
    """What `Deadlines` needs of an event loop; time passes only by `advance`."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000.0
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._numbers = count()

    def time(self) -> float:
        return self._now_ms / 1000

    def call_at(self, when: float, callback: Callable[[], None]) -> "ManualTimer":
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (when * 1000, next(self._numbers), timer))
        return timer

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass, and call what falls due in order."""
        end_ms = self._now_ms + ms
        while self._timers and self._timers[0][0] <= end_ms + 0.001:  # a microsecond of grace: times were seconds
            when_ms, _, timer = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, when_ms)
            timer.run()
        self._now_ms = end_ms


class ManualTimer:
    """A timer handle of `ManualClock`."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is not None:
            self._callback()


class RecordingMonitor(HostMonitor):
    """A host's monitor that judges nobody; `reports` are the results in order."""

    __slots__ = ("reports",)

    def __init__(self, address: str) -> None:
        settings = Settings(OutlierDetection(), Runtime(), SeededRandom(1))
        super().__init__(address, settings, EnvoyRelease.V1_40.behaviour, None)
        self.reports: list[tuple[Result, int | None]] = []

    def put_result(self, result: Result, code: int | None = None) -> None:
        """Keep the report."""
        self.reports.append((result, code))


class AccessLogLines:
    """Stands for the access log's file; `lines` are its objects."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write_line(self, line: str) -> None:
        self.lines.append(json.loads(line))


def cluster_config(upstreams: Sequence[FaultyUpstream | str], *, name: str = CLUSTER, **fields: Any) -> ClusterConfig:
    """Return a round robin cluster over upstreams or addresses; `endpoint` is a mapping of fields of each endpoint."""
    endpoint: Mapping[str, Any] = fields.pop("endpoint", {})
    addresses = [upstream if isinstance(upstream, str) else upstream.address for upstream in upstreams]
    defaults = {"service_host": "service", "port": 80, "load_balancer": ROUND_ROBIN, "connect_timeout_ms": 10_000}
    endpoints = tuple(Endpoint(address=address, **endpoint) for address in addresses)
    return ClusterConfig(name=name, endpoints=endpoints, **(defaults | fields))


def virtual_host(*domains: str, cluster: str = CLUSTER, **action: Any) -> VirtualHost:
    """Return a virtual host with one route; `action` are fields of its `RouteAction`."""
    routes = (Route(action=RouteAction(cluster=cluster, **action)),)
    return VirtualHost(name=domains[0], service_host="service", port=80, domains=domains, routes=routes)


class Sidecar:
    """One listener over clusters; use as `async with`.

    Args:
        upstreams: Hosts of the cluster that every authority leads to.
        route: Fields of the route's action (`timeout_ms`).
        clock: Drives the timeouts; None takes the event loop's.
        service: As for `Listener`.
        options: What clients are allowed.
        listener_tls: What the listener speaks TLS with; None is plain text.
        cluster: Further fields of the cluster's configuration.

    When it ends nothing may be left under way; that is asserted.
    """

    def __init__(
        self,
        *upstreams: FaultyUpstream | str,
        route: Mapping[str, Any] | None = None,
        clock: ManualClock | None = None,
        service: tuple[str, int | None] | None = None,
        options: ListenerOptions | None = None,
        listener_tls: ListenerTls | None = None,
        **cluster: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        time_source = LoopTime(loop)
        self.deadlines = Deadlines(cast("asyncio.AbstractEventLoop", clock or loop))
        self.stats_store = StatsStore()
        self.events: list[Any] = []
        self.manager = ClusterManager(
            Environment(
                loop=loop,
                deadlines=self.deadlines,
                time_source=time_source,
                random=SeededRandom(1),
                release=EnvoyRelease.V1_40,
                runtime=Runtime(),
                resolver=ManualResolver(),
                on_event=self.events.append,
            ),
            self.stats_store,
        )
        self.http_stats = HttpStats()
        self.router = Router(self.manager.clusters, deadlines=self.deadlines, loop=loop, random=SeededRandom(3))
        self.routes = Routes()
        self._log = AccessLogLines()
        self.listener = Listener(
            Address("127.0.0.1", 0),
            self.router,
            self.routes,
            service=service,
            stats=self.http_stats,
            random=SeededRandom(2),
            on_exchange_end=AccessLog(cast("LogFile", self._log), time_source),
            options=options or ListenerOptions(),
            tls=listener_tls,
        )
        self._clients: list[Client] = []
        self._gone: list[Cluster] = []
        self.apply(cluster_config(upstreams, **cluster))
        self.set_routes(virtual_host("*", **(route or {})))

    async def __aenter__(self) -> Self:
        await self.listener.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.abort()
        self.listener.close()
        await self.listener.wait_empty()
        clusters = [*self.manager.clusters.values(), *self._gone]
        self.manager.close()
        for cluster in self._gone:
            cluster.close()
        self.deadlines.close()
        if exc is None:
            assert (self.http_stats.downstream_rq_active, self.http_stats.downstream_cx_active) == (0, 0)
            for cluster in clusters:
                assert (cluster.stats.upstream_rq_active, cluster.stats.upstream_rq_pending_active) == (0, 0)
                assert cluster.stats.upstream_cx_active == 0

    @property
    def cluster(self) -> Cluster:
        """The cluster that every authority leads to."""
        return self.manager.clusters[CLUSTER]

    @property
    def log(self) -> list[dict[str, Any]]:
        """The access log so far."""
        return self._log.lines

    def apply(self, *configs: ClusterConfig) -> None:
        """Run exactly these clusters."""
        before = dict(self.manager.clusters)
        self.manager.plan({config.name: config for config in configs})
        for _ in (*self.manager.update(), *self.manager.remove_others()):
            pass
        self._gone += [cluster for name, cluster in before.items() if name not in self.manager.clusters]

    def set_routes(self, *virtual_hosts: VirtualHost) -> None:
        """Route by exactly these virtual hosts."""
        self.routes.table = RouteTable(RouteConfiguration.of(*virtual_hosts))

    def record(self) -> list[list[tuple[Result, int | None]]]:
        """From now on keep what is reported; return the reports of each host, in the order of the configuration."""
        reports = []
        for host in self.cluster.hosts:
            monitor = host.monitor = RecordingMonitor(host.address)
            reports.append(monitor.reports)
        return reports

    async def client(
        self, *, receive_buffer_bytes: int | None = None, tls: ssl.SSLContext | None = None, server_name: str = ""
    ) -> Client:
        """Return a client connected to the listener; with `tls` it asks for `server_name`.

        Raises:
            ssl.SSLError: The handshake has failed.
        """
        address = str(self.listener.address)
        if tls is None:
            client = await Client.connect(address, receive_buffer_bytes=receive_buffer_bytes)
        else:
            client = await Client.connect_tls(address, tls, server_name)
        self._clients.append(client)
        return client

    def stat(self, name: str) -> int:
        """Return a statistic of the cluster; 0 for one that has not been counted yet."""
        try:
            return self.stats_store.value(f"cluster.{CLUSTER}.{name}")
        except KeyError:
            return 0


def logged(sidecar: Sidecar) -> tuple[int, str, str, int]:
    """Return code, flags, details and attempts of the one line of the access log."""
    (line,) = sidecar.log
    return line["response_code"], line["response_flags"], line["response_code_details"], line["attempt"]
