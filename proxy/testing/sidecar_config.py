"""From what a test has at hand - a rule, a file, settings - to the resources a sidecar runs.

A test's endpoints take the place of the service's own, so that a production rule runs against upstreams of the test.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml

from outlier import OutlierDetection
from proxy.config.address import Address
from proxy.config.destination_rule import DestinationRule
from proxy.config.host_names import complete_host
from proxy.config.node import NodeConfig
from proxy.config.resource import Contents, read_resources
from proxy.config.scenario_reader import rule_document
from proxy.config.service_entry import ServiceEntry
from proxy.errors import ProxyError
from proxy.push.file_source import ConfigRejectedError
from proxy.testing.ejection_report import Endpoint, address_of

API_VERSION = "networking.istio.io/v1"
DEFAULT_SERVICE = "service"
SERVICE_PORT = 80

Rule = Mapping[str, Any] | str | Path
"""A rule's spec, Kubernetes object or MCP resource; as mapping, YAML text, or file."""


class SidecarConfigError(ProxyError):
    """Raised when a test's configuration leaves open what to run; the message says what to add."""


@attrs.frozen(kw_only=True)
class SidecarConfig:
    """What to run: `parts` for the pipeline; `service` is the full host that the test's endpoints serve."""

    parts: Mapping[str, Contents]
    service: str


def sidecar_config(
    *,
    node: NodeConfig,
    endpoints: Sequence[Endpoint],
    destination_rule: Rule | None = None,
    outlier_detection: OutlierDetection | Mapping[str, Any] | None = None,
    config: Rule | Iterable[Rule] = (),
    service: str | None = None,
    port: int = SERVICE_PORT,
) -> SidecarConfig:
    """Return the resources for one sidecar; the arguments are those of `Sidecar`.

    Raises:
        ConfigRejectedError: A resource is refused; every error is in `issues`.
        SidecarConfigError: It cannot be told which service is meant.
        OSError: A file cannot be read.
    """
    if destination_rule is not None and outlier_detection is not None:
        raise SidecarConfigError("give either destination_rule or outlier_detection")
    parts: dict[str, Contents] = {}
    sources = [config] if isinstance(config, Mapping | str | Path) else list(config)
    for number, source in enumerate(sources):
        for name, text in _texts(source, f"config[{number}]"):
            parts[name] = read_resources(text, name)
    if isinstance(outlier_detection, Mapping):
        host = service or DEFAULT_SERVICE
        destination_rule = {"host": host, "trafficPolicy": {"outlierDetection": dict(outlier_detection)}}
    if destination_rule is not None:
        for name, text in _texts(destination_rule, "destination_rule", is_rule=True):
            parts[name] = read_resources(text, name)
    errors = [issue for contents in parts.values() for issue in contents.errors]
    if errors:
        raise ConfigRejectedError(errors)
    host = complete_host(service or _host(parts, node), node.namespace, node.domain)
    parts = {name: _without_service(contents, host, node) for name, contents in parts.items()}
    parts["endpoints"] = read_resources(_service_entry(host, port, endpoints, node), "endpoints")
    if parts["endpoints"].errors:
        raise ConfigRejectedError(parts["endpoints"].errors)
    return SidecarConfig(parts=parts, service=host)


def _texts(source: Rule, name: str, *, is_rule: bool = False) -> list[tuple[str, str]]:
    """Return the texts that a source brings, by name; the bare spec of a rule is made a whole object."""
    if isinstance(source, Path):
        files = sorted(path for path in source.rglob("*") if path.suffix in {".yaml", ".yml", ".json"})
        return [(str(path), path.read_text(encoding="utf-8-sig")) for path in (files if source.is_dir() else [source])]
    documents = [source] if isinstance(source, Mapping) else list(yaml.safe_load_all(source))
    whole = [rule_document(document) for document in documents] if is_rule else documents
    return [(name, "\n---\n".join(json.dumps(document, default=str) for document in whole))]


def _host(parts: Mapping[str, Contents], node: NodeConfig) -> str:
    """Return the host of the only rule, a short one completed; the default service without rules."""
    hosts = {
        complete_host(resource.body.host, resource.namespace, node.domain)
        for contents in parts.values()
        for resource in contents.resources.values()
        if isinstance(resource.body, DestinationRule)
    }
    if len(hosts) > 1:
        raise SidecarConfigError(f"rules for {', '.join(sorted(hosts))}; say which with service=")
    host = next(iter(hosts), DEFAULT_SERVICE)
    if "*" in host:
        raise SidecarConfigError(f"the rule is for {host}; say which service is meant with service=")
    return host


def _without_service(contents: Contents, host: str, node: NodeConfig) -> Contents:
    """Leave out the entries that say where the service really is."""
    kept = {
        key: resource
        for key, resource in contents.resources.items()
        if not (
            isinstance(resource.body, ServiceEntry)
            and host in (complete_host(name, resource.namespace, node.domain) for name in resource.body.hosts)
        )
    }
    return attrs.evolve(contents, resources=kept)


def _service_entry(host: str, port: int, endpoints: Sequence[Endpoint], node: NodeConfig) -> str:
    addresses = [Address.parse(address_of(endpoint)) for endpoint in endpoints]
    spec = {
        "hosts": [host],
        "location": "MESH_INTERNAL",
        "resolution": "STATIC",
        "ports": [{"number": port, "name": "http", "protocol": "HTTP"}],
        "endpoints": [{"address": address.host, "ports": {"http": address.port}} for address in addresses],
    }
    metadata = {"name": "endpoints-of-the-test", "namespace": node.namespace}
    return json.dumps({"apiVersion": API_VERSION, "kind": "ServiceEntry", "metadata": metadata, "spec": spec})
