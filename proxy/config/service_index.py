"""The services and endpoints that ServiceEntries and WorkloadEntries make.

A host that several entries of one namespace declare is one service: ports are joined, endpoints gathered. Of several
namespaces the sidecar's own wins, else the oldest entry. Ports the parts of Istio's serviceentry registry that a
client needs (pilot/pkg/serviceregistry/serviceentry/conversion.go).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

import attrs

from proxy.config.cluster_config import Endpoint, HealthStatus, Locality
from proxy.config.node import NETWORK_LABEL, NodeConfig, located_labels
from proxy.config.resource import Key, Resource
from proxy.config.rule_index import precedence
from proxy.config.service_entry import Resolution, ServiceEntry, ServicePort, WorkloadEntry
from proxy.config.validate_service_entry import UNIX_PREFIX
from proxy.config.validation import is_ip
from proxy.config.visibility import PUBLIC, exported_to

_LOCALITY_LABEL = "istio-locality"

_DISTRIBUTION_ANNOTATION = "networking.istio.io/traffic-distribution"

# Readiness of a stand-alone workload: the annotation says that it is probed, the condition what came of it.
_PROBED_ANNOTATION = "proxy.istio.io/health-checks-enabled"
_HEALTHY_CONDITION = "Healthy"


@attrs.frozen(kw_only=True)
class Instance:
    """One workload of a service, before a port is chosen."""

    entry: WorkloadEntry
    healthy: bool = True


@attrs.frozen(kw_only=True)
class Service:
    """A host as clients know it."""

    host: str
    namespace: str
    ports: tuple[ServicePort, ...]
    resolution: Resolution
    instances: tuple[Instance, ...]
    resources: tuple[Resource, ...]

    @property
    def traffic_distribution(self) -> str:
        """Which endpoints the service itself prefers: `PreferClose`, `PreferSameZone`, `PreferSameNode`, or nothing."""
        return self.resources[0].annotations.get(_DISTRIBUTION_ANNOTATION, "") if self.resources else ""

    def endpoints(self, port: ServicePort) -> tuple[Endpoint, ...]:
        """Return the endpoints of one port, in the order of the configuration, all with priority 0.

        An address that a STATIC service names twice is one endpoint, the first.
        """
        if not self.instances and self.resolution in {Resolution.DNS, Resolution.DNS_ROUND_ROBIN}:
            return (Endpoint(address=f"{self.host}:{port.target_port or port.number}", hostname=self.host),)
        endpoints = _endpoints(self, port)
        if self.resolution is Resolution.DNS_ROUND_ROBIN:
            return tuple(islice(endpoints, 1))  # one name is all that a logical DNS cluster takes
        if self.resolution is not Resolution.STATIC:
            return tuple(endpoints)
        distinct: dict[str, Endpoint] = {}
        for endpoint in endpoints:
            distinct.setdefault(endpoint.address, endpoint)  # as Envoy does with what it gets over EDS
        return tuple(distinct.values())


def _endpoints(service: Service, port: ServicePort) -> Iterator[Endpoint]:
    static = service.resolution is Resolution.STATIC
    for instance in service.instances:
        entry = instance.entry
        unix = entry.address.startswith(UNIX_PREFIX)
        if not entry.address or (static and not unix and not is_ip(entry.address)):
            continue  # an address behind another network's gateway, or a name in a STATIC service
        number = entry.ports.get(port.name) or port.target_port or port.number
        text = f"[{entry.address}]" if ":" in entry.address else entry.address
        locality_text = entry.locality or entry.labels.get(_LOCALITY_LABEL, "").replace(".", "/")
        locality = Locality.parse(locality_text) if locality_text else Locality()
        yield Endpoint(
            address=entry.address if unix else f"{text}:{number}",
            hostname="" if static else entry.address,
            weight=entry.weight or 1,
            locality=locality,
            labels=_labels(entry, locality),
            health_status=HealthStatus.UNKNOWN if instance.healthy else HealthStatus.UNHEALTHY,
        )


def _labels(entry: WorkloadEntry, locality: Locality) -> Mapping[str, str]:
    labels = located_labels(entry.labels, locality)
    return {**labels, NETWORK_LABEL: entry.network} if entry.network else labels


def _healthy(resource: Resource) -> bool:
    probed = resource.annotations.get(_PROBED_ANNOTATION) == "true"
    return not probed or resource.conditions.get(_HEALTHY_CONDITION) == "True"


class ServiceIndex:
    """All ServiceEntries by host, all WorkloadEntries by namespace."""

    def __init__(self, node: NodeConfig, *, default_export_to: str = PUBLIC) -> None:
        self._node = node
        self._default = default_export_to
        self._entries: dict[str, dict[Key, Resource]] = defaultdict(dict)
        self._selecting: dict[str, dict[Key, Resource]] = defaultdict(dict)
        self._workloads: dict[str, dict[Key, Resource]] = defaultdict(dict)

    def update_service(self, old: Resource | None, new: Resource | None) -> list[str]:
        """Replace a ServiceEntry; return the hosts it touched."""
        touched: dict[str, None] = {}
        if old is not None:
            for host in _service_entry(old).hosts:
                touched[host] = None
                self._entries[host].pop(old.key, None)
                if not self._entries[host]:
                    del self._entries[host]
            self._selecting[old.namespace].pop(old.key, None)
        if new is not None:
            entry = _service_entry(new)
            for host in entry.hosts:
                touched[host] = None
                self._entries[host][new.key] = new
            if entry.workload_selector is not None:
                self._selecting[new.namespace][new.key] = new
        return list(touched)

    def update_workload(self, old: Resource | None, new: Resource | None) -> list[str]:
        """Replace a WorkloadEntry; return the hosts whose selectors it meets or met."""
        touched: dict[str, None] = {}
        for resource in (old, new):
            for entry in self.selecting(resource) if resource is not None else ():
                touched |= dict.fromkeys(entry.hosts)
        if old is not None:
            self._workloads[old.namespace].pop(old.key, None)
        if new is not None:
            self._workloads[new.namespace][new.key] = new
        return list(touched)

    def selecting(self, workload: Resource) -> list[ServiceEntry]:
        """Return the ServiceEntries whose selector a WorkloadEntry meets."""
        labels = _workload_entry(workload).labels.items()
        entries = [_service_entry(resource) for resource in self._selecting[workload.namespace].values()]
        return [
            entry for entry in entries if entry.workload_selector and entry.workload_selector.labels.items() <= labels
        ]

    def service(self, host: str) -> Service | None:
        """Return the service of a host as the sidecar sees it; None when no visible entry declares it."""
        visible = sorted(
            (
                resource
                for resource in self._entries.get(host, {}).values()
                if exported_to(
                    _service_entry(resource).export_to, resource.namespace, self._node.namespace, self._default
                )
            ),
            key=self._precedence,
        )
        if not visible:
            return None
        first = visible[0]
        resolution = _service_entry(first).resolution
        joined = tuple(
            resource
            for resource in visible
            if resource.namespace == first.namespace and _service_entry(resource).resolution is resolution
        )
        return Service(
            host=host,
            namespace=first.namespace,
            ports=_ports(joined),
            resolution=resolution,
            instances=tuple(instance for resource in joined for instance in self._instances(resource)),
            resources=joined,
        )

    def _precedence(self, resource: Resource) -> tuple[bool, tuple[int, str, str]]:
        return resource.namespace != self._node.namespace, precedence(resource)

    def _instances(self, resource: Resource) -> Iterator[Instance]:
        entry = _service_entry(resource)
        for endpoint in entry.endpoints:
            if endpoint is not None:
                yield Instance(entry=endpoint)
        if entry.workload_selector is None:
            return
        wanted = entry.workload_selector.labels.items()
        for workload in sorted(self._workloads[resource.namespace].values(), key=precedence):
            body = _workload_entry(workload)
            if wanted <= body.labels.items():
                yield Instance(entry=body, healthy=_healthy(workload))


def _ports(resources: tuple[Resource, ...]) -> tuple[ServicePort, ...]:
    ports: dict[int, ServicePort] = {}
    for resource in resources:
        for port in _service_entry(resource).ports:
            if port is not None:
                ports.setdefault(port.number, port)
    return tuple(ports.values())


def _service_entry(resource: Resource) -> ServiceEntry:
    assert isinstance(resource.body, ServiceEntry)
    return resource.body


def _workload_entry(resource: Resource) -> WorkloadEntry:
    """Return the workload with its labels and those of its metadata, which win."""
    assert isinstance(resource.body, WorkloadEntry)
    if not resource.labels:
        return resource.body
    return attrs.evolve(resource.body, labels={**resource.body.labels, **resource.labels})
