"""What an operator should know before it hurts: detection that cannot work, and traffic to hosts that are out.

Looked for once a second, told when it begins and when it ends (log, `/events`), and listed on `/warnings` while it
lasts.
"""
# ruff: noqa: ARG001 - every handler has the same signature

import asyncio
import contextlib
import enum
from collections.abc import AsyncIterator, Iterable, Iterator

import attrs
import structlog
from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.streaming import stream_json
from proxy.cluster.cluster import Cluster

log = structlog.get_logger()

_PERIOD_S = 1.0
_SILENT_INTERVALS = 10


class Concern(enum.Enum):
    """What is wrong with a cluster."""

    NO_REPORTS = "no reports"
    CANNOT_EJECT = "cannot eject"
    PANIC = "panic"


@attrs.frozen
class Finding:
    """One concern about one cluster, in words."""

    cluster_name: str
    concern: Concern
    message: str


@attrs.define
class _Reports:
    """How many results the hosts of a cluster had, and when that last changed."""

    count: int
    changed_ms: int


class Watch:
    """Finds the concerns of all clusters, and tells of those that are new or gone."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._reports: dict[str, _Reports] = {}
        self.warnings: tuple[Finding, ...] = ()

    async def run(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_PERIOD_S)

    def look(self) -> None:
        """Look once."""
        clusters = self._context.cluster_manager.clusters
        self._reports = {name: found for name, found in self._reports.items() if name in clusters}
        found = tuple(warning for cluster in clusters.values() for warning in self._of(cluster))
        before, now = _by_concern(self.warnings), _by_concern(found)
        for key in now.keys() - before.keys():
            self._tell(now[key], begins=True)
        for key in before.keys() - now.keys():
            self._tell(before[key], begins=False)
        self.warnings = found

    def _of(self, cluster: Cluster) -> Iterator[Finding]:
        detector = cluster.detector
        if detector is None or not cluster.hosts:
            return
        if self._is_silent(cluster, detector.interval_ms):
            message = f"the detector has had no report for {_SILENT_INTERVALS} intervals, so it can find nothing"
            yield Finding(cluster.name, Concern.NO_REPORTS, message)
        limit = detector.limit()
        if limit is not None and limit.ejected == 0 and not limit.allowed:
            message = (
                f"max_ejection_percent {limit.max_percent} never lets one of {limit.hosts} hosts go: "
                f"one would be {limit.percent:.4g} %"
            )
            yield Finding(cluster.name, Concern.CANNOT_EJECT, message)
        panicking = [
            host.address
            for host in cluster.hosts
            if host.monitor.ejected and cluster.load_balancer.panic[host.priority]
        ]
        if panicking:
            message = f"panic: requests go to ejected hosts as well ({', '.join(panicking)})"
            yield Finding(cluster.name, Concern.PANIC, message)

    def _is_silent(self, cluster: Cluster, interval_ms: int) -> bool:
        now_ms = self._context.time_source.monotonic_ms()
        count = sum(host.rq_total + host.rq_error for host in cluster.hosts)
        seen = self._reports.get(cluster.name)
        if seen is None or seen.count != count:
            self._reports[cluster.name] = _Reports(count, now_ms)
            return False
        return now_ms - seen.changed_ms >= _SILENT_INTERVALS * interval_ms

    def _tell(self, warning: Finding, *, begins: bool) -> None:
        facts = {"cluster_name": warning.cluster_name, "type": warning.concern.value, "message": warning.message}
        # An idle service is not worth a line of its own at night; what misroutes or disables is.
        write = log.info if warning.concern is Concern.NO_REPORTS or not begins else log.warning
        write("outlier.warning_began" if begins else "outlier.warning_ended", **facts)
        self._context.events.publish("warning", state="began" if begins else "ended", **facts)


def _by_concern(warnings: Iterable[Finding]) -> dict[tuple[str, Concern], Finding]:
    return {(warning.cluster_name, warning.concern): warning for warning in warnings}


WATCH = web.AppKey("watch", Watch)


async def watch(application: web.Application) -> AsyncIterator[None]:
    """Look for warnings as long as the application runs."""
    task = asyncio.create_task(application[WATCH].run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def handle_warnings(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/warnings`: those that hold now."""
    warnings = request.app[WATCH].warnings
    return await stream_json(
        request,
        [{"cluster_name": w.cluster_name, "type": w.concern.value, "message": w.message} for w in warnings],
    )
