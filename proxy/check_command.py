"""`outlier check`: what Istio refuses, what it warns about, and what is legal and will surprise."""

import argparse
import json
import sys

from proxy.config.advice import advise
from proxy.config.issue import Issue, Severity, format_path
from proxy.config_options import add_config_options, no_resources, read_config, view_from_args

_FINDING = 1


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier check`."""
    parser = subparsers.add_parser(
        "check",
        help="validate resources, and warn about what will surprise",
        description=(
            "Validate resources exactly as Istio does, then warn about what is legal and will surprise: ignored zeros, "
            "caps that never let a host go, rules that reach nothing. Errors go to stderr, warnings to stdout; "
            "exit 1 if there is an error."
        ),
        epilog="example: outlier check rules/ --namespace shop",
    )
    add_config_options(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: one object with all findings")


def run(args: argparse.Namespace) -> int:
    """Print every finding; return 1 when a resource is refused, else 0.

    Raises:
        ConfigError: An option is refused.
        ProxyError: A path or file cannot be read.
    """
    view = view_from_args(args)
    config = read_config(args.paths, view)
    issues = config.issues
    if not config.contents:
        issues.append(no_resources(args.paths))
    issues += advise(config, view.envoy_release)
    errors = [issue for issue in issues if issue.severity is Severity.ERROR]
    warnings = [issue for issue in issues if issue.severity is Severity.WARNING]
    if args.format == "json":
        report = {
            "errors": [_as_json(issue) for issue in errors],
            "warnings": [_as_json(issue) for issue in warnings],
            "resources": len(config.resources),
        }
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        for issue in errors:
            sys.stderr.write(f"{issue}\n")
        for issue in warnings:
            sys.stdout.write(f"warning: {issue}\n")
        sys.stderr.flush()
        sys.stdout.write(f"{len(config.resources)} resources, {len(errors)} errors, {len(warnings)} warnings\n")
    return _FINDING if errors else 0


def _as_json(issue: Issue) -> dict[str, object]:
    return {
        "file": issue.source,
        "line": issue.line,
        "resource": issue.resource,
        "field": format_path(issue.path),
        "value": issue.value_text,
        "rule": issue.rule,
        "origin": issue.origin,
    }
