"""Options and input of the commands that look at a configuration without running it: check, explain, envoy."""

import argparse
import os
from collections.abc import Sequence

from proxy.config.bootstrap import Bootstrap, load_bootstrap, options
from proxy.config.issue import ABSENT, Issue, Severity
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import StaticConfig, static_config
from proxy.errors import ProxyError
from proxy.push.file_source import read_text
from proxy.push.file_watcher import FileWatcher

_VIEW_OPTIONS = frozenset({"istio_release", "envoy_release", "node_id", "namespace", "labels", "locality"})


class UnreadableFileError(ProxyError):
    """Raised when a file cannot be opened or is not text; `issue` says which and why."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(str(issue))
        self.issue = issue


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add PATH..., and the options of `outlier run` that decide how resources are seen."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="file or folder of resources")
    for option in options():
        if option.name in _VIEW_OPTIONS:
            parser.add_argument(
                option.flag, dest=option.name, metavar=option.metavar, help=option.help, default=argparse.SUPPRESS
            )


def view_from_args(args: argparse.Namespace) -> Bootstrap:
    """Return the sidecar's identity and releases, from flags and environment.

    Raises:
        ConfigError: A value is refused.
    """
    given = vars(args)
    return load_bootstrap(None, os.environ, {name: given[name] for name in _VIEW_OPTIONS if name in given})


def read_config(paths: Sequence[str], view: Bootstrap) -> StaticConfig:
    """Return what the paths come to for that sidecar.

    Raises:
        PathMissingError: A path is not there.
        UnreadableFileError: A file cannot be opened or decoded.
    """
    return read_static_config(paths, ConversionContext(node=view.node, release=view.istio_release))


def read_static_config(paths: Sequence[str], context: ConversionContext) -> StaticConfig:
    """Return what the paths come to in that context.

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
    return static_config(texts, context)


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
