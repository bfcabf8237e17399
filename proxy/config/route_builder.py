"""From VirtualServices to the virtual hosts and routes of the outbound listener.

Ports `BuildHTTPRoutesForVirtualService` and `BuildDefaultHTTPOutboundRoute` (Istio,
pilot/pkg/networking/core/route/route.go).
"""

from collections.abc import Callable, Iterator

from proxy.config.cluster_builder import cluster_name
from proxy.config.host_names import complete_host
from proxy.config.node import NodeConfig
from proxy.config.outlier_conversion import to_ms
from proxy.config.resource import Resource
from proxy.config.route_config import Route, RouteAction, VirtualHost
from proxy.config.service_index import Service
from proxy.config.virtual_hosts import domain_names, domains, host_aliases, is_http_port
from proxy.config.virtual_service import Destination, HttpRoute
from proxy.config.virtual_service_index import virtual_service

DEFAULT_PORT = 80  # of a VirtualService whose host is no service

ServiceLookup = Callable[[str], Service | None]


class RouteBuilder:
    """Builds virtual hosts; asks for services because a destination's port may be theirs to decide."""

    def __init__(self, node: NodeConfig, service: ServiceLookup) -> None:
        self._node = node
        self._service = service

    def service_hosts(self, service: Service, resource: Resource | None) -> Iterator[VirtualHost]:
        """Yield one virtual host for each HTTP port; without a VirtualService it routes to the port's own cluster."""
        for port in service.ports:
            if not is_http_port(port):
                continue
            if resource is None:
                action = RouteAction(cluster=cluster_name(service.host, port.number))
                routes: tuple[Route, ...] = (Route(name="default", action=action),)
            else:
                routes = self._routes(resource, port.number)
            yield VirtualHost(
                name=f"{service.host}:{port.number}",
                service_host=service.host,
                port=port.number,
                domains=domains(service, port, self._node),
                routes=routes,
            )

    def plain_host(self, host: str, resource: Resource) -> VirtualHost:
        """Return the virtual host of a VirtualService host that no service covers: port 80 only, as in Istio."""
        return VirtualHost(
            name=f"{host}:{DEFAULT_PORT}",
            service_host=host,
            port=DEFAULT_PORT,
            domains=domain_names(host_aliases(host, self._node), DEFAULT_PORT, bare=True),
            routes=self._routes(resource, DEFAULT_PORT),
        )

    def _routes(self, resource: Resource, listener_port: int) -> tuple[Route, ...]:
        return tuple(
            self._route(route, resource, listener_port) for route in virtual_service(resource).http if route is not None
        )

    def _route(self, route: HttpRoute, resource: Resource, listener_port: int) -> Route:
        first = next(entry for entry in route.route if entry is not None)
        assert first.destination is not None
        action = RouteAction(
            cluster=self._cluster(first.destination, resource.namespace, listener_port),
            timeout_ms=0 if route.timeout is None else to_ms(route.timeout),
        )
        return Route(name=route.name, action=action)

    def _cluster(self, destination: Destination, namespace: str, listener_port: int) -> str:
        """Return the destination's cluster: its own port, else the service's only one, else the listener's."""
        host = complete_host(destination.host, namespace, self._node.domain)
        if destination.port is not None:
            port = destination.port.number
        else:
            service = self._service(host)
            ports = service.ports if service is not None else ()
            port = ports[0].number if len(ports) == 1 else listener_port
        return cluster_name(host, port, destination.subset)
