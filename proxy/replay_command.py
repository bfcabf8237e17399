"""`outlier simulate --replay`: what new rules would have done to the traffic of an access log.

The log is read twice, line by line: first for the hosts of each cluster, since the cap counts them, then for what
happened. Nothing is kept but the detectors' state.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.progress import Progress

from outlier import ConfigError, EnvoyRelease
from outlier.events import timestamp
from proxy.config.bootstrap import Bootstrap
from proxy.config_options import conversion_context, read_config
from proxy.errors import ProxyError
from proxy.replay_log import LoggedRequest, LogReader
from proxy.replay_rules import replayed_clusters
from proxy.replay_run import Replay, ReplayMoment

_PROGRESS_LINES = 20_000  # between two updates of the bar


class UnreadableLogError(ProxyError):
    """Raised when the log cannot be read, or has no request in it; the message names the file."""


def run(args: argparse.Namespace, view: Bootstrap) -> int:
    """Replay the log as that of a sidecar's clients; return 0.

    Raises:
        ConfigError: The options do not go together.
        ProxyError: The log or the rules cannot be read, or the rules are refused.
    """
    _check_options(args)
    config = read_config([str(args.config)], view)
    releases: Sequence[str] = args.envoy_release or [EnvoyRelease.V1_40.value]
    log = _SeenLog(args.replay, show_progress=sys.stderr.isatty())
    log.look()
    clusters = replayed_clusters(config, log.hosts, conversion_context(view))
    tell = _tell_json if args.format == "json" else _tell_text
    replay = Replay(clusters, log.hosts, start_ms=log.start_ms, tell=tell, release=EnvoyRelease(releases[0]))
    for request in log.requests("replaying"):
        replay.request(request)
    if args.format == "json":
        _summarize_json(log, replay)
    else:
        _summarize_text(log, replay)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    if args.config is None:
        raise ConfigError("--config", "nothing", "is needed with --replay: the new rules")
    if len(args.envoy_release or ()) > 1:
        raise ConfigError("--envoy-release", ", ".join(args.envoy_release), "must be given once with --replay")
    for name in ("scenarios", "plot", "check", "shadow"):
        if getattr(args, name):
            raise ConfigError("--replay", args.replay, f"does not go with {name}")


class _SeenLog:
    """A log whose first reading has told which clusters and hosts there are."""

    def __init__(self, path: Path, *, show_progress: bool) -> None:
        self._path = path
        self._show_progress = show_progress
        self.reader = LogReader(path)
        self.hosts: dict[str, dict[str, None]] = {}
        self.start_ms = 0

    def look(self) -> None:
        start_ms = None
        hosts = self.hosts
        for request in self.requests("reading"):
            of_cluster = hosts.get(request.cluster)
            if of_cluster is None:
                of_cluster = hosts[request.cluster] = {}
            if request.host is not None:
                of_cluster[request.host] = None
            if start_ms is None or request.start_ms < start_ms:
                start_ms = request.start_ms
        if start_ms is None:
            raise UnreadableLogError(
                f"{self._path}: no request that was sent to a cluster, in {self.reader.lines} lines"
            )
        self.start_ms = start_ms

    def requests(self, what: str) -> Iterator[LoggedRequest]:
        self.reader = LogReader(self._path)
        try:
            size = self._path.stat().st_size
            with Progress(console=Console(stderr=True), transient=True, disable=not self._show_progress) as progress:
                task = progress.add_task(what, total=size)
                for request in self.reader.requests():
                    if not self.reader.lines % _PROGRESS_LINES:
                        progress.update(task, completed=self.reader.bytes_read)
                    yield request
        except OSError as exc:
            raise UnreadableLogError(f"{self._path}: {exc.strerror}") from exc


Tell = Callable[[ReplayMoment], None]


def _tell_text(moment: ReplayMoment) -> None:
    at = timestamp(moment.at_ms, always_ms=True)
    sys.stdout.write(f"{at}  {moment.cluster}  {moment.host}  {moment.what}  {moment.reason}\n")


def _tell_json(moment: ReplayMoment) -> None:
    sys.stdout.write(json.dumps(attrs.asdict(moment), ensure_ascii=False) + "\n")


def _summarize_json(log: _SeenLog, replay: Replay) -> None:
    clusters = {}
    for name, hosts in log.hosts.items():
        counts, changed = replay.outcome(name)
        clusters[name] = {"hosts": len(hosts), **attrs.asdict(counts), "outlier_detection": changed is not None}
        if changed is not None:
            clusters[name] |= attrs.asdict(changed)
    summary = {
        "lines": log.reader.lines,
        "unreadable": log.reader.unreadable,
        "unrouted": log.reader.unrouted,
        "clusters": clusters,
    }
    sys.stdout.write(json.dumps({"summary": summary}, ensure_ascii=False) + "\n")


def _summarize_text(log: _SeenLog, replay: Replay) -> None:
    for name, hosts in log.hosts.items():
        counts, changed = replay.outcome(name)
        sys.stdout.write(f"{name}: {len(hosts)} hosts, {counts.requests} requests, {counts.failed} failed\n")
        if changed is None:
            sys.stdout.write("  no outlier detection under these rules\n")
        else:
            sys.stdout.write(
                f"  {changed.ejections} ejections, at most {changed.most_ejected} at a time; saved {changed.saved} "
                f"failed requests, diverted {changed.diverted} good ones, lost {changed.lost}\n"
            )
    reader = log.reader
    sys.stdout.write(f"{reader.lines} lines, {reader.unrouted} without a cluster, {reader.unreadable} unreadable\n")
