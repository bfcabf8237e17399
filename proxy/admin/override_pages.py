"""POST `/eject`, `/uneject` and `/reset_backoff`: a person's word on one host."""

from collections.abc import Mapping

from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.streaming import text
from proxy.cluster.cluster import Cluster
from proxy.upstream.host import Host

DEFAULT_S = 300.0  # long enough to look into a host, short enough not to be forgotten
MAX_S = 86_400.0


class BadOverrideError(Exception):
    """Raised when an override cannot be meant; `status` is that of the answer, the message its body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def handle_eject(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Put a host out: `cluster`, `host`, `reason`, `seconds`, from the query or a form."""
    try:
        cluster, host, reason, for_ms = _wanted(context, await _fields(request))
    except BadOverrideError as exc:
        return text(f"{exc}\n", exc.status)
    override = context.overrides.eject(cluster, host, reason=reason, for_ms=for_ms)
    return text(f"{host.address}: {override}\n")


async def handle_uneject(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Bring a host back: the same fields."""
    try:
        cluster, host, reason, for_ms = _wanted(context, await _fields(request))
    except BadOverrideError as exc:
        return text(f"{exc}\n", exc.status)
    if context.overrides.of(host) is None and not host.monitor.ejected:
        return text(f"{host.address} is not ejected\n", 409)
    override = context.overrides.uneject(cluster, host, reason=reason, for_ms=for_ms)
    return text(f"{host.address}: {override or 'ejection by hand taken back'}\n")


async def handle_reset_backoff(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Forget a host's earlier ejections: `cluster`, `host`, `reason`."""
    try:
        cluster, host, reason, _ = _wanted(context, await _fields(request))
    except BadOverrideError as exc:
        return text(f"{exc}\n", exc.status)
    context.overrides.reset_backoff(cluster, host, reason=reason)
    return text(f"{host.address}: the next ejection lasts the base time\n")


async def _fields(request: web.Request) -> Mapping[str, str]:
    form = {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    return {**request.query, **form}


def _wanted(context: AdminContext, fields: Mapping[str, str]) -> tuple[Cluster, Host, str, int]:
    """Return cluster, host, reason and milliseconds.

    Raises:
        BadOverrideError: A field is missing, unknown or out of range.
    """
    missing = [name for name in ("cluster", "host", "reason") if not fields.get(name)]
    if missing:
        raise BadOverrideError(400, f"missing: {', '.join(missing)}; wanted: cluster, host, reason and maybe seconds")
    cluster = context.cluster_manager.clusters.get(fields["cluster"])
    if cluster is None:
        raise BadOverrideError(404, f"no cluster {fields['cluster']}")
    host = next((host for host in cluster.hosts if host.address == fields["host"]), None)
    if host is None:
        raise BadOverrideError(404, f"no host {fields['host']} in {cluster.name}")
    try:
        seconds = float(fields.get("seconds", DEFAULT_S))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_S:
        raise BadOverrideError(400, f"seconds = {fields['seconds']}; must be above 0 and at most {MAX_S:g}")
    return cluster, host, fields["reason"], round(seconds * 1000)
