"""Options and input of the commands that look at a configuration without running it: check, explain, envoy."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from proxy.config.bootstrap import Bootstrap, options
from proxy.config.bootstrap_loader import load_bootstrap
from proxy.config.issue import ABSENT, Issue, Severity
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import StaticConfig, static_config
from proxy.errors import ProxyError
from proxy.push.file_source import read_text
from proxy.push.file_watcher import FileWatcher
from proxy.run_options import BOOTSTRAP_VARIABLE

_VIEW_OPTIONS = frozenset({"istio_release", "envoy_release", "node_id", "namespace", "labels", "locality"})


class UnreadableFileError(ProxyError):
    """Raised when a file cannot be opened or is not text; `issue` says which and why."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(str(issue))
        self.issue = issue


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add PATH..., and the options of `outlier run` that decide how resources are seen."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file or folder of resources")
    add_view_options(parser, _VIEW_OPTIONS)


def add_view_options(parser: argparse.ArgumentParser, names: frozenset[str]) -> None:
    """Add `--bootstrap` and these of the options of `outlier run`; read them back with `view_from_args`."""
    parser.add_argument(
        "--bootstrap", metavar="FILE", help=f"bootstrap file of outlier run (environment {BOOTSTRAP_VARIABLE})"
    )
    for option in options():
        if option.name in names:
            parser.add_argument(
                option.flag, dest=option.name, metavar=option.metavar, help=option.help, default=argparse.SUPPRESS
            )


def view_from_args(args: argparse.Namespace, names: frozenset[str] = _VIEW_OPTIONS) -> Bootstrap:
    """Return the sidecar's identity, its mesh and the releases, from flags, environment and bootstrap file.

    Args:
        args: As parsed.
        names: The options that have a flag.

    Raises:
        BootstrapError: The bootstrap file cannot be read.
        ConfigError: A value is refused.
    """
    given = vars(args)
    file = args.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE)
    command_line = {name: given[name] for name in names if name in given}
    return load_bootstrap(Path(file) if file else None, os.environ, command_line)


def read_config(paths: Sequence[str], view: Bootstrap) -> StaticConfig:
    """Return what the paths come to for that sidecar.

    Raises:
        PathMissingError: A path is not there.
        UnreadableFileError: A file cannot be opened or decoded.
    """
    texts: dict[str, str] = {}
    for path in FileWatcher(paths).first_look():
        text = read_text(path)
        if isinstance(text, Issue):
            raise UnreadableFileError(text)
        texts[path] = text
    return static_config(texts, conversion_context(view))


def conversion_context(view: Bootstrap) -> ConversionContext:
    """Return what conversion depends on for that sidecar."""
    return ConversionContext(node=view.node, mesh=view.mesh, release=view.istio_release)


def no_resources(paths: Sequence[str]) -> Issue:
    """Return the finding on paths that hold nothing to look at."""
    return Issue(
        severity=Severity.ERROR,
        path=(),
        value=ABSENT,
        rule="no resource in YAML or JSON files here",
        source=", ".join(paths),
        origin="outlier",
    )
