"""The sidecar as a process: whether it is ready, what it is, where it listens, what its operator changes.

Ports `ServerInfoHandler`, `ListenersHandler`, `RuntimeHandler`, `LogsHandler` and `ServerCmdHandler` (Envoy,
source/server/admin/).
"""
# ruff: noqa: ARG001 - every handler has the same signature

import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from proxy.admin.context import AdminContext, ServerState
from proxy.admin.streaming import stream_json, text
from proxy.config.address import Address
from proxy.logs import LogControl, LogLevel, log_control

_LOGGING_USAGE = """\
usage: /logging?<name>=<level> (change single level)
usage: /logging?paths=name1:level1,name2:level2,... (change multiple levels)
usage: /logging?level=<level> (change all levels)
"""
_RUNTIME_USAGE = """\
usage: /runtime_modify?key1=value1&key2=value2&keyN=valueN
       or send the parameters as form values
use an empty value to remove a previously added override"""


async def handle_ready(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/ready`: the state; 200 when it is LIVE, 503 otherwise."""
    state = context.state()
    return text(f"{state.value}\n", 200 if state is ServerState.LIVE else 503)


async def handle_server_info(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/server_info`: version, state, uptime, options, node."""
    bootstrap = context.bootstrap
    node = bootstrap.node
    locality = node.locality
    uptime = f"{(context.time_source.monotonic_ms() - context.started_ms) // 1000}s"
    major, minor, patch = _version_numbers(context.version)
    info = {
        "version": f"outlier-proxy/{context.version}",
        "state": context.state().value,
        "uptime_current_epoch": uptime,
        "uptime_all_epochs": uptime,
        "command_line_options": {
            "concurrency": 1,
            "log_level": bootstrap.log_level.value,
            "service_node": node.id,
            "drain_time": f"{bootstrap.drain_time_ms / 1000:g}s",
            "mode": "Serve",
        },
        "node": {
            "id": node.id,
            "cluster": node.namespace,
            "metadata": {"NAMESPACE": node.namespace, "LABELS": dict(node.labels)},
            "locality": {"region": locality.region, "zone": locality.zone, "sub_zone": locality.sub_zone},
            "user_agent_name": "outlier-proxy",
            "user_agent_build_version": {
                "version": {"major_number": major, "minor_number": minor, "patch": patch},
                "metadata": {
                    "envoy.release": bootstrap.envoy_release.value,
                    "istio.release": str(bootstrap.istio_release),
                },
            },
        },
    }
    return await stream_json(request, info)


def _version_numbers(version: str) -> tuple[int, int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]]
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


async def handle_listeners(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/listeners`, `?format=json`."""
    listeners = context.listeners()
    if request.query.get("format") != "json":
        return text("".join(f"{listener.name}::{shown_address(listener.address)}\n" for listener in listeners))
    statuses = [{"name": listener.name, "local_address": address_message(listener.address)} for listener in listeners]
    return await stream_json(request, {"listener_statuses": statuses} if statuses else {})


def shown_address(address: Address) -> str:
    """Return `ip:port`, or the bare path of a unix socket, as Envoy shows it."""
    return address.path or str(address)


def address_message(address: Address) -> dict[str, Any]:
    """Return Envoy's `core.v3.Address`."""
    if address.path:
        return {"pipe": {"path": address.path}}
    return {"socket_address": {"address": address.host, "port_value": address.port}}


async def handle_runtime(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/runtime`: the overrides; the sidecar has the one layer that `/runtime_modify` writes to."""
    entries = {
        key: {"layer_values": [value], "final_value": value} for key, value in sorted(context.runtime.entries.items())
    }
    return await stream_json(request, {"entries": entries, "layers": ["admin"]})


async def handle_runtime_modify(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Set or (with an empty value) remove overrides, from the query or from a form."""
    overrides = dict(request.query)
    if not overrides:
        form = await request.post()
        overrides = {key: value for key, value in form.items() if isinstance(value, str)}
    if not overrides:
        return text(_RUNTIME_USAGE, 400)
    context.runtime.modify(overrides)
    return text("OK\n")


async def handle_logging(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Show the level of every area, after changing those that the query names."""
    control = log_control()
    if control is None:
        return text("logging is configured by the program that embeds this sidecar\n", 503)
    try:
        for area, level in _wanted_levels(request.query):
            _set_level(control, area, level)
    except ValueError as exc:
        levels = " ".join(level.value for level in LogLevel)
        return text(f"error: {exc}\n\n{_LOGGING_USAGE}levels: {levels} \n{_active_loggers(control)}", 400)
    return text(_active_loggers(control))


def _wanted_levels(query: Mapping[str, str]) -> list[tuple[str | None, str]]:
    wanted: list[tuple[str | None, str]] = []
    for key, value in query.items():
        if key == "level":
            wanted.append((None, value))
        elif key == "paths":
            pairs = (pair.partition(":") for pair in value.split(","))
            wanted += [(area, level) for area, _, level in pairs]
        else:
            wanted.append((key, value))
    return wanted


def _set_level(control: LogControl, area: str | None, level: str) -> None:
    try:
        found = LogLevel(level)
    except ValueError:
        raise ValueError("unknown logger level") from None
    try:
        control.set_level(found, area)
    except KeyError:
        raise ValueError("unknown logger name") from None


def _active_loggers(control: LogControl) -> str:
    return "active loggers:\n" + "".join(f"  {area}: {level.value}\n" for area, level in control.levels.items())


async def handle_reset_counters(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Set every counter to 0; gauges and histograms stay."""
    context.reset_counters()
    return text("OK\n")


async def handle_reopen_logs(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Reopen the log files, as SIGHUP does."""
    context.reopen_logs()
    return text("OK\n")


async def handle_quit(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """End the sidecar, as SIGTERM does; the answer leaves first."""
    response = text("OK\n")
    await response.prepare(request)
    await response.write_eof()
    context.quit()
    return response


async def handle_drain_listeners(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Stop accepting connections; with `?graceful`, ask clients to go first, for the drain time."""
    context.drain_listeners("graceful" in request.query)
    return text("OK\n")


async def handle_healthcheck_fail(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Show DRAINING on `/ready`, so that whoever probes it sends no more traffic, and let clients go."""
    context.fail_health(True)
    return text("OK\n")


async def handle_healthcheck_ok(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Take `/healthcheck/fail` back."""
    context.fail_health(False)
    return text("OK\n")
