"""`outlier envoy`: the Envoy bootstrap that behaves as `outlier run` would with the same options."""

import argparse
import json
import sys

import yaml

from proxy.config.envoy_bootstrap import envoy_bootstrap
from proxy.config.issue import Severity
from proxy.config_options import read_config
from proxy.run_options import add_run_options, bootstrap_from_args

_FINDING = 1


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier envoy`."""
    parser = subparsers.add_parser(
        "envoy",
        help="print the Envoy bootstrap that behaves the same",
        description=(
            "Print a bootstrap for Envoy 1.40 that behaves as outlier run would with the same options: the same "
            "listeners, routes, clusters and endpoints, frozen as they are now."
        ),
        epilog="example: outlier envoy rules/ > envoy.json && envoy -c envoy.json",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="file or folder of resources, as with --config")
    add_run_options(parser)
    parser.add_argument("--format", choices=("json", "yaml"), default="json", help="yaml reads better")


def run(args: argparse.Namespace) -> int:
    """Print the bootstrap; return 1 and print the errors instead when a resource is refused.

    Raises:
        ConfigError: An option is refused.
        OutlierError: The bootstrap file cannot be read.
        ProxyError: A path or file cannot be read.
    """
    options = bootstrap_from_args(args)
    paths = [*args.paths, *(str(path) for path in options.config_paths)]
    config = read_config(paths, options)
    errors = [issue for issue in config.issues if issue.severity is Severity.ERROR]
    for issue in errors:
        sys.stderr.write(f"{issue}\n")
    if errors:
        return _FINDING
    bootstrap = envoy_bootstrap(config.builder.snapshot, options)
    if args.format == "json":
        sys.stdout.write(json.dumps(bootstrap, indent=2) + "\n")
    else:
        yaml.safe_dump(bootstrap, sys.stdout, sort_keys=False, width=120)
    return 0
