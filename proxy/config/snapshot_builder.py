"""Keeps the snapshot up to date with changing resources, rebuilding only what a change touches.

Indexes find the services that a change concerns; their clusters and virtual hosts are built anew, and an object that
comes out equal is replaced by the one already there. Costs follow the change, not the total.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from proxy.config.cluster_config import ClusterConfig, Endpoint
from proxy.config.destination_rule import ConsistentHash
from proxy.config.host_names import candidates, covers
from proxy.config.layered_mapping import LayeredMapping
from proxy.config.resource import Change, Resource
from proxy.config.route_builder import RouteBuilder
from proxy.config.route_config import HostRoutes, RouteConfiguration, VirtualHost
from proxy.config.rule_index import MergedRule, RuleIndex, choose_rule, precedence
from proxy.config.service_clusters import ClusterPlan, ConversionContext, build_cluster, plan_clusters
from proxy.config.service_index import Service, ServiceIndex
from proxy.config.snapshot import EMPTY_SNAPSHOT, ConfigSnapshot
from proxy.config.traffic_policy import effective_policy
from proxy.config.virtual_service import HttpRoute
from proxy.config.virtual_service_index import VirtualServiceIndex

_Hosts = dict[str, None]  # a set that keeps its order, so that equal input gives equal order


class SnapshotBuilder:
    """The resources as indexes, and the snapshot made of them."""

    def __init__(self, context: ConversionContext) -> None:
        mesh, node = context.mesh, context.node
        self._context = context
        self._rules = RuleIndex(
            domain=node.domain,
            root_namespace=node.root_namespace,
            default_export_to=mesh.destination_rule_export,
        )
        self._services = ServiceIndex(node, default_export_to=mesh.service_export)
        self._virtual_services = VirtualServiceIndex(node, default_export_to=mesh.virtual_service_export)
        self._routes = RouteBuilder(context, self.service, self._consistent_hash, self._virtual_services.http_routes)
        self._known: dict[str, Service] = {}
        self._endpoints: dict[tuple[str, int], tuple[Endpoint, ...]] = {}
        self._cluster_names: dict[str, tuple[str, ...]] = {}
        self._destinations: dict[str, frozenset[str]] = {}
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._clusters: LayeredMapping[str, ClusterConfig] = LayeredMapping()
        self._host_routes: LayeredMapping[str, HostRoutes] = LayeredMapping()
        self._snapshot = EMPTY_SNAPSHOT

    @property
    def context(self) -> ConversionContext:
        """What conversion depends on besides the resources."""
        return self._context

    @property
    def snapshot(self) -> ConfigSnapshot:
        """The latest state."""
        return self._snapshot

    def service(self, host: str) -> Service | None:
        """Return the service of a host as this sidecar sees it."""
        return self._known.get(host)

    def services(self) -> Iterable[Service]:
        """Return all services that this sidecar sees."""
        return self._known.values()

    def rule(self, service: Service) -> MergedRule | None:
        """Return the DestinationRule that applies to a service for this sidecar."""
        node = self._context.node
        return choose_rule(self.entries(service), node.namespace, node.labels)

    def plans(self, service: Service) -> Iterator[tuple[ClusterPlan, ClusterConfig | None]]:
        """Yield how each cluster of a service comes about, and the cluster itself; None for one that is left out."""
        for plan in plan_clusters(service, self.rule(service), self._context):
            yield plan, build_cluster(plan, self._endpoints[service.host, plan.port.number], self._context)

    def entries(self, service: Service) -> tuple[MergedRule, ...]:
        """Return all entries of rules that this sidecar sees for a service; `rule` chooses one."""
        return self._rules.lookup(self._context.node.namespace, service.namespace, service.host)

    def selects(self, workload: Resource) -> bool:
        """Return whether any service takes a WorkloadEntry as an endpoint."""
        return bool(self._services.selecting(workload))

    def delegate(self, resource: Resource, route: HttpRoute) -> Resource | None:
        """Return the VirtualService that a route delegates to, None when there is none to be seen."""
        return self._virtual_services.delegate(resource, route)

    def virtual_service(self, host: str) -> Resource | None:
        """Return the VirtualService that holds the routes of a host."""
        return self._virtual_services.lookup(host)

    def update(self, changes: Iterable[Change]) -> ConfigSnapshot:
        """Apply changes, each an old and a new resource of one key (None: absent); return the new snapshot.

        The old one is returned when nothing that the data plane sees has changed.
        """
        membership: _Hosts = {}
        ruled: _Hosts = {}
        routed: _Hosts = {}
        for old, new in changes:
            kind = (new or old).kind.name  # type: ignore[union-attr]
            if kind == "DestinationRule":
                ruled |= dict.fromkeys(self._rules.update(old, new))
            elif kind == "ServiceEntry":
                membership |= dict.fromkeys(self._services.update_service(old, new))
            elif kind == "WorkloadEntry":
                membership |= dict.fromkeys(self._services.update_workload(old, new))
            else:
                routed |= dict.fromkeys(self._virtual_services.update(old, new))
        for host in membership:
            self._refresh_service(host)
        clusters: dict[str, ClusterConfig | None] = {}
        touched = membership | self._covered(ruled)
        for host in touched:
            clusters |= self._rebuild_clusters(host)
        routes = self._rebuild_routes(touched | routed)
        if clusters or routes:
            if clusters:
                self._clusters = self._clusters.replaced(clusters)
            if routes:
                self._host_routes = self._host_routes.replaced(routes)
            self._snapshot = ConfigSnapshot(
                version=str(int(self._snapshot.version) + 1),
                clusters=self._clusters,
                routes=RouteConfiguration(self._host_routes) if routes else self._snapshot.routes,
                changed=frozenset(clusters),
            )
        return self._snapshot

    def _covered(self, patterns: Iterable[str]) -> _Hosts:
        """Return the known services that exact names or wildcards cover."""
        covered: _Hosts = {}
        for pattern in patterns:
            if not pattern.startswith("*"):
                covered[pattern] = None
            else:
                covered |= dict.fromkeys(host for host in self._known if covers(pattern, host))
        return covered

    def _refresh_service(self, host: str) -> None:
        service = self._services.service(host)
        old = self._known.pop(host, None)
        for port in old.ports if old is not None else ():
            if service is None or port not in service.ports:
                del self._endpoints[host, port.number]
        if service is None:
            return
        self._known[host] = service
        for port in service.ports:
            key = (host, port.number)
            known = {endpoint: endpoint for endpoint in self._endpoints.get(key, ())}
            self._endpoints[key] = tuple(known.get(endpoint, endpoint) for endpoint in service.endpoints(port))

    def _rebuild_clusters(self, host: str) -> dict[str, ClusterConfig | None]:
        """Return the clusters of a host that are new or differ, and None for those that are gone."""
        service = self._known.get(host)
        built: dict[str, ClusterConfig] = {}
        for _, cluster in self.plans(service) if service is not None else ():
            if cluster is not None:
                built.setdefault(cluster.name, cluster)
        changes: dict[str, ClusterConfig | None] = {
            name: cluster for name, cluster in built.items() if self._clusters.get(name) != cluster
        }
        changes |= dict.fromkeys(name for name in self._cluster_names.pop(host, ()) if name not in built)
        if built:
            self._cluster_names[host] = tuple(built)
        return changes

    def _rebuild_routes(self, hosts: _Hosts) -> dict[str, HostRoutes | None]:
        """Return the routes of those hosts that differ, and None for those that have none any more."""
        dirty = self._covered(hosts) | dict.fromkeys(host for host in hosts if host.startswith("*"))
        for host in tuple(dirty):
            dirty |= dict.fromkeys(sorted(self._dependents.get(host, ())))
            # A service takes over what a wildcard VirtualService served as a plain host, and gives it back when it
            # goes.
            dirty |= dict.fromkeys(found for found in candidates(host) if self._virtual_services.exactly(found))
        changes: dict[str, HostRoutes | None] = {}
        for host in dirty:
            old, new = self._host_routes.get(host), self._host_routes_of(host)
            if old != new:
                changes[host] = _sharing(old, new)
        return changes

    def _host_routes_of(self, host: str) -> HostRoutes | None:
        service = self._known.get(host)
        built: tuple[VirtualHost, ...] = ()
        owner = None
        if service is not None:
            owner = service.resources[0]
            resource = self._virtual_services.lookup(host)
            built = tuple(self._routes.service_hosts(service, resource))
        else:
            resource = self._virtual_services.exactly(host)
            if resource is not None and not (host.startswith("*") and self._covered([host])):
                owner = resource
                built = (self._routes.plain_host(host, resource),)
        self._depend(host, frozenset(self._routes.destinations(resource)) if built and resource else frozenset())
        if not built or owner is None:
            return None
        return HostRoutes(order=(*precedence(owner), host), virtual_hosts=built)

    def _depend(self, host: str, destinations: frozenset[str]) -> None:
        """Note that the routes of `host` must be built anew when a service or rule of these hosts changes."""
        old = self._destinations.pop(host, frozenset())
        for destination in old - destinations:
            self._dependents[destination].discard(host)
            if not self._dependents[destination]:
                del self._dependents[destination]
        for destination in destinations - old:
            self._dependents[destination].add(host)
        if destinations:
            self._destinations[host] = destinations

    def _consistent_hash(self, host: str, port: int, subset: str) -> ConsistentHash | None:
        """Return the hash settings that apply to a port and subset of a host."""
        service = self._known.get(host)
        rule = self.rule(service) if service is not None else None
        if rule is None:
            return None
        merged = next((merged for merged in rule.subsets if merged.subset.name == subset), None) if subset else None
        policy = effective_policy(rule.traffic_policy, merged.subset.traffic_policy if merged else None, port)
        balancer = policy.policy.load_balancer if policy is not None else None
        return balancer.consistent_hash if balancer is not None else None


def _sharing(old: HostRoutes | None, new: HostRoutes | None) -> HostRoutes | None:
    """Return `new` with those virtual hosts of `old` that are equal in place of its own."""
    if old is None or new is None:
        return new
    known = {virtual_host.name: virtual_host for virtual_host in old.virtual_hosts}
    shared = tuple(known[own.name] if known.get(own.name) == own else own for own in new.virtual_hosts)
    return HostRoutes(order=new.order, virtual_hosts=shared)
