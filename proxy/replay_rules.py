"""Which settings the clusters of a log would have under new rules.

Rules are usually looked at without the services they are for; a service that the rules' files do not define is made
up from the names in the log, so that ports, subsets and panic threshold come out as they would in the mesh.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

import attrs

from outlier import OutlierDetection
from proxy.config.cluster_config import ClusterConfig
from proxy.config.issue import Severity
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import StaticConfig, static_config
from proxy.errors import ProxyError

_ENVOY_PANIC_THRESHOLD = 50.0  # percent; applies when none is sent
_MADE_UP = "made up from the access log"


@attrs.frozen(kw_only=True)
class ReplayedCluster:
    """What one cluster would run; `hosts` are those of the configuration, `detection` None is no detection."""

    detection: OutlierDetection | None
    panic_threshold: float
    error_codes: frozenset[int]
    hosts: tuple[str, ...] = ()


class RejectedRulesError(ProxyError):
    """Raised when the rules have errors; the message has one a line."""


def replayed_clusters(
    config: StaticConfig, names: Iterable[str], context: ConversionContext
) -> dict[str, ReplayedCluster]:
    """Return the clusters of these names under the configuration.

    Args:
        config: The new rules, and what else their files hold.
        names: Clusters of the log, `outbound|<port>|<subset>|<host>`. Others than outbound ones are left out.
        context: The sidecar, the mesh, the release that `config` was read with.

    Raises:
        RejectedRulesError: A resource is refused.
    """
    errors = [str(issue) for issue in config.issues if issue.severity is Severity.ERROR]
    if errors:
        raise RejectedRulesError("\n".join(errors))
    wanted = [name for name in names if name.startswith("outbound|") and name.count("|") == 3]
    known = config.builder.snapshot.clusters
    missing = [name for name in wanted if name not in known]
    made_up: Mapping[str, ClusterConfig] = {}
    if missing:
        made_up = static_config({_MADE_UP: _services(missing), **config.texts}, context).builder.snapshot.clusters
    found = {}
    for name in wanted:
        if name in known:
            cluster = known[name]
            endpoints = () if cluster.type.is_dns else cluster.endpoints  # the log has addresses, not names
            found[name] = _cluster(cluster, tuple(endpoint.address for endpoint in endpoints))
        elif name in made_up:
            found[name] = _cluster(made_up[name], ())
    return found


def _cluster(config: ClusterConfig, hosts: tuple[str, ...]) -> ReplayedCluster:
    panic = config.load_balancer.healthy_panic_threshold
    return ReplayedCluster(
        detection=config.outlier_detection,
        panic_threshold=_ENVOY_PANIC_THRESHOLD if panic is None else panic,
        error_codes=frozenset(config.error_codes),
        hosts=hosts,
    )


def _services(names: Sequence[str]) -> str:
    """Return ServiceEntries with the hosts and ports of these clusters, one a service."""
    ports: dict[str, set[int]] = {}
    for name in names:
        _, port, _, host = name.split("|")
        ports.setdefault(host, set()).add(int(port))
    return "\n---\n".join(
        _service(number, host, sorted(of_host)) for number, (host, of_host) in enumerate(ports.items())
    )


def _service(number: int, host: str, ports: Sequence[int]) -> str:
    spec = {
        "hosts": [host],
        "location": "MESH_INTERNAL",
        "resolution": "STATIC",
        "ports": [{"number": port, "name": f"http-{port}", "protocol": "HTTP"} for port in ports],
        "endpoints": [{"address": "192.0.2.1"}],
    }
    metadata = {"name": f"from-the-log-{number}", "namespace": _namespace(host)}
    entry = {"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": metadata, "spec": spec}
    return json.dumps(entry)


def _namespace(host: str) -> str:
    """Return the namespace that a service's name tells: rules of that namespace apply to it."""
    parts = host.split(".")
    return parts[1] if len(parts) > 2 and parts[2] == "svc" else "default"
