"""`/config/status`: what is in force from each source, what was refused and why, and since when that is so."""

from typing import Any

from aiohttp import web

from outlier.events import timestamp
from proxy.admin.context import AdminContext, ConfigStatus, ConnectionStatus, SourceStatus
from proxy.admin.streaming import stream_json, text
from proxy.config.issue import Issue, Severity


async def handle_config_status(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/config/status`."""
    status = context.config_status()
    if status is None:
        return text("this sidecar was given its configuration by a program; there are no sources\n", 404)
    return await stream_json(request, status_as_dict(status))


def status_as_dict(status: ConfigStatus) -> dict[str, Any]:
    """Return the status as JSON's types; a source with something refused has `stale_since`."""
    return {"version": status.version, "sources": [_source(source) for source in status.sources]}


def _source(source: SourceStatus) -> dict[str, Any]:
    connection = source.connection
    return {
        "name": source.name,
        "connection": None if connection is None else _connection(connection),
        "resources": dict(sorted(source.resources.items())),
        "last_update": timestamp(source.last_update_ms),
        "stale_since": None if source.stale_since_ms is None else timestamp(source.stale_since_ms),
        "rejected": [_issue(issue) for issue in source.issues if issue.severity is Severity.ERROR],
        "warnings": [_issue(issue) for issue in source.issues if issue.severity is Severity.WARNING],
    }


def _issue(issue: Issue) -> dict[str, Any]:
    return {"resource": issue.resource, "file": issue.source, "line": issue.line, "message": issue.message}


def _connection(connection: ConnectionStatus) -> dict[str, Any]:
    return {
        "connected": connection.connected,
        "synced": connection.synced,
        "since": timestamp(connection.since_ms),
        "reconnections": connection.reconnections,
        "error": connection.error,
        "last_requests": [dict(request) for request in connection.last_requests],
    }
