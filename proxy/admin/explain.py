"""`/explain`: why a host is, or is not, ejected, and what the balancer makes of it. The words are the engine's."""

import enum
from collections.abc import Iterator
from typing import Any

import attrs
from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.overrides import OverrideAction
from proxy.admin.streaming import stream, stream_json, text
from proxy.cluster.cluster import Cluster
from proxy.upstream.host import HealthFlag, Host

_OTHER_REASONS = {
    HealthFlag.FAILED_ACTIVE_HC: "active health checks fail",
    HealthFlag.FAILED_EDS_HEALTH: "the configuration says that it is unhealthy",
    HealthFlag.EDS_STATUS_DRAINING: "the configuration says that it is draining",
}


async def handle_explain(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/explain?cluster=<name>[&host=<ip:port>][&format=json]`."""
    clusters = context.cluster_manager.clusters
    if "cluster" not in request.query:
        return text(_list("usage: /explain?cluster=<name>[&host=<ip:port>][&format=json]", clusters), 400)
    cluster = clusters.get(request.query["cluster"])
    if cluster is None:
        return text(_list(f"no cluster {request.query['cluster']}", clusters), 404)
    hosts = cluster.hosts
    if "host" in request.query:
        hosts = tuple(host for host in hosts if host.address == request.query["host"])
        if not hosts:
            addresses = (host.address for host in cluster.hosts)
            return text(_list(f"no host {request.query['host']} in {cluster.name}", addresses), 404)
    if request.query.get("format") == "json":
        return await stream_json(request, explanation(context, cluster, hosts))
    return await stream(request, _sentences(context, cluster, hosts))


def explanation(context: AdminContext, cluster: Cluster, hosts: tuple[Host, ...]) -> dict[str, Any]:
    """Return everything known about these hosts of the cluster, as JSON's types."""
    balancer = cluster.load_balancer.explain()
    shown = []
    for host in hosts:
        panic = balancer.priorities[host.priority].panic
        verdict = cluster.detector.verdict(host.monitor, panic=panic) if cluster.detector else None
        shown.append(
            {
                "address": host.address,
                "health_flags": host.health_flags_text(),
                "reasons": list(_reasons(context, cluster, host, panic=panic)),
                "verdict": as_json(verdict),
            }
        )
    return {"cluster": cluster.name, "hosts": shown, "load_balancer": as_json(balancer)}


def as_json(value: Any) -> Any:
    """Return an attrs object, and what it holds, as JSON's types; enumerations by their values."""
    if attrs.has(type(value)):
        return {field.name: as_json(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(as_json(key)): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [as_json(item) for item in value]
    return value


def _reasons(context: AdminContext, cluster: Cluster, host: Host, *, panic: bool) -> tuple[str, ...]:
    override = context.overrides.of(host)
    by_hand = (f"By hand: {override}.",) if override is not None else ()
    ejected_by_hand = override is not None and override.action is OverrideAction.EJECT
    others = tuple(
        f"Out, though not by outlier detection: {reason}."
        for flag, reason in _OTHER_REASONS.items()
        if host.has_flag(flag) and not (ejected_by_hand and flag is HealthFlag.FAILED_EDS_HEALTH)
    )
    if cluster.detector is None:
        return by_hand + (others or ("In: the cluster has no outlier detection.",))
    return by_hand + others + cluster.detector.verdict(host.monitor, panic=panic).reasons()


def _sentences(context: AdminContext, cluster: Cluster, hosts: tuple[Host, ...]) -> Iterator[str]:
    balancer = cluster.load_balancer.explain()
    yield f"{cluster.name}\n"
    for priority in balancer.priorities:
        yield (
            f"  priority {priority.priority}: {priority.healthy_hosts} of {priority.hosts} hosts healthy, "
            f"takes {priority.load} % of requests; {priority.reason}\n"
        )
    for host in hosts:
        yield f"\n{host.address}  {host.health_flags_text()}\n"
        for reason in _reasons(context, cluster, host, panic=balancer.priorities[host.priority].panic):
            yield f"  {reason}\n"


def _list(message: str, names: Any) -> str:
    return message + "; known are:\n" + "".join(f"  {name}\n" for name in names)
