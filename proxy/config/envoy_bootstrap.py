"""The bootstrap with which Envoy 1.40 behaves as `outlier run` would, as proto JSON.

The message is `envoy.config.bootstrap.v3.Bootstrap`, all of it static.
"""

from collections.abc import Iterable
from typing import Any

import attrs

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap, ServiceListener
from proxy.config.cluster_config import ClusterType, Locality
from proxy.config.envoy_cluster import envoy_address, envoy_cluster, envoy_duration, typed
from proxy.config.envoy_health_check import add_health_check
from proxy.config.envoy_routes import CORS_FILTER, FAULT_FILTER, envoy_virtual_host, envoy_virtual_hosts
from proxy.config.envoy_tls import envoy_listener_socket
from proxy.config.health_check import HealthCheckRules
from proxy.config.host_names import complete_host
from proxy.config.listener_options import ListenerOptions
from proxy.config.route_config import Route, VirtualHost
from proxy.config.snapshot import ConfigSnapshot

_MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = "envoy.extensions.filters.http.router.v3.Router"
_CORS = "envoy.extensions.filters.http.cors.v3.Cors"
_FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"
_FILE_ACCESS_LOG = "envoy.extensions.access_loggers.file.v3.FileAccessLog"
_NODE_CLUSTER = "outlier"
_DEFAULT_BODY_LIMIT_BYTES = 4096  # Envoy refuses longer bodies of direct responses unless told


def envoy_bootstrap(snapshot: ConfigSnapshot, options: Bootstrap) -> dict[str, Any]:
    """Return the bootstrap for a snapshot under the options of `outlier run`."""
    virtual_hosts = snapshot.routes.virtual_hosts
    listeners = [_listener("outbound", options.listen, envoy_virtual_hosts(virtual_hosts), options, virtual_hosts)]
    for service in options.services:
        found = _service_host(virtual_hosts, service, options)
        own = [] if found is None else [envoy_virtual_host(found, ["*"])]
        used = [] if found is None else [found]
        listeners.append(_listener(f"service_{service.service}", service.address, own, options, used))
    bootstrap: dict[str, Any] = {
        "node": _node(options),
        "admin": {"address": _address(options.admin)},
        "static_resources": {
            "listeners": listeners,
            "clusters": _clusters(snapshot, options),
        },
    }
    if options.max_connections:
        limits = {
            f"envoy.resource_limits.listener.{listener['name']}.connection_limit": options.max_connections
            for listener in listeners
        }
        bootstrap["layered_runtime"] = {"layers": [{"name": "limits", "static_layer": limits}]}
    if options.event_log is not None:
        bootstrap["cluster_manager"] = {"outlier_detection": {"event_log_path": str(options.event_log)}}
    return bootstrap


def _clusters(snapshot: ConfigSnapshot, options: Bootstrap) -> list[dict[str, Any]]:
    rules = HealthCheckRules(options.health_checks)
    messages = []
    for config in snapshot.clusters.values():
        message = envoy_cluster(config, options.dns)
        health_check = rules.find(config.service_host, config.port)
        if health_check is not None and config.type is not ClusterType.ORIGINAL_DST:
            add_health_check(message, health_check)
        messages.append(message)
    return messages


def _node(options: Bootstrap) -> dict[str, Any]:
    node: dict[str, Any] = {"id": options.node.id, "cluster": _NODE_CLUSTER}
    if options.locality != Locality():
        node["locality"] = {name: text for name, text in attrs.asdict(options.locality).items() if text}
    return node


def _address(address: Address) -> dict[str, Any]:
    return envoy_address(str(address))


def _service_host(
    virtual_hosts: Iterable[VirtualHost], service: ServiceListener, options: Bootstrap
) -> VirtualHost | None:
    """Return the virtual host that a listener of its own serves: the service's port, or its first one."""
    host = complete_host(service.host, options.namespace, options.node.domain)
    return next(
        (
            virtual_host
            for virtual_host in virtual_hosts
            if virtual_host.service_host in {host, service.host} and service.port in {None, virtual_host.port}
        ),
        None,
    )


def _listener(
    name: str,
    address: Address,
    virtual_hosts: list[dict[str, Any]],
    options: Bootstrap,
    used: Iterable[VirtualHost],
) -> dict[str, Any]:
    routes = [route for virtual_host in used for route in virtual_host.routes]
    route_config = {"name": name, "virtual_hosts": virtual_hosts, "validate_clusters": False}
    longest = max((len(route.direct_response.body) for route in routes if route.direct_response is not None), default=0)
    if longest > _DEFAULT_BODY_LIMIT_BYTES:
        route_config["max_direct_response_body_size_bytes"] = longest
    manager = typed(
        _MANAGER,
        stat_prefix=name,
        route_config=route_config,
        http_filters=_filters(routes),
        upgrade_configs=[{"upgrade_type": "websocket"}],
    )
    manager |= _limits(options)
    if options.access_log is not None:
        path = "/dev/stdout" if str(options.access_log) == "-" else str(options.access_log)
        log = typed(_FILE_ACCESS_LOG, path=path)
        manager["access_log"] = [{"name": "envoy.access_loggers.file", "typed_config": log}]
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    filter_chain: dict[str, Any] = {"filters": filters}
    socket = envoy_listener_socket(options)
    if socket is not None:
        filter_chain["transport_socket"] = socket
    return {"name": name, "address": _address(address), "filter_chains": [filter_chain]}


def _limits(options: ListenerOptions) -> dict[str, Any]:
    """Return the limits of clients' connections that differ from Envoy's; how many there may be is its runtime's."""
    default = ListenerOptions()
    common: dict[str, Any] = {}
    if options.idle_timeout_ms != default.idle_timeout_ms:
        common["idle_timeout"] = envoy_duration(options.idle_timeout_ms)
    if options.max_connection_duration_ms:
        common["max_connection_duration"] = envoy_duration(options.max_connection_duration_ms)
    if options.max_requests_per_connection:
        common["max_requests_per_connection"] = options.max_requests_per_connection
    limits: dict[str, Any] = {"common_http_protocol_options": common} if common else {}
    if options.stream_idle_timeout_ms != default.stream_idle_timeout_ms:
        limits["stream_idle_timeout"] = envoy_duration(options.stream_idle_timeout_ms)
    return limits


def _filters(routes: Iterable[Route]) -> list[dict[str, Any]]:
    """Return the HTTP filters that the routes need; the router last."""
    routes = list(routes)
    filters: list[dict[str, Any]] = []
    if any(route.action.cors is not None for route in routes):
        filters.append({"name": CORS_FILTER, "typed_config": typed(_CORS)})
    if any(route.fault is not None for route in routes):
        filters.append({"name": FAULT_FILTER, "typed_config": typed(_FAULT)})
    return [*filters, {"name": "envoy.filters.http.router", "typed_config": typed(_ROUTER)}]
