"""Resources for tests, written as the bodies of their YAML."""

from collections.abc import Mapping
from typing import Any

import yaml

from proxy.config.issue import Report
from proxy.config.resource import KINDS, Resource


def resource(
    kind: str, name: str, body: Mapping[str, Any] | str, namespace: str = "default", **fields: Any
) -> Resource:
    """Return a valid resource; the body may be YAML text."""
    value = yaml.safe_load(body) if isinstance(body, str) else body
    report = Report()
    message = KINDS[kind].message.read(value, (), report)
    KINDS[kind].check(message, namespace, (), report)
    assert not report.has_errors, [str(issue) for issue in report]
    return Resource(kind=KINDS[kind], namespace=namespace, name=name, body=message, **fields)


def rule(name: str, body: Mapping[str, Any] | str, namespace: str = "default", **fields: Any) -> Resource:
    """Return a DestinationRule."""
    return resource("DestinationRule", name, body, namespace, **fields)


def service(
    name: str,
    *addresses: str,
    host: str = "",
    ports: Mapping[str, int] | None = None,
    namespace: str = "default",
    created_ms: int = 0,
    **body: Any,
) -> Resource:
    """Return a STATIC ServiceEntry with HTTP ports; its host is cluster-local unless given."""
    spec = {
        "hosts": [host or f"{name}.{namespace}.svc.cluster.local"],
        "resolution": "STATIC",
        "ports": [
            {"name": port, "number": number, "protocol": "HTTP"} for port, number in (ports or {"http": 80}).items()
        ],
        "endpoints": [{"address": address} for address in addresses],
    } | body
    return resource("ServiceEntry", name, spec, namespace, created_ms=created_ms)


def routes(name: str, body: Mapping[str, Any] | str, namespace: str = "default", **fields: Any) -> Resource:
    """Return a VirtualService."""
    return resource("VirtualService", name, body, namespace, **fields)


def workload(name: str, body: Mapping[str, Any] | str, namespace: str = "default", **fields: Any) -> Resource:
    """Return a WorkloadEntry."""
    return resource("WorkloadEntry", name, body, namespace, **fields)
