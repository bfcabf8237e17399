"""The sidecar: puts the parts together, starts them in order, and takes them down again.

Configuration comes in through the pipeline; the switch makes it what requests go by, clusters first, then all routes in
one step, big changes in turns with requests. Listeners open once the first configuration is in force, so that nobody is
answered from an empty one; the admin server opens before, for those who want to see what is waited for.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from outlier import Detector, EjectionEvent, RandomGenerator, Runtime, TimeSource
from proxy.admin.application import create_admin
from proxy.admin.context import AdminContext, ListenerStatus, ServerState
from proxy.cluster.cluster_manager import ClusterManager
from proxy.cluster.environment import Environment
from proxy.cluster.health_check_events import HealthCheckEvents
from proxy.cluster.outlier_driver import OutlierDriver, SweepDriver
from proxy.cluster.time_source import LoopTime
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.health_check import HealthCheckRules
from proxy.config.snapshot import EMPTY_SNAPSHOT, ConfigSnapshot
from proxy.config.source_options import SourceScheme
from proxy.deadlines import Deadlines
from proxy.errors import ListenError, ProxyError
from proxy.event_stream import EventStream
from proxy.http.access_log import AccessLog
from proxy.http.listener import Listener
from proxy.http.stats import STAT_PREFIX, HttpStats
from proxy.http.tls import ListenerTls
from proxy.log_file import LogFile, LogFileError
from proxy.outlier_events import OutlierEvents
from proxy.push.debounce import DebounceSettings
from proxy.push.file_source import FileSource
from proxy.push.pipeline import ConfigPipeline
from proxy.router.route_table import Routes
from proxy.router.router import Router
from proxy.router.switch import Switch
from proxy.stats import Metric, MetricKind, StatsStore
from proxy.upstream.cares_resolver import CaresResolver
from proxy.upstream.dns_resolver import DnsResolver
from proxy.upstream.tls import LoadedTls
from proxy.version import version

if TYPE_CHECKING:
    from proxy.push.feeds import Feeds

log = structlog.get_logger()

_OUTBOUND = "outbound"  # name of the listener whose requests choose their service


class SystemRandom:
    """Chance from the interpreter's generator: fast, seeded by the system, not secret."""

    random = staticmethod(partial(random.getrandbits, 64))  # no frame of ours: it is called once or more per request


class Server:
    """One sidecar.

    Args:
        bootstrap: Its options.
        time_source: Clock of detectors and balancers; None takes the event loop's.
        random: Chance of balancing, enforcement, jitter and ids; None takes the interpreter's.
        resolver: Looks up the names of hosts; None asks DNS servers, and is the sidecar's to close either way.
        drive_sweeps: Makes what fires a detector's sweeps; goes with a clock that is not the loop's.

    Use from inside a running event loop: `start`, then `drain` or `close`.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        time_source: TimeSource | None = None,
        random: RandomGenerator | None = None,
        resolver: DnsResolver | None = None,
        drive_sweeps: Callable[[Detector, asyncio.AbstractEventLoop], SweepDriver] = OutlierDriver,
    ) -> None:
        self.bootstrap = bootstrap
        self.state = ServerState.PRE_INITIALIZING
        self.snapshot: ConfigSnapshot = EMPTY_SNAPSHOT
        self.stats_store = StatsStore()
        self.runtime = Runtime()
        self.quit_requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._time_source = time_source or LoopTime(self._loop)
        self._started_ms = self._time_source.monotonic_ms()
        self.events = EventStream(self._time_source)
        self._health_failed = False
        self._asks_to_go = False  # since the listeners have been told to drain
        self._deadlines = Deadlines(self._loop)
        self._random = random or SystemRandom()
        self._resolver = resolver or CaresResolver(bootstrap.dns, self._loop)
        self._event_log = LogFile(bootstrap.event_log) if bootstrap.event_log is not None else None
        self._access_log = LogFile(bootstrap.access_log) if bootstrap.access_log is not None else None
        self._outlier_events = OutlierEvents(self._event_log)
        self._health_check_events = HealthCheckEvents(bootstrap.health_checks, self.events.publish)
        self.cluster_manager = ClusterManager(
            Environment(
                loop=self._loop,
                deadlines=self._deadlines,
                time_source=self._time_source,
                random=self._random,
                release=bootstrap.envoy_release,
                runtime=self.runtime,
                resolver=self._resolver,
                on_event=self._on_outlier_event,
                health_checks=HealthCheckRules(bootstrap.health_checks),
                health_check_events=self._health_check_events,
                on_shadow_event=self.events.publish_shadow,
                drive_sweeps=drive_sweeps,
            ),
            self.stats_store,
        )
        self.pipeline = ConfigPipeline(bootstrap.node, bootstrap.istio_release, self.apply, mesh=bootstrap.mesh)
        self.http_stats = HttpStats()
        self._router = Router(
            self.cluster_manager.clusters, deadlines=self._deadlines, loop=self._loop, random=self._random
        )
        self._routes = Routes()
        self._switch = Switch(self.cluster_manager, self._routes, self._on_switched)
        self._listener_tls = ListenerTls.from_options(bootstrap)
        self._listeners = self._make_listeners()
        self._admin: web.AppRunner | None = None
        self._admin_address = bootstrap.admin
        self._file_source: FileSource | None = None
        self._watching: asyncio.Task[None] | None = None
        self._feeds: Feeds | None = None
        self.stats_store.register(self._metrics)
        self.stats_store.register(self.pipeline.metrics.metrics)

    # Configuration

    def apply(self, snapshot: ConfigSnapshot) -> None:
        """Run `snapshot`; requests under way finish as they began.

        A sidecar that serves makes a big change in turns with its requests, after this call.
        """
        self.snapshot = snapshot
        serves = self.state in (ServerState.LIVE, ServerState.DRAINING)
        self._switch.apply(snapshot, at_once=not serves)

    def _on_switched(self, snapshot: ConfigSnapshot) -> None:
        self.events.publish(
            "config", version=snapshot.version, clusters=len(snapshot.clusters), changed=sorted(snapshot.changed)
        )

    # Life

    async def start(self) -> None:
        """Load the configuration, then listen.

        Raises:
            ProxyError: An address cannot be listened on, or a file of the configuration is missing or wrong.
        """
        self.state = ServerState.INITIALIZING
        paths = [str(path) for path in self.bootstrap.config_paths]
        paths += [source.target for source in self.bootstrap.sources if source.scheme is SourceScheme.FILES]
        if paths:
            self._file_source = FileSource(paths, self.pipeline)
            self._file_source.load()
            self._watching = self._loop.create_task(self._file_source.watch())
        if self.bootstrap.sources or paths:
            self.pipeline.debounce(
                DebounceSettings(
                    after_ms=self.bootstrap.debounce_after_ms,
                    max_ms=self.bootstrap.debounce_max_ms,
                    endpoints=self.bootstrap.debounce_endpoints,
                )
            )
        try:
            await self._start_admin()
            if any(source.scheme is not SourceScheme.FILES for source in self.bootstrap.sources):
                await self._start_feeds()
            await self.cluster_manager.wait_all_initialized()
            for listener in self._listeners.values():
                await listener.start()
        except (ProxyError, asyncio.CancelledError):
            await self.close()
            raise
        self.state = ServerState.LIVE
        log.info("server.started", version=version(), **self.ready_line())

    async def drain(self) -> None:
        """Let clients go with their next response, wait at most the drain time for them, then close.

        New clients are served meanwhile, as by Istio's outbound listeners: whoever stops beside us has last requests.
        """
        self.state = ServerState.DRAINING
        log.info("server.draining", drain_time_ms=self.bootstrap.drain_time_ms)
        for listener in self._listeners.values():
            listener.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bootstrap.drain_time_ms / 1000):
                while any(listener.connections for listener in self._listeners.values()):
                    for listener in self._listeners.values():
                        await listener.wait_empty()
        await self.close()
        log.info("server.stopped")

    async def close(self) -> None:
        """Stop at once."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None
        if self._feeds is not None:
            await self._feeds.close()
            self._feeds = None
        await self.pipeline.close()
        self._switch.close()
        for listener in self._listeners.values():
            listener.close()
        self.cluster_manager.close()
        await self._resolver.close()
        self._deadlines.close()
        if self._admin is not None:
            await self._admin.cleanup()
            self._admin = None
        for file in self._log_files():
            file.close()

    def ready_line(self) -> dict[str, object]:
        """Return where the sidecar listens, for the first line of its output."""
        services = {
            service.service: str(self._listeners[service.service].address) for service in self.bootstrap.services
        }
        return {
            "listen": str(self._listeners[_OUTBOUND].address),
            "admin": str(self._admin_address),
            "services": services,
            "pid": os.getpid(),
        }

    def reopen_logs(self) -> None:
        """Open the log files again by name: somebody has renamed them."""
        for file in self._log_files():
            try:
                file.reopen()
            except LogFileError as exc:
                log.warning("server.log_not_reopened", error=str(exc))

    # Own

    def _log_files(self) -> Iterator[LogFile]:
        yield from (file for file in (self._event_log, self._access_log) if file is not None)
        yield from self._health_check_events.files

    async def _start_feeds(self) -> None:
        """Return once every server has been reached and has sent each of its collections."""
        from proxy.push.feeds import Feeds  # grpc: memory and time that a sidecar fed from files does without

        bootstrap = self.bootstrap
        self._feeds = Feeds(
            bootstrap.sources,
            self.pipeline,
            options=bootstrap.source_connection,
            mode=bootstrap.source_mode,
            node_id=bootstrap.node.id,
            random=self._random,
        )
        self.stats_store.register(self._feeds.metrics)
        await self._feeds.start(bootstrap.source_start_timeout_ms)
        await self._feeds.wait_synced()
        await self.pipeline.wait_applied()

    def _make_listeners(self) -> dict[str, Listener]:
        on_exchange_end = AccessLog(self._access_log, self._time_source) if self._access_log is not None else None
        make = partial(
            Listener,
            router=self._router,
            routes=self._routes,
            stats=self.http_stats,
            random=self._random,
            on_exchange_end=on_exchange_end,
            options=self.bootstrap,
            tls=self._listener_tls,
        )
        listeners = {_OUTBOUND: make(self.bootstrap.listen)}
        for service in self.bootstrap.services:
            listeners[service.service] = make(service.address, service=(service.host, service.port))
        return listeners

    async def _start_admin(self) -> None:
        context = AdminContext(
            bootstrap=self.bootstrap,
            cluster_manager=self.cluster_manager,
            stats_store=self.stats_store,
            snapshot=lambda: self.snapshot,
            state=self._shown_state,
            listeners=self._listener_statuses,
            runtime=self.runtime,
            time_source=self._time_source,
            started_ms=self._started_ms,
            version=version(),
            quit=self.quit_requested.set,
            drain_listeners=self._drain_listeners,
            fail_health=self._fail_health,
            reset_counters=self._reset_counters,
            reopen_logs=self.reopen_logs,
            events=self.events,
            config_status=self.pipeline.status,
            config_builder=self.pipeline.builder,
            certificates=self._certificates,
        )
        runner = web.AppRunner(create_admin(context), access_log=None, handle_signals=False)
        await runner.setup()
        self._admin = runner
        address = self.bootstrap.admin
        site = web.UnixSite(runner, address.path) if address.path else web.TCPSite(runner, address.host, address.port)
        try:
            await site.start()
        except OSError as exc:
            raise ListenError(str(address), exc.strerror or str(exc)) from exc
        if not address.path:
            self._admin_address = Address(address.host, runner.addresses[0][1])

    def _on_outlier_event(self, event: EjectionEvent) -> None:
        self._outlier_events(event)
        self.events.publish_ejection(event)

    def _shown_state(self) -> ServerState:
        return ServerState.DRAINING if self._health_failed and self.state is ServerState.LIVE else self.state

    def _listener_statuses(self) -> list[ListenerStatus]:
        listeners = self._listeners.items()
        return [ListenerStatus(name, listener.address) for name, listener in listeners if listener.accepting]

    def _certificates(self) -> list[LoadedTls]:
        sockets = [self._listener_tls, *(cluster.tls for cluster in self.cluster_manager.clusters.values())]
        return [socket.loaded for socket in sockets if socket is not None and socket.loaded is not None]

    def _drain_listeners(self, graceful: bool) -> None:
        """Stop accepting: at once, or after a drain time in which clients are asked to go; nobody is cut off."""
        if graceful:
            self._asks_to_go = True
            self._ask_clients_to_go()
            self._loop.call_later(self.bootstrap.drain_time_ms / 1000, self._stop_accepting)
        else:
            self._stop_accepting()

    def _stop_accepting(self) -> None:
        for listener in self._listeners.values():
            listener.stop_accepting()

    def _fail_health(self, failed: bool) -> None:
        self._health_failed = failed
        self._ask_clients_to_go()

    def _ask_clients_to_go(self) -> None:
        """Let responses say whether they are the last on their connection."""
        for listener in self._listeners.values():
            listener.draining = self._health_failed or self._asks_to_go or self.state is ServerState.DRAINING

    def _reset_counters(self) -> None:
        self.http_stats.reset_counters()
        for cluster in self.cluster_manager.clusters.values():
            cluster.reset_counters()

    def _metrics(self) -> Iterator[Metric]:
        yield from self.http_stats.metrics()
        for name, value in (("no_route", self._router.no_route), ("no_cluster", self._router.no_cluster)):
            yield Metric(
                f"http.{STAT_PREFIX}.{name}",
                value,
                MetricKind.COUNTER,
                f"http.{name}",
                (("envoy.http_conn_manager_prefix", STAT_PREFIX),),
            )
        uptime_s = (self._time_source.monotonic_ms() - self._started_ms) // 1000
        for name, value in (
            ("server.live", int(self._shown_state() is ServerState.LIVE)),
            ("server.uptime", uptime_s),
            ("server.total_connections", self.http_stats.downstream_cx_active),
        ):
            yield Metric(name, value, MetricKind.GAUGE, name)
