"""The dashboard at `/`: its files, and the compact state that it reads once a second.

The page is plain HTML, CSS and JavaScript modules from `static/`, served from memory under a policy that lets it load
nothing from elsewhere. The state is one line per host, since it is made every second while somebody watches.
"""
# ruff: noqa: ARG001 - every handler has the same signature

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

import attrs
from aiohttp import web

from outlier.runtime import PREFIX, RUNTIME_FIELDS
from proxy.admin.context import AdminContext, SourceStatus
from proxy.admin.streaming import JSON, stream, text
from proxy.admin.watch import WATCH, Finding
from proxy.cluster.cluster import Cluster
from proxy.config.explain import ExplainedCluster, explain
from proxy.config.explain_setting import OriginKind, Setting
from proxy.config.issue import Severity
from proxy.config.static_config import StaticConfig
from proxy.turns import Turns
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


# One encoder for all hosts: `json.dumps` makes a new one for each call that names separators.
_compact = json.JSONEncoder(separators=(",", ":")).encode


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
    """Answer `/dashboard/state`: everything the overview shows; gives way to requests between hosts."""
    return await stream(request, _state(context, request.app[WATCH].warnings), JSON)


def _state(context: AdminContext, warnings: Iterable[Finding]) -> Iterator[str]:
    status = context.config_status()
    sources = status.sources if status is not None else ()
    head = {
        "server_state": context.state().value,
        "version": context.version,
        "node": context.bootstrap.node.id,
        "system_ms": context.time_source.system_ms(),
        "monotonic_ms": context.time_source.monotonic_ms(),
        "config_version": context.snapshot().version,
        "config_refused": any(_is_refused(source) for source in sources),
        "config_unreachable": [
            source.name for source in sources if source.connection and not source.connection.connected
        ],
        "warnings": [
            {"cluster_name": found.cluster_name, "type": found.concern.value, "message": found.message}
            for found in warnings
        ],
    }
    yield _compact(head)[:-1] + ',"clusters":['
    separator = ""
    for cluster in tuple(context.cluster_manager.clusters.values()):
        yield separator
        yield from _cluster(context, cluster)
        separator = ","
    yield "]}"


def _cluster(context: AdminContext, cluster: Cluster) -> Iterator[str]:
    hosts = cluster.hosts
    head = {
        "name": cluster.name,
        "detects": cluster.detector is not None,
        "panic": any(cluster.load_balancer.panic),
        "rq_total": sum(host.rq_total for host in hosts),
        "rq_failed": sum(_failures(host) for host in hosts),
    }
    yield _compact(head)[:-1] + ',"hosts":['
    separator = ""
    for host in hosts:
        yield separator + _compact(_host(context, cluster, host))
        separator = ","
    yield "]}"


def _is_refused(source: SourceStatus) -> bool:
    return source.stale_since_ms is not None and any(issue.severity is Severity.ERROR for issue in source.issues)


def _failures(host: Host) -> int:
    """Return how many attempts went wrong in a way the host is charged for; Envoy counts time-outs apart."""
    return host.rq_error + host.rq_timeout


def _host(context: AdminContext, cluster: Cluster, host: Host) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "address": host.address,
        "state": host_state(context, host),
        "success_rate": host.monitor.success_rate,
        "rq_active": host.rq_active,
        "rq_total": host.rq_total,
        "rq_failed": _failures(host),
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
    if not host.health_flags:
        return "healthy"  # as nearly all are
    if host.has_flag(HealthFlag.FAILED_OUTLIER_CHECK):
        return "ejected"
    if host.has_flag(HealthFlag.EDS_STATUS_DRAINING):
        return "draining"
    if host.unhealthy:
        return "unhealthy"
    return "degraded" if host.degraded else "healthy"


async def handle_cluster_rule(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/dashboard/rule?cluster=`: the settings in force, each with where it comes from, and remarks on them."""
    name = request.query.get("cluster", "")
    cluster = context.cluster_manager.clusters.get(name)
    explained = await _explained(context, name) if cluster is not None else None
    if cluster is None or explained is None:
        return text("nothing is known of the origin of this cluster\n", 404)
    rule = {"settings": [_setting(cluster, setting) for setting in explained.settings], "notes": explained.notes}
    return web.Response(text=json.dumps(rule), headers={"content-type": JSON})


async def _explained(context: AdminContext, name: str) -> ExplainedCluster | None:
    """Return the cluster with its origins; gives way to requests while it looks for it."""
    if context.config_builder is None:
        return None
    config = StaticConfig(texts={}, contents={}, builder=context.config_builder, resources={})
    turns = Turns()
    for explained in explain(config, context.bootstrap.envoy_release):
        if explained.config.name == name:
            return explained
        if turns.over():
            await turns.give()
    return None


def _setting(cluster: Cluster, setting: Setting) -> dict[str, Any]:
    """Return one setting; `quiet` ones are defaults, or make no difference here."""
    shown = {
        "name": setting.envoy_name,
        "value": setting.value_text,
        "origin": str(setting.origin),
        "quiet": setting.inert or setting.origin.kind is OriginKind.ENVOY,
    }
    field, detector = setting.name.removeprefix(PREFIX), cluster.detector
    if detector is not None and field in RUNTIME_FIELDS:
        value = detector.settings.value(field)
        if value != setting.value:
            shown |= {
                "value": attrs.evolve(setting, value=value).value_text,
                "origin": "runtime override",
                "quiet": False,
            }
    return shown
