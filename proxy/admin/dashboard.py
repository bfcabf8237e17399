"""The dashboard at `/`: its files, and the compact state that it reads once a second.

The page is plain HTML, CSS and JavaScript modules from `static/`, served from memory under a policy that lets it load
nothing from elsewhere. The state is one line per host, since it is made every second while somebody watches.
"""
# ruff: noqa: ARG001 - every handler has the same signature

import json
from importlib.resources import files
from typing import Any

import attrs
from aiohttp import web

from outlier import OutlierDetection
from proxy.admin.context import AdminContext
from proxy.admin.streaming import JSON, Turns, text
from proxy.admin.watch import WATCH
from proxy.cluster.cluster import Cluster
from proxy.upstream.host import HealthFlag, Host

_CONTENT_TYPES = {
    "html": "text/html; charset=UTF-8",
    "css": "text/css; charset=UTF-8",
    "js": "text/javascript; charset=UTF-8",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC = {
    path.name: path.read_bytes()
    for path in files("proxy.admin").joinpath("static").iterdir()
    if path.name.rpartition(".")[2] in _CONTENT_TYPES
}


async def handle_page(request: web.Request) -> web.StreamResponse:
    """Answer `/`."""
    return _file("index.html")


async def handle_static(request: web.Request) -> web.StreamResponse:
    """Answer `/static/<name>`."""
    name = request.match_info["name"]
    return _file(name) if name in _STATIC else text(f"no file {name}\n", 404)


def _file(name: str) -> web.Response:
    headers = {
        "content-type": _CONTENT_TYPES[name.rpartition(".")[2]],
        "content-security-policy": POLICY,
        "referrer-policy": "no-referrer",
    }
    return web.Response(body=_STATIC[name], headers=headers)


async def handle_state(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/dashboard/state`: everything the overview shows; gives way to requests between clusters."""
    turns = Turns()
    clusters = []
    for cluster in tuple(context.cluster_manager.clusters.values()):
        clusters.append(_cluster(context, cluster))
        if turns.over():
            await turns.give()
    warnings = request.app[WATCH].warnings
    status = context.config_status()
    state = {
        "server_state": context.state().value,
        "version": context.version,
        "node": context.bootstrap.node.id,
        "system_ms": context.time_source.system_ms(),
        "monotonic_ms": context.time_source.monotonic_ms(),
        "config_version": context.snapshot().version,
        "config_stale": status is not None and any(source.stale_since_ms is not None for source in status.sources),
        "clusters": clusters,
        "warnings": [
            {"cluster_name": found.cluster_name, "type": found.concern.value, "message": found.message}
            for found in warnings
        ],
    }
    return web.Response(text=json.dumps(state, separators=(",", ":")), headers={"content-type": JSON})


def _cluster(context: AdminContext, cluster: Cluster) -> dict[str, Any]:
    hosts = [_host(context, cluster, host) for host in cluster.hosts]
    return {
        "name": cluster.name,
        "detects": cluster.detector is not None,
        "panic": any(cluster.load_balancer.panic),
        "rq_total": sum(host.rq_total for host in cluster.hosts),
        "rq_error": sum(host.rq_error for host in cluster.hosts),
        "hosts": hosts,
    }


def _host(context: AdminContext, cluster: Cluster, host: Host) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "address": host.address,
        "state": host_state(context, host),
        "success_rate": host.monitor.success_rate,
        "rq_active": host.rq_active,
        "rq_total": host.rq_total,
        "rq_error": host.rq_error,
        "num_ejections": host.monitor.num_ejections,
    }
    override = context.overrides.of(host)
    if override is not None:
        shown["override"] = str(override)
    if host.monitor.ejected and cluster.detector is not None:
        time_left = cluster.detector.verdict(host.monitor).time_left
        if time_left is not None:
            now_ms = context.time_source.monotonic_ms()
            shown["back_in_ms"] = max(time_left.sweep_ms - now_ms, 0)
    return shown


def host_state(context: AdminContext, host: Host) -> str:
    """Return the one word a tile shows; what a person said goes first, then what is worst."""
    override = context.overrides.of(host)
    if override is not None:
        return "put out" if host.unhealthy else "held in"
    if host.has_flag(HealthFlag.FAILED_OUTLIER_CHECK):
        return "ejected"
    if host.has_flag(HealthFlag.EDS_STATUS_DRAINING):
        return "draining"
    if host.unhealthy:
        return "unhealthy"
    return "degraded" if host.degraded else "healthy"


async def handle_cluster_rule(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/dashboard/rule?cluster=`: the detector's settings in force, and which of them are Envoy's defaults."""
    cluster = context.cluster_manager.clusters.get(request.query.get("cluster", ""))
    if cluster is None:
        return text("no such cluster\n", 404)
    detector = cluster.detector
    settings = []
    if detector is not None:
        defaults = OutlierDetection()
        for field in attrs.fields(OutlierDetection):
            configured = getattr(detector.config, field.name)
            in_force = configured if isinstance(configured, bool) else detector.settings.value(field.name)
            if in_force != configured:
                origin = "runtime override"
            else:
                origin = "Envoy's default" if configured == getattr(defaults, field.name) else "configuration"
            settings.append({"field": field.name, "value": in_force, "origin": origin})
    return web.Response(text=json.dumps(settings), headers={"content-type": JSON})
