"""Surprises of ServiceEntries and WorkloadEntries: services without endpoints, ports that no listener serves."""

from collections.abc import Iterator

from proxy.config.issue import Issue, Path
from proxy.config.resource import Resource
from proxy.config.service_entry import Resolution, ServiceEntry, WorkloadEntry
from proxy.config.static_config import StaticConfig
from proxy.config.virtual_hosts import is_http_port
from proxy.config.visibility import exported_to

_WEIGHT_ZERO = "0 counts as 1, so the endpoint gets its share; leave the endpoint out to keep requests from it"


def service_advice(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    """Yield what a ServiceEntry or WorkloadEntry will not do."""
    if isinstance(resource.body, ServiceEntry):
        for path, text in _entry(config, resource, resource.body):
            yield config.issue(resource, path, text)
    elif isinstance(resource.body, WorkloadEntry):
        yield from _workload(config, resource)


def _entry(config: StaticConfig, resource: Resource, entry: ServiceEntry) -> Iterator[tuple[Path, str]]:
    context = config.builder.context
    namespace = context.node.namespace
    if not exported_to(entry.export_to, resource.namespace, namespace, context.mesh.service_export):
        yield ("exportTo",), f"the service is not visible to a sidecar of namespace {namespace}"
        return
    if entry.resolution is Resolution.NONE:
        yield (
            ("resolution",),
            (
                "NONE (the default) forwards to the client's original destination, which an explicit proxy does not "
                "have; requests get 503. Use STATIC or DNS"
            ),
        )
    for index, port in enumerate(entry.ports):
        if port is not None and not is_http_port(port):
            yield (
                ("ports", index, "protocol"),
                "the sidecar's listener is HTTP; requests to this port find no route (404)",
            )
    for index in range(len(entry.endpoints)):
        if config.written(resource, ("endpoints", index, "weight")) == 0:
            yield ("endpoints", index, "weight"), _WEIGHT_ZERO
    for index, host in enumerate(entry.hosts):
        service = config.builder.service(host)
        if service is None:
            continue
        if resource.key not in {part.key for part in service.resources}:
            yield (
                ("hosts", index),
                f"{service.resources[0]} already declares this host, and the two do not join; this one is ignored",
            )
        elif not service.instances and service.resolution is Resolution.STATIC:
            yield ("hosts", index), "has no endpoint; requests get 503"
    if entry.resolution is Resolution.DNS_ROUND_ROBIN:
        yield (
            ("resolution",),
            (
                "is one host to outlier detection whatever the name resolves to, so a bad address counts against all, "
                "and its ejection ends when the list of addresses changes; with DNS each address is a host"
            ),
        )


def _workload(config: StaticConfig, resource: Resource) -> Iterator[Issue]:
    if not config.builder.selects(resource):
        rule = "no ServiceEntry of the namespace selects this workload, so it gets no traffic"
        yield config.issue(resource, ("labels",), rule)
    if config.written(resource, ("weight",)) == 0:
        yield config.issue(resource, ("weight",), _WEIGHT_ZERO)
