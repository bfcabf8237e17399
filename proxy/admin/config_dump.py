"""`/config_dump`: the configuration in force in Envoy's resource types.

It is the bootstrap that `outlier envoy` would print, laid out as a running Envoy shows what it has: clusters and routes
came from the feed, listeners from the options.
Ports `ConfigDumpHandler` (Envoy, source/server/admin/config_dump_handler.cc) without `mask`.
"""

import re
from collections.abc import Callable
from typing import Any

import attrs
from aiohttp import web

from outlier.events import timestamp
from proxy.admin.context import AdminContext
from proxy.admin.streaming import stream_json, text
from proxy.config.bootstrap import Bootstrap
from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.envoy_cluster import envoy_cluster
from proxy.turns import Turns

_ADMIN = "type.googleapis.com/envoy.admin.v3."
_CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
_LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
_ROUTES = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

# Repeated fields that `resource` may name, and the messages that then stand alone.
_MESSAGES = {
    "dynamic_active_clusters": "ClustersConfigDump.DynamicCluster",
    "static_listeners": "ListenersConfigDump.StaticListener",
    "dynamic_route_configs": "RoutesConfigDump.DynamicRouteConfig",
}


async def handle_config_dump(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/config_dump`: `resource=<repeated field>`, `name_regex=<of clusters, listeners, routes>`."""
    try:
        pattern = re.compile(request.query.get("name_regex", ""))
    except re.error:
        return text("Error while parsing name_regex from the query string", 400)
    dumps = await config_dumps(context, lambda name: pattern.search(name) is not None)
    resource = request.query.get("resource")
    if resource is not None:
        found = next((dump[resource] for dump in dumps if isinstance(dump.get(resource), list)), None)
        if found is None or resource not in _MESSAGES:
            return text(f"{resource} not found in config dump", 404)
        dumps = [{"@type": _ADMIN + _MESSAGES[resource], **item} for item in found]
    return await stream_json(request, {"configs": dumps} if dumps else {})


async def config_dumps(context: AdminContext, wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return the messages of a dump; `wanted` selects clusters, listeners and route configurations by name.

    Gives way to requests between two clusters.
    """
    snapshot = context.snapshot()
    bootstrap = envoy_bootstrap(attrs.evolve(snapshot, clusters={}), _with_real_ports(context))
    resources = bootstrap.pop("static_resources")
    started_ms = context.time_source.system_ms() - (context.time_source.monotonic_ms() - context.started_ms)
    pushes = [event.system_ms for event in context.events.since(0) if event.kind == "config"]
    started, pushed = timestamp(started_ms), timestamp(pushes[-1] if pushes else started_ms)
    version = {"version_info": snapshot.version}
    clusters = []
    turns = Turns()
    for name, cluster in snapshot.clusters.items():
        if wanted(name):
            message = {"@type": _CLUSTER, **envoy_cluster(cluster, context.bootstrap.dns)}
            clusters.append({**version, "cluster": message, "last_updated": pushed})
        if turns.over():
            await turns.give()
    listeners = [
        {"listener": {"@type": _LISTENER, **listener}, "last_updated": started}
        for listener in resources["listeners"]
        if wanted(listener["name"])
    ]
    routes = [
        {**version, "route_config": {"@type": _ROUTES, **_routes_of(listener)}, "last_updated": pushed}
        for listener in resources["listeners"]
        if wanted(listener["name"])
    ]
    return [
        {"@type": _ADMIN + "BootstrapConfigDump", "bootstrap": bootstrap, "last_updated": started},
        {"@type": _ADMIN + "ClustersConfigDump", **version, **_unless_empty("dynamic_active_clusters", clusters)},
        {"@type": _ADMIN + "ListenersConfigDump", **_unless_empty("static_listeners", listeners)},
        {"@type": _ADMIN + "ScopedRoutesConfigDump"},
        {"@type": _ADMIN + "RoutesConfigDump", **_unless_empty("dynamic_route_configs", routes)},
        {"@type": _ADMIN + "SecretsConfigDump"},
    ]


def _with_real_ports(context: AdminContext) -> Bootstrap:
    """Return the options with the addresses that the listeners have got, where port 0 was asked for."""
    options = context.bootstrap
    addresses = {listener.name: listener.address for listener in context.listeners()}
    return attrs.evolve(
        options,
        listen=addresses.get("outbound", options.listen),
        services=tuple(
            attrs.evolve(service, address=addresses.get(service.service, service.address))
            for service in options.services
        ),
    )


def _routes_of(listener: dict[str, Any]) -> dict[str, Any]:
    routes: dict[str, Any] = listener["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
    return routes


def _unless_empty(name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: items} if items else {}
