"""`outlier explain`: the effective Envoy settings of each cluster, and where each value comes from."""

import argparse
import json
import sys
from collections.abc import Iterator

from proxy.config.explain import ExplainedCluster, explain, selection
from proxy.config.explain_setting import Setting
from proxy.config.host_names import complete_host
from proxy.config.issue import Severity
from proxy.config.virtual_hosts import host_aliases
from proxy.config_options import add_config_options, read_config, view_from_args

_FINDING = 1


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier explain`."""
    parser = subparsers.add_parser(
        "explain",
        help="the effective settings of each cluster, and where each comes from",
        description=(
            "Show the settings that each cluster ends up with, under Envoy's names, and for each whether a rule, the "
            "mesh, Istio's conversion or Envoy's default decided it. Settings without effect are left out of the text."
        ),
        epilog="example: outlier explain rules/ --host reviews --port 9080",
    )
    add_config_options(parser)
    parser.add_argument("--host", help="only this service; short names count from the sidecar's namespace")
    parser.add_argument("--port", type=int, help="only this service port")
    parser.add_argument("--subset", help="only this subset; '' for the base clusters")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: one list of clusters")


def run(args: argparse.Namespace) -> int:
    """Print the clusters; return 1 when a resource is refused or nothing is selected, else 0.

    Raises:
        ConfigError: An option is refused.
        ProxyError: A path or file cannot be read.
    """
    view = view_from_args(args)
    config = read_config(args.paths, view)
    errors = [issue for issue in config.issues if issue.severity is Severity.ERROR]
    for issue in errors:
        sys.stderr.write(f"{issue}\n")
    names = [
        service.host
        for service in config.builder.services()
        if args.host in host_aliases(service.host, view.node)
        or service.host == complete_host(args.host or "", view.node.namespace, view.node.domain)
    ]
    wanted = selection(args.host, args.port, args.subset, names)
    clusters = list(explain(config, view.envoy_release, wanted))
    if not clusters and not errors:
        sys.stderr.write("no cluster: no service in these files has that host, port and subset\n")
    if args.format == "json":
        sys.stdout.write(json.dumps([_as_json(cluster) for cluster in clusters], indent=2) + "\n")
    else:
        sys.stdout.write(
            "\n".join(text for cluster in clusters for text in _as_text(cluster)) + ("\n" if clusters else "")
        )
    return _FINDING if errors or not clusters else 0


def _as_text(cluster: ExplainedCluster) -> Iterator[str]:
    config = cluster.config
    yield config.name
    yield f"  service  {cluster.service} ({cluster.service.source}:{cluster.service.line})"
    for rule in cluster.rules:
        yield f"  rule     {rule} ({rule.source}:{rule.line})"
    addresses = ", ".join(
        endpoint.address + (f" (priority {endpoint.priority})" if endpoint.priority else "")
        for endpoint in config.endpoints
    )
    yield f"  endpoints  {addresses or 'none'}"
    shown = [setting for setting in cluster.settings if not (setting.inert and setting.applied)]
    names = max(len(setting.envoy_name) for setting in shown)
    values = max(len(setting.value_text) for setting in shown)
    for setting in shown:
        yield f"  {setting.envoy_name:<{names}}  {setting.value_text:<{values}}  {setting.origin}"
    for note in cluster.notes:
        yield f"  note: {note}"
    yield ""


def _as_json(cluster: ExplainedCluster) -> dict[str, object]:
    config = cluster.config
    return {
        "cluster": config.name,
        "host": config.service_host,
        "port": config.port,
        "subset": config.subset,
        "service": {"resource": str(cluster.service), "file": cluster.service.source, "line": cluster.service.line},
        "rules": [{"resource": str(rule), "file": rule.source, "line": rule.line} for rule in cluster.rules],
        "endpoints": [
            {
                "address": endpoint.address,
                "weight": endpoint.weight,
                "priority": endpoint.priority,
                "locality": str(endpoint.locality),
                "health_status": endpoint.health_status.value,
            }
            for endpoint in config.endpoints
        ],
        "locality_weights": [
            {"priority": priority, "locality": str(locality), "weight": weight}
            for (priority, locality), weight in config.load_balancer.locality_weights.items()
        ],
        "settings": {setting.envoy_name: _setting_json(setting) for setting in cluster.settings},
        "notes": list(cluster.notes),
    }


def _setting_json(setting: Setting) -> dict[str, object]:
    origin = setting.origin
    return {
        "value": setting.value_text if setting.name.endswith("_ms") else setting.value,
        "origin": origin.kind.value,
        "because": origin.text,
        "resource": origin.resource,
        "field": origin.field,
        "file": origin.file,
        "line": origin.line,
        "inert": setting.inert,
        "applied": setting.applied,
    }
