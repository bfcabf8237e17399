"""One cluster at work: its hosts, their pools, the balancer, the detector and the statistics.

Joins parts that do not know each other; decides only what a new configuration may keep. An endpoint that stays keeps
its `Host`, so its health, its ejection, its connections and its counters, whatever else the configuration changes.
Ports the assembly in `ClusterImplBase` and `ClusterManagerImpl` (Envoy, source/common/upstream).
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from outlier import NULL_MONITOR, Detector, ErrorMatcher, HostMonitor, OutlierDetection
from outlier.reporting import report_response
from proxy.cluster.dns_discovery import DnsDiscovery
from proxy.cluster.environment import Environment
from proxy.cluster.outlier_driver import SweepDriver
from proxy.cluster.response_report import report_in_full
from proxy.cluster.shadow import Shadow, follow_shadow
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.config.cluster_config import ClusterConfig, ClusterType, Endpoint, TlsMode
from proxy.load_balancer import LoadBalancer, create_load_balancer
from proxy.load_balancer.hash_load_balancer import HashLoadBalancer
from proxy.load_balancer.original_destination import CLEANUP_INTERVAL_MS, OriginalDestination
from proxy.load_balancer.scheduled_load_balancer import ScheduledLoadBalancer
from proxy.upstream.connecting import connect
from proxy.upstream.connection import DEGRADED, GRPC_STATUS, IMMEDIATE_HEALTH_CHECK_FAIL
from proxy.upstream.health_checker import Checked, HealthChecker
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.pool_factory import make_pool, may_speak_http2
from proxy.upstream.priority_set import PrioritySet
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.tls import UpstreamTlsSocket

# Headers of a response that say more of its host than the status does.
_TELLING = DEGRADED | GRPC_STATUS | IMMEDIATE_HEALTH_CHECK_FAIL


class Cluster:
    """A running cluster; `update` gives it a new configuration of the same name."""

    def __init__(self, config: ClusterConfig, environment: Environment) -> None:
        self.name = config.name
        self.config = config
        self.added_via_api = True
        self.stats = ClusterStats()
        self.priority_set = PrioritySet()
        self.resources = ResourceManager(config.circuit_breakers)
        self.detector: Detector | None = None
        self.tls = _tls_socket(config)
        self._error_matcher = _error_matcher(config)
        self._environment = environment
        self._driver: SweepDriver | None = None
        self._hosts_by_monitor: dict[HostMonitor, Host] = {}
        self._cleanup: asyncio.TimerHandle | None = None
        self._initialized = False
        self._afresh = False  # whether no host may stay when hosts are known again
        self._stopped = False
        self.health_checker = self._create_health_checker(config)
        self.discovery = self._create_discovery()
        self._refresh_hosts()
        self._update_detector(config.outlier_detection)
        self.shadow: Shadow | None = follow_shadow(None, self, environment)
        self.load_balancer: LoadBalancer = self._create_load_balancer()

    def __repr__(self) -> str:
        return f"Cluster({self.name}, {len(self.hosts)} hosts)"

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts, in the order of the configuration."""
        return self.priority_set.hosts

    def update(self, config: ClusterConfig) -> None:
        """Take a new configuration; requests in flight go on under the old one."""
        old, self.config = self.config, config
        self.resources.limits = config.circuit_breakers
        self._error_matcher = _error_matcher(config)
        if config.outlier_detection != old.outlier_detection:
            self._update_detector(config.outlier_detection)
        if config.tls != old.tls or _protocols(config) != _protocols(old):
            self.tls = _tls_socket(config)
            self._afresh = True  # a host's pools are of one kind for good
        if config.type is not old.type and ClusterType.ORIGINAL_DST in {config.type, old.type}:
            self._update_hosts(())  # hosts that requests have named are nobody's endpoints
        if config.type is not old.type:
            if self.discovery is not None:
                self.discovery.close()
            self.discovery = self._create_discovery()
        elif self.discovery is not None:
            self.discovery.update(config)
        if self._afresh or config.endpoints != old.endpoints or config.type is not old.type:
            self._refresh_hosts()
        self.shadow = follow_shadow(self.shadow, self, self._environment)
        for host in self.hosts:
            if host.pool is not None:
                host.pool.config = config
        if config.load_balancer != old.load_balancer:
            self.load_balancer.close()
            self.load_balancer = self._create_load_balancer()

    @property
    def initialized(self) -> bool:
        """Whether hosts are found and checked and the table is built, or once were: later hosts keep nobody waiting."""
        if not self._initialized:
            checker, balancer, discovery = self.health_checker, self.load_balancer, self.discovery
            building = isinstance(balancer, HashLoadBalancer) and balancer.building
            checked = checker is None or checker.all_checked
            self._initialized = checked and not building and (discovery is None or discovery.answered)
        return self._initialized

    async def wait_initialized(self) -> None:
        """Return once the cluster is initialized."""
        if self.initialized:
            return
        if self.discovery is not None:
            await self.discovery.wait_answered()
        if self.health_checker is not None:
            await self.health_checker.wait_all_checked()
        # Every turn of the loop builds a step of the table.
        while isinstance(self.load_balancer, HashLoadBalancer) and self.load_balancer.building:  # noqa: ASYNC110
            await asyncio.sleep(0)
        self._initialized = True

    def remove(self) -> None:
        """The cluster is out of the configuration: no new requests come, those in flight finish."""
        self._stop()
        for host in self.hosts:
            if host.pool is not None:
                host.pool.retire()

    def close(self) -> None:
        """Stop at once."""
        self._stop()
        for host in self.hosts:
            if host.pool is not None:
                host.pool.close()

    def reset_counters(self) -> None:
        """Set every counter of the cluster and its detector to 0; gauges stay."""
        self.stats.reset_counters()
        if self.tls is not None:
            self.tls.stats.reset_counters()
        if self.detector is not None:
            self.detector.stats.reset_counters()
        if self.health_checker is not None:
            self.health_checker.stats.reset_counters()
        if self.discovery is not None:
            self.discovery.stats.reset_counters()

    def report_response(self, host: Host, request: RequestHead, head: ResponseHead) -> None:
        """Tell a host's monitor, and maybe its health checker, what its response head means."""
        if self._error_matcher is None and not head.marks & _TELLING:
            report_response(host.monitor, head.status)
            return
        report_in_full(host.monitor, request, head, self._error_matcher)
        if head.marks & IMMEDIATE_HEALTH_CHECK_FAIL and self.health_checker is not None:
            self.health_checker.set_unhealthy(host)

    def _stop(self) -> None:
        """Take no more notice of anything; a removed cluster that is closed later stops once."""
        if self._stopped:
            return
        self._stopped = True
        self.load_balancer.close()
        if self.discovery is not None:
            self.discovery.close()
        if self.health_checker is not None:
            self.health_checker.close()
        self._stop_detector()
        if self.shadow is not None:
            self.shadow.close()
        if self._cleanup is not None:
            self._cleanup.cancel()

    def _create_load_balancer(self) -> LoadBalancer:
        environment = self._environment
        balancer = create_load_balancer(
            self.config.load_balancer,
            self.priority_set,
            environment.random,
            environment.time_source,
            self.stats,
            defer=environment.loop.call_soon,
            new_host=self._new_host,
        )
        if isinstance(balancer, OriginalDestination) and self._cleanup is None:
            self._arm_cleanup()
        return balancer

    # Hosts

    def _create_discovery(self) -> DnsDiscovery | None:
        """Look up the names that the endpoints are, if they are."""
        environment = self._environment
        if not self.config.type.is_dns:
            return None
        return DnsDiscovery(
            self.config,
            resolver=environment.resolver,
            loop=environment.loop,
            random=environment.random,
            on_change=self._refresh_hosts,
        )

    def _refresh_hosts(self) -> None:
        """Let the hosts be those of the configuration; while none of its names is known, those of before stay."""
        if self.discovery is not None and not self.discovery.answered:
            return
        if self._afresh:
            self._afresh = False
            self._update_hosts(())
        self._update_hosts(self.config.endpoints if self.discovery is None else self.discovery.endpoints)

    def _update_hosts(self, endpoints: Iterable[Endpoint]) -> None:
        """Match the endpoints with the hosts by identity; a host that stays takes the endpoint's new attributes."""
        known = {host.endpoint.identity: host for host in self.hosts}
        hosts: dict[str, Host] = {}
        for endpoint in endpoints:
            identity = endpoint.identity
            if identity in hosts:
                continue  # the same address twice is one host, the first
            host = known.pop(identity, None)
            if host is None:
                host = self._new_host(endpoint)
            else:
                host.update(endpoint)
            hosts[identity] = host
        for host in known.values():
            self._remove_host(host)
        self.priority_set.update_hosts(tuple(hosts.values()))

    def _new_host(self, endpoint: Endpoint) -> Host:
        host = Host(endpoint)
        environment = self._environment
        host.pool = make_pool(
            host,
            self.config,
            resources=self.resources,
            stats=self.stats,
            deadlines=environment.deadlines,
            loop=environment.loop,
            random=environment.random,
            tls=self.tls,
        )
        if self.detector is not None:
            self._monitor(self.detector, host)
        if self.health_checker is not None and self.config.type is not ClusterType.ORIGINAL_DST:
            self.health_checker.add_host(host)
        return host

    def _remove_host(self, host: Host) -> None:
        if self.health_checker is not None:
            self.health_checker.remove_host(host)
        if self.detector is not None:
            del self._hosts_by_monitor[host.monitor]
            self.detector.remove_host(host.monitor)
        if host.pool is not None:
            host.pool.retire()

    def _arm_cleanup(self) -> None:
        self._cleanup = self._environment.loop.call_later(CLEANUP_INTERVAL_MS / 1000, self._remove_unused)

    def _remove_unused(self) -> None:
        """Remove the hosts that requests have named and no longer name."""
        self._cleanup = None
        if isinstance(self.load_balancer, OriginalDestination):
            for host in self.load_balancer.remove_unused():
                self._remove_host(host)
            self._arm_cleanup()

    # Active health checks

    def _create_health_checker(self, config: ClusterConfig) -> HealthChecker | None:
        environment = self._environment
        settings = environment.health_checks.find(config.service_host, config.port)
        if settings is None:
            return None
        return HealthChecker(
            settings,
            cluster_name=self.name,
            loop=environment.loop,
            time_source=environment.time_source,
            random=environment.random,
            has_traffic=lambda: self.stats.upstream_cx_total > 0,
            on_check=self._on_check,
            on_event=partial(environment.health_check_events.write, settings.event_log_path),
            connect=partial(self._connect_to_check, settings.timeout_ms),
        )

    async def _connect_to_check(
        self,
        timeout_ms: int,
        loop: asyncio.AbstractEventLoop,
        protocol: Callable[[], asyncio.BaseProtocol],
        address: str,
    ) -> None:
        """Open a connection as requests have it; without a fixed SNI there is no name to ask for."""
        tls = self.tls
        await connect(
            loop,
            protocol,
            address,
            tls=tls.context() if tls is not None else None,
            server_name=tls.config.sni if tls is not None else "",
            timeout_ms=timeout_ms,
        )

    def _on_check(self, checked: Checked) -> None:
        """Carry a result to the balancer, the connections and the detector, in this order, as in Envoy."""
        host = checked.host
        if checked.recovered and isinstance(self.load_balancer, ScheduledLoadBalancer):
            self.load_balancer.on_active_health_check_passed(host)
        failed = host.has_flag(HealthFlag.FAILED_ACTIVE_HC)
        if checked.changed:
            self.priority_set.refresh_health(host.priority)
            if failed and host.pool is not None:
                host.pool.drain()
        if self.detector is not None:
            self.detector.on_active_health_check(host.monitor, healthy=checked.passed, failed_active_hc=failed)

    # Outlier detection

    def _update_detector(self, settings: OutlierDetection | None) -> None:
        """Begin, end or go on with detection; hosts lose what is known of them only when it ends."""
        if settings is None:
            self._stop_detector()
        elif self.detector is None:
            self._start_detector(settings)
        else:
            self.detector.update_config(settings)

    def _start_detector(self, settings: OutlierDetection) -> None:
        """Detect outliers; every host starts with a clean record."""
        environment = self._environment
        self.detector = Detector(
            settings,
            cluster_name=self.name,
            time_source=environment.time_source,
            random=environment.random,
            release=environment.release,
            runtime=environment.runtime,
            active_health_checker=self.health_checker is not None,
            on_event=environment.on_event,
            on_change=self._on_outlier_change,
        )
        for host in self.hosts:
            self._monitor(self.detector, host)
        self._driver = environment.drive_sweeps(self.detector, environment.loop)

    def _stop_detector(self) -> None:
        """End detection; ejected hosts are back, since nobody would return them."""
        if self.detector is None or self._driver is None:
            return
        self._driver.stop()
        self.detector.close()
        self.detector = self._driver = None
        self._hosts_by_monitor.clear()
        for host in self.hosts:
            host.monitor = NULL_MONITOR
            host.clear_flag(HealthFlag.FAILED_OUTLIER_CHECK | HealthFlag.DEGRADED_OUTLIER_DETECTION)
        for priority in range(len(self.priority_set.host_sets)):
            self.priority_set.refresh_health(priority)

    def _monitor(self, detector: Detector, host: Host) -> None:
        host.monitor = detector.add_host(host.address)
        self._hosts_by_monitor[host.monitor] = host

    def _on_outlier_change(self, monitor: HostMonitor) -> None:
        """Carry a decision of the detector to the balancer and the connections, at once."""
        host = self._hosts_by_monitor[monitor]
        newly_ejected = monitor.ejected and not host.has_flag(HealthFlag.FAILED_OUTLIER_CHECK)
        host.put_flag(HealthFlag.FAILED_OUTLIER_CHECK, on=monitor.ejected)
        host.put_flag(HealthFlag.DEGRADED_OUTLIER_DETECTION, on=monitor.degraded)
        self.priority_set.refresh_health(host.priority)
        if newly_ejected and host.pool is not None:
            host.pool.drain()


def _tls_socket(config: ClusterConfig) -> UpstreamTlsSocket | None:
    """Return how the cluster's connections are secured; None for plain text.

    ISTIO_MUTUAL would take the certificate that the mesh gives to a workload, which there is none of here.
    """
    if config.tls is None or config.tls.mode is TlsMode.ISTIO_MUTUAL:
        return None
    return UpstreamTlsSocket(config.name, config.tls, http2=may_speak_http2(config))


def _protocols(config: ClusterConfig) -> tuple[bool, bool]:
    """Return what decides which protocols the cluster's connections speak."""
    return config.h2_upstream is not None, config.use_downstream_protocol


def _error_matcher(config: ClusterConfig) -> ErrorMatcher | None:
    return ErrorMatcher.for_statuses(config.error_codes) if config.error_codes else None
