"""From VirtualServices to the virtual hosts and routes of the outbound listener.

Ports `BuildHTTPRoutesForVirtualService`, `translateRoute` and `BuildDefaultHTTPOutboundRoute` (Istio,
pilot/pkg/networking/core/route/route.go).
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from proxy.config.cluster_builder import cluster_name
from proxy.config.destination_rule import ConsistentHash
from proxy.config.hash_policy import CookieHash, HashPolicy, HeaderHash, QueryParameterHash, SourceIpHash
from proxy.config.host_names import complete_host
from proxy.config.outlier_conversion import to_ms
from proxy.config.resource import Resource
from proxy.config.route_config import (
    CorsPolicy,
    DirectResponse,
    Fault,
    HeaderOperations,
    Mirror,
    Redirect,
    RegexRewrite,
    Route,
    RouteAction,
    VirtualHost,
    WeightedCluster,
)
from proxy.config.route_match import concerns_client, convert_match, convert_string
from proxy.config.route_retry import convert_retries
from proxy.config.service_clusters import ConversionContext
from proxy.config.service_index import Service
from proxy.config.virtual_hosts import domain_names, domains, host_aliases, is_http_port
from proxy.config.virtual_service import (
    CorsPolicy as CorsBlock,
)
from proxy.config.virtual_service import (
    Destination,
    Headers,
    HttpBody,
    HttpFaultInjection,
    HttpMatchRequest,
    HttpRedirect,
    HttpRoute,
    HttpRouteDestination,
    Percent,
)
from proxy.config.virtual_service import (
    HeaderOperations as OperationsBlock,
)
from proxy.config.virtual_service_index import OwnedRoute

DEFAULT_PORT = 80  # of a VirtualService whose host is no service
_MILLION = 1_000_000
_PER_PERCENT = 10_000
_UNCHANGEABLE = ("host", ":authority")

ServiceLookup = Callable[[str], Service | None]
HashLookup = Callable[[str, int, str], ConsistentHash | None]
RouteLookup = Callable[[Resource], Iterable[OwnedRoute]]


def per_million(percent: Percent | None, default: float) -> int:
    """Return a percentage as parts per million, cut after four decimals."""
    return int((default if percent is None else percent.value) * _PER_PERCENT)


class RouteBuilder:
    """Builds virtual hosts.

    Args:
        context: The client, the mesh, the release.
        service: Finds a service by full host: a destination without port may take its only one.
        consistent_hash: Finds the hash settings of a host, port and subset: their key is part of the route.
        http_routes: Gives the http routes of a VirtualService, delegated ones among them.
    """

    def __init__(
        self,
        context: ConversionContext,
        service: ServiceLookup,
        consistent_hash: HashLookup,
        http_routes: RouteLookup,
    ) -> None:
        self._context = context
        self._node = context.node
        self._service = service
        self._consistent_hash = consistent_hash
        self._http_routes = http_routes

    def service_hosts(self, service: Service, resource: Resource | None) -> Iterator[VirtualHost]:
        """Yield one virtual host for each HTTP port; without a VirtualService it routes to the port's own cluster."""
        for port in service.ports:
            if not is_http_port(port):
                continue
            yield VirtualHost(
                name=f"{service.host}:{port.number}",
                service_host=service.host,
                port=port.number,
                domains=domains(service, port, self._node),
                routes=(
                    (self._default_route(service.host, port.number),)
                    if resource is None
                    else self._routes(resource, port.number)
                ),
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

    def destinations(self, resource: Resource) -> set[str]:
        """Return the full hosts that the routes of a VirtualService lead to."""
        return {
            self._host(entry.destination, owned.namespace)
            for owned in self._http_routes(resource)
            for entry in owned.route.route
            if entry is not None and entry.destination is not None
        }

    def _host(self, destination: Destination, namespace: str) -> str:
        return complete_host(destination.host, namespace, self._node.domain)

    def _default_route(self, host: str, port: int) -> Route:
        settings = self._consistent_hash(host, port, "")
        retry = convert_retries(
            None,
            self._context.mesh.default_http_retry_policy,
            self._context.release,
            consistent_hash=settings is not None,
        )
        action = RouteAction(cluster=cluster_name(host, port), retry=retry, hash_policy=hash_policies(settings))
        return Route(name="default", action=action)

    def _routes(self, resource: Resource, listener_port: int) -> tuple[Route, ...]:
        """Return the routes in order, up to the first that takes every request."""
        routes: list[Route] = []
        for owned in self._http_routes(resource):
            for match in owned.route.match or (None,):
                if match is not None and not concerns_client(match, self._node, listener_port):
                    continue
                routes.append(self.route(owned, match, listener_port))
                if routes[-1].match.is_catch_all:
                    return tuple(routes)
        return tuple(routes)

    def route(self, owned: OwnedRoute, match: HttpMatchRequest | None, listener_port: int) -> Route:
        """Return the Envoy route of one http route under one of its matches."""
        block = owned.route
        name = f"{block.name}.{match.name}" if match is not None and match.name else block.name
        request = _operations(block.headers.request if block.headers is not None else None)
        response = _operations(block.headers.response if block.headers is not None else None)
        action = RouteAction()
        if block.redirect is None and block.direct_response is None:
            action = self._action(owned, listener_port)
            targets = [entry for entry in block.route if entry is not None]
            if len(targets) == 1 and targets[0].headers is not None:
                request = _joined(request, _operations(targets[0].headers.request))
                response = _joined(response, _operations(targets[0].headers.response))
        return Route(
            name=name,
            match=convert_match(match),
            action=action,
            redirect=None if block.redirect is None else _redirect(block.redirect, listener_port),
            direct_response=(
                None
                if block.direct_response is None
                else DirectResponse(status=block.direct_response.status, body=_body(block.direct_response.body))
            ),
            fault=None if block.fault is None else _fault(block.fault),
            request_headers=request,
            response_headers=response,
        )

    def _action(self, owned: OwnedRoute, listener_port: int) -> RouteAction:
        block, namespace = owned.route, owned.namespace
        entries = [entry for entry in block.route if entry is not None and entry.destination is not None]
        if len(entries) > 1:
            entries = [entry for entry in entries if entry.weight > 0]
        hashes = [self._hash_of(entry, namespace, listener_port) for entry in entries]
        rewrite = block.rewrite
        return RouteAction(
            cluster=self._cluster(entries[0].destination, namespace, listener_port) if len(entries) == 1 else "",
            timeout_ms=0 if block.timeout is None else to_ms(block.timeout),
            weighted_clusters=self._weighted(entries, namespace, listener_port) if len(entries) > 1 else (),
            retry=convert_retries(
                block.retries,
                self._context.mesh.default_http_retry_policy,
                self._context.release,
                consistent_hash=any(settings is not None for settings in hashes),
            ),
            hedge_on_per_try_timeout=owned.hedged,
            hash_policy=tuple(policy for settings in hashes for policy in hash_policies(settings)),
            prefix_rewrite=rewrite.uri if rewrite is not None else "",
            regex_rewrite=(
                RegexRewrite(rewrite.uri_regex_rewrite.match, rewrite.uri_regex_rewrite.rewrite)
                if rewrite is not None and rewrite.uri_regex_rewrite is not None
                else None
            ),
            host_rewrite=_host_rewrite(block, entries),
            mirrors=tuple(self._mirrors(block, namespace, listener_port)),
            cors=None if block.cors_policy is None else _cors(block.cors_policy),
        )

    def _weighted(
        self, entries: Sequence[HttpRouteDestination], namespace: str, listener_port: int
    ) -> tuple[WeightedCluster, ...]:
        return tuple(
            WeightedCluster(
                cluster=self._cluster(entry.destination, namespace, listener_port),
                weight=entry.weight,
                request_headers=_operations(entry.headers.request if entry.headers is not None else None),
                response_headers=_operations(entry.headers.response if entry.headers is not None else None),
            )
            for entry in entries
        )

    def _port(self, destination: Destination, host: str, listener_port: int) -> int:
        """Return the destination's own port, else the service's only one, else the listener's."""
        if destination.port is not None:
            return destination.port.number
        service = self._service(host)
        ports = service.ports if service is not None else ()
        return ports[0].number if len(ports) == 1 else listener_port

    def _cluster(self, destination: Destination | None, namespace: str, listener_port: int) -> str:
        assert destination is not None  # a route without one was refused
        host = self._host(destination, namespace)
        return cluster_name(host, self._port(destination, host, listener_port), destination.subset)

    def _hash_of(self, entry: HttpRouteDestination, namespace: str, listener_port: int) -> ConsistentHash | None:
        destination = entry.destination
        assert destination is not None
        host = self._host(destination, namespace)
        return self._consistent_hash(host, self._port(destination, host, listener_port), destination.subset)

    def _mirrors(self, block: HttpRoute, namespace: str, listener_port: int) -> Iterator[Mirror]:
        targets = [(mirror.destination, mirror.percentage) for mirror in block.mirrors if mirror is not None]
        default = 100.0
        if block.mirror is not None:
            targets = [(block.mirror, block.mirror_percentage)]
            default = 100.0 if block.mirror_percent is None else float(block.mirror_percent)
        for destination, percentage in targets:
            share = per_million(percentage, default)
            if destination is not None and share > 0:
                yield Mirror(cluster=self._cluster(destination, namespace, listener_port), per_million=share)


def hash_policies(settings: ConsistentHash | None) -> tuple[HashPolicy, ...]:
    """Return the key of a consistent hash as policies of a route; nothing when no key is named."""
    if settings is None:
        return ()
    if settings.http_header_name:
        return (HeaderHash(name=settings.http_header_name),)
    cookie = settings.http_cookie
    if cookie is not None:
        attributes = tuple((part.name, part.value) for part in cookie.attributes if part is not None)
        ttl_s = None if cookie.ttl is None else cookie.ttl // 1_000_000_000
        return (CookieHash(name=cookie.name, ttl_s=ttl_s, path=cookie.path, attributes=attributes),)
    if settings.use_source_ip:
        return (SourceIpHash(),)
    if settings.http_query_parameter_name:
        return (QueryParameterHash(name=settings.http_query_parameter_name),)
    return ()


def _changeable(name: str) -> bool:
    return not name.startswith(":") and name.lower() != "host"


def _operations(block: OperationsBlock | None) -> HeaderOperations:
    """Return the operations as Istio sends them: sorted by name, without pseudo headers and `host`."""
    if block is None:
        return HeaderOperations()
    return HeaderOperations(
        set=tuple((name, value) for name, value in sorted(block.set.items()) if _changeable(name)),
        add=tuple((name, value) for name, value in sorted(block.add.items()) if _changeable(name)),
        remove=tuple(name for name in block.remove if _changeable(name)),
    )


def _joined(one: HeaderOperations, other: HeaderOperations) -> HeaderOperations:
    return HeaderOperations(set=one.set + other.set, add=one.add + other.add, remove=one.remove + other.remove)


def _host_rewrite(block: HttpRoute, entries: Sequence[HttpRouteDestination]) -> str:
    """Return the authority for the upstream: setting `host` among headers is a rewrite, and wins over `rewrite`."""
    sources: list[Headers | None] = [block.headers, *(entry.headers for entry in entries if len(entries) == 1)]
    rewrite = block.rewrite.authority if block.rewrite is not None else ""
    for headers in sources:
        if headers is not None and headers.request is not None:
            for name, value in headers.request.set.items():
                if name.lower() in _UNCHANGEABLE:
                    rewrite = value
    return rewrite


def _fault(block: HttpFaultInjection) -> Fault:
    fault = Fault()
    delay, abort = block.delay, block.abort
    if delay is not None and delay.fixed_delay is not None:
        share = per_million(delay.percentage, float(delay.percent))
        fault = attrs.evolve(fault, delay_ms=to_ms(delay.fixed_delay), delay_per_million=share)
    if abort is not None:
        fault = attrs.evolve(
            fault,
            abort_http_status=abort.http_status,
            abort_grpc_status=abort.grpc_status or "",
            abort_per_million=per_million(abort.percentage, 0.0),
        )
    return fault


def _redirect(block: HttpRedirect, listener_port: int) -> Redirect:
    port = block.port
    if block.derive_port == "FROM_REQUEST_PORT":
        port = listener_port
    return Redirect(
        status=block.redirect_code or 301,
        scheme=block.scheme,
        host=block.authority,
        port=port,
        path=block.uri,
        prefix_rewrite=block.prefix_rewrite,
    )


def _body(block: HttpBody | None) -> bytes:
    if block is None:
        return b""
    if block.bytes is not None:
        try:
            return base64.b64decode(block.bytes, validate=True)
        except binascii.Error:
            return b""
    return (block.string or "").encode()


def _cors(block: CorsBlock) -> CorsPolicy:
    origins = tuple(convert_string(origin) for origin in block.allow_origins if origin is not None)
    return CorsPolicy(
        allow_origins=origins,
        allow_methods=block.allow_methods,
        allow_headers=block.allow_headers,
        expose_headers=block.expose_headers,
        max_age_s=None if block.max_age is None else block.max_age // 1_000_000_000,
        allow_credentials=block.allow_credentials,
        forward_unmatched_preflights=block.unmatched_preflights != "IGNORE",
    )
