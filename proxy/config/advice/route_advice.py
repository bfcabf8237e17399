"""Surprises of VirtualServices: routes to nowhere, routes that are never reached, faults that never fire."""

from collections.abc import Iterator

from proxy.config.delegate import merge_routes
from proxy.config.hedging import HEDGE_ANNOTATION, hedges
from proxy.config.host_names import complete_host
from proxy.config.issue import Issue, Path
from proxy.config.resource import Resource
from proxy.config.static_config import StaticConfig
from proxy.config.validate_virtual_service import MESH_GATEWAY
from proxy.config.virtual_service import Destination, HttpRoute, VirtualService
from proxy.config.visibility import exported_to

Advice = Iterator[tuple[Path, str]]


def route_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield what a VirtualService will not do."""
    if isinstance(resource.body, VirtualService):
        for path, text in _virtual_service(config, resource, resource.body):
            yield config.issue(resource, path, text)


def _virtual_service(config: StaticConfig, resource: Resource, body: VirtualService) -> Advice:
    node, mesh = config.builder.context.node, config.builder.context.mesh
    if body.gateways and MESH_GATEWAY not in body.gateways:
        yield ("gateways",), f"does not name {MESH_GATEWAY}, so sidecars ignore the resource"
        return
    if not exported_to(body.export_to, resource.namespace, node.namespace, mesh.virtual_service_export):
        yield ("exportTo",), f"the routes are not visible to a sidecar of namespace {node.namespace}"
        return
    for name, routes in (("tcp", body.tcp), ("tls", body.tls)):
        if routes:
            yield (name,), "the sidecar's listener is HTTP; these routes are ignored"
    for index, host in enumerate(body.hosts):
        full = complete_host(host, resource.namespace, node.domain)
        winner = config.builder.virtual_service(full)
        if winner is not None and winner.key != resource.key:
            yield (
                ("hosts", index),
                f"{winner} already has routes for this host, and they do not merge; these are ignored",
            )
    for index, route in enumerate(body.http):
        if route is None:
            continue
        path: Path = ("http", index)
        if index and any(earlier is not None and not earlier.match for earlier in body.http[:index]):
            yield path, "is never reached: an earlier route without match takes every request"
        yield from _route(config, resource, route, path)
    yield from _hedging(resource, body)


def _hedging(resource: Resource, body: VirtualService) -> Advice:
    value = resource.annotations.get(HEDGE_ANNOTATION, "false")
    if value not in {"true", "false"}:
        yield (), f"annotation {HEDGE_ANNOTATION} is {value!r}; only 'true' hedges"
    if hedges(resource):
        for index, route in enumerate(body.http):
            if route is not None and (route.retries is None or route.retries.per_try_timeout is None):
                yield ("http", index), "is not hedged: without retries.perTryTimeout no attempt is late"


def _route(config: StaticConfig, resource: Resource, route: HttpRoute, path: Path) -> Advice:
    if route.delegate is not None:
        yield from _delegate(config, resource, route, (*path, "delegate"))
    for index, entry in enumerate(route.route):
        if entry is None or entry.destination is None:
            continue
        where = (*path, "route", index)
        yield from _destination(config, resource, entry.destination, (*where, "destination"))
        if len(route.route) > 1 and entry.weight == 0:
            yield (*where, "weight"), "0 leaves this destination out"
    if route.fault is not None:
        for name, fault in (("delay", route.fault.delay), ("abort", route.fault.abort)):
            if fault is not None and fault.percentage is None and not getattr(fault, "percent", 0):
                yield (*path, "fault", name), "without percentage it never fires"
    if route.retries is not None and route.retries.is_empty:
        yield (*path, "retries"), "an empty block switches retries off; leave it out for the default of 2"
    node = config.builder.context.node
    for index, match in enumerate(route.match):
        if match is not None and not match.gateways and not match.source_labels.items() <= node.labels.items():
            where = (*path, "match", index, "sourceLabels")
            yield where, f"do not fit this sidecar (labels {dict(node.labels)}), so the match is ignored"


def _delegate(config: StaticConfig, resource: Resource, route: HttpRoute, path: Path) -> Advice:
    found = config.builder.delegate(resource, route)
    if found is None:
        yield path, "no VirtualService without hosts of that name is visible here; requests that match get 404"
        return
    body = found.body
    assert isinstance(body, VirtualService)
    if not any(merge_routes(route, body.http)):
        yield path, f"the matches of {found} all contradict those of this route; requests that match get 404"


def _destination(config: StaticConfig, resource: Resource, destination: Destination, path: Path) -> Advice:
    node = config.builder.context.node
    host = complete_host(destination.host, resource.namespace, node.domain)
    service = config.builder.service(host)
    if service is None:
        means = "" if host == destination.host else f" ({host})"
        yield (*path, "host"), f"no service has this host{means}; requests get 503"
        return
    ports = [port.number for port in service.ports]
    if destination.port is not None and destination.port.number not in ports:
        yield (*path, "port", "number"), f"the service has ports {', '.join(map(str, ports))}; requests get 503"
    if destination.subset:
        rule = config.builder.rule(service)
        subsets = [merged.subset.name for merged in rule.subsets] if rule is not None else []
        if destination.subset not in subsets:
            known = f"; there are {', '.join(subsets)}" if subsets else ""
            yield (*path, "subset"), f"no DestinationRule defines this subset for {host}{known}; requests get 503"
