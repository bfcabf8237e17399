"""The admin application: the list of endpoints, and the rules that hold for all of them.

An endpoint that changes state takes POST only. A browser must not become a stranger's hand: a request whose Host is a
name we do not know (DNS rebinding), and a POST from another origin, are refused; programs that send no Origin are not
affected.
Ports `AdminImpl` (Envoy, source/server/admin/admin.cc).
"""
# ruff: noqa: ARG001 - every handler has the same signature

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import attrs
from aiohttp import web
from aiohttp.typedefs import Handler as AioHandler
from aiohttp.typedefs import Middleware

from proxy.admin import (
    certs,
    clusters,
    config_dump,
    config_status,
    dashboard,
    events,
    explain,
    override_pages,
    server_pages,
    stats,
    watch,
)
from proxy.admin.context import AdminContext
from proxy.admin.streaming import text

Handler = Callable[[AdminContext, web.Request], Awaitable[web.StreamResponse]]

_SAFE_METHODS = ("GET", "HEAD")

_FILTER = ("filter", "Regular expression for filtering statistics")
_INVERT_FILTER = ("invert_filter", "Invert the filter")
_OVERRIDE = (
    ("cluster", "Name of the cluster"),
    ("host", "Address of the host"),
    ("reason", "Why, for those who wonder later"),
    ("seconds", "How long; default 300"),
)
_USED_ONLY = ("usedonly", "Only include statistics that are not zero")


@attrs.frozen
class Endpoint:
    """One path: who answers, the line of `/help`, its parameters, and whether it takes POST only."""

    path: str
    handler: Handler
    help: str
    params: tuple[tuple[str, str], ...] = ()
    changes_state: bool = False


async def _handle_help(context: AdminContext, request: web.Request) -> web.StreamResponse:
    return text(help_text())


ENDPOINTS = (
    Endpoint("/certs", certs.handle_certs, "print certs on machine"),
    Endpoint(
        "/clusters",
        clusters.handle_clusters,
        "upstream cluster status",
        (("filter", "Regular expression for filtering clusters by name"), ("format", "One of (text, json)")),
    ),
    Endpoint(
        "/config_dump",
        config_dump.handle_config_dump,
        "dump the configuration in force in Envoy's resource types",
        (
            ("resource", "One of (dynamic_active_clusters, static_listeners, dynamic_route_configs)"),
            ("name_regex", "Only clusters, listeners and route configurations whose names match"),
        ),
    ),
    Endpoint(
        "/config/status",
        config_status.handle_config_status,
        "print sources of configuration, versions in force, rejected resources",
    ),
    Endpoint(
        "/dashboard/rule",
        dashboard.handle_cluster_rule,
        "print a cluster's settings in force and where each comes from, as JSON",
        (("cluster", "Name of the cluster"),),
    ),
    Endpoint("/dashboard/state", dashboard.handle_state, "print what the dashboard shows, as JSON"),
    Endpoint(
        "/drain_listeners",
        server_pages.handle_drain_listeners,
        "stop accepting connections",
        (("graceful", "Let responses end their connections first, for the drain time"),),
        changes_state=True,
    ),
    Endpoint(
        "/eject",
        override_pages.handle_eject,
        "put a host out by hand, for a time",
        _OVERRIDE,
        changes_state=True,
    ),
    Endpoint(
        "/events",
        events.handle_events,
        "follow ejections, configuration pushes and overrides as server-sent events",
        (
            ("since", "Replay the events after this id first"),
            ("kind", "Only these kinds, separated by commas"),
            ("format", "json: print the kept events and end"),
        ),
    ),
    Endpoint(
        "/explain",
        explain.handle_explain,
        "print why a host is, or is not, ejected",
        (("cluster", "Name of the cluster"), ("host", "Only this host"), ("format", "One of (text, json)")),
    ),
    Endpoint(
        "/healthcheck/fail",
        server_pages.handle_healthcheck_fail,
        "cause the server to fail health checks",
        changes_state=True,
    ),
    Endpoint(
        "/healthcheck/ok",
        server_pages.handle_healthcheck_ok,
        "cause the server to pass health checks",
        changes_state=True,
    ),
    Endpoint("/help", _handle_help, "print out list of admin commands"),
    Endpoint("/listeners", server_pages.handle_listeners, "print listener info", (("format", "One of (text, json)"),)),
    Endpoint(
        "/logging",
        server_pages.handle_logging,
        "query/change logging levels",
        (
            ("paths", "Change several levels: <name1>:<level1>,<name2>:<level2>"),
            ("level", "Change all levels; One of (trace, debug, info, warning, error, critical, off)"),
        ),
        changes_state=True,
    ),
    Endpoint("/quitquitquit", server_pages.handle_quit, "exit the server", changes_state=True),
    Endpoint("/ready", server_pages.handle_ready, "print server state, return 200 if LIVE, otherwise return 503"),
    Endpoint("/reopen_logs", server_pages.handle_reopen_logs, "reopen access and event log", changes_state=True),
    Endpoint(
        "/reset_backoff",
        override_pages.handle_reset_backoff,
        "forget a host's earlier ejections, so that the next one lasts the base time",
        _OVERRIDE[:-1],
        changes_state=True,
    ),
    Endpoint("/reset_counters", server_pages.handle_reset_counters, "reset all counters to zero", changes_state=True),
    Endpoint("/runtime", server_pages.handle_runtime, "print runtime values"),
    Endpoint(
        "/runtime_modify",
        server_pages.handle_runtime_modify,
        "set runtime values: ?key1=value1&key2=value2...; an empty value removes an override",
        changes_state=True,
    ),
    Endpoint("/server_info", server_pages.handle_server_info, "print server version/status information"),
    Endpoint(
        "/stats",
        stats.handle_stats,
        "print server stats",
        (
            _USED_ONLY,
            _FILTER,
            _INVERT_FILTER,
            ("format", "One of (text, json, prometheus)"),
            ("type", "One of (All, Counters, Gauges, Histograms, TextReadouts)"),
        ),
    ),
    Endpoint(
        "/stats/prometheus",
        stats.handle_prometheus,
        "print server stats in prometheus format",
        (_USED_ONLY, _FILTER, _INVERT_FILTER),
    ),
    Endpoint(
        "/uneject",
        override_pages.handle_uneject,
        "bring a host back by hand, and keep it for a time",
        _OVERRIDE,
        changes_state=True,
    ),
    Endpoint("/warnings", watch.handle_warnings, "print what disables detection, and panic that reaches ejected hosts"),
)


def create_admin(context: AdminContext) -> web.Application:
    """Return the application; whoever runs the sidecar gives it a listener and closes it."""
    application = web.Application(middlewares=[_guard(context)])
    application[events.READERS] = set()
    application[watch.WATCH] = watch.Watch(context)
    application.cleanup_ctx.append(watch.watch)
    application.on_response_prepare.append(_set_common_headers)
    application.on_shutdown.append(events.end_streams)
    for endpoint in ENDPOINTS:
        application.router.add_route("*", endpoint.path, _bind(context, endpoint))
    application.router.add_get("/", dashboard.handle_page)
    application.router.add_get("/static/{name}", dashboard.handle_static)
    application.router.add_route("*", "/{path:.*}", _handle_unknown)
    return application


def help_text() -> str:
    """Return every endpoint with its parameters, in alphabetical order."""
    lines = ["admin commands are:"]
    for endpoint in sorted(ENDPOINTS, key=lambda known: known.path):
        lines.append(f"  {endpoint.path}{' (POST)' if endpoint.changes_state else ''}: {endpoint.help}")
        lines += [f"      {name}: {meaning}" for name, meaning in endpoint.params]
    return "\n".join(lines) + "\n"


def _bind(context: AdminContext, endpoint: Endpoint) -> AioHandler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if endpoint.changes_state and request.method != "POST":
            return text(f"Method {request.method} not allowed, POST required.", 405)
        return await endpoint.handler(context, request)

    return handle


async def _handle_unknown(request: web.Request) -> web.StreamResponse:
    return text("invalid path. " + help_text(), 404)


async def _set_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("cache-control", "no-cache, max-age=0")
    response.headers["x-content-type-options"] = "nosniff"
    response.headers["server"] = "envoy"


def _guard(context: AdminContext) -> Middleware:
    known_names = {"localhost", context.bootstrap.admin.host}

    @web.middleware
    async def guard(request: web.Request, handler: AioHandler) -> web.StreamResponse:
        host = request.headers.get("host", "")
        if not _is_known_host(host, known_names):
            return text(f"Host {host} is not an address of this sidecar.\n", 403)
        if request.method not in _SAFE_METHODS and not _is_own_origin(request.headers.get("origin"), host):
            return text("Requests from other origins may not change anything.\n", 403)
        return await handler(request)

    return guard


def _is_known_host(host: str, known_names: set[str]) -> bool:
    """Whether a Host header is an IP address or one of our names; a stranger's DNS name can point here as well."""
    name = (urlsplit(f"//{host}").hostname or "") if host else ""
    if not name or name in known_names or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_own_origin(origin: str | None, host: str) -> bool:
    """Whether a request was not sent by a page of somebody else; programs send no Origin."""
    return origin is None or urlsplit(origin).netloc == host
