"""Nothing on the way of a request gets dearer unnoticed: `python -m benchmarks.guard`.

Counts opcodes and calls of the hot paths, and the bytes that an exchange holds, and compares them with
`benchmarks/baseline.json`: more than 15 % above it fails. No time is measured, so a busy machine changes nothing.
`--accept` makes the present counts the baseline of this minor version of Python.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import balancer, config
from benchmarks.counting import count_of
from benchmarks.engine import detector
from benchmarks.guarded_exchange import REQUEST, RESPONSE, exchange_counts
from outlier import OutlierDetection, Result
from proxy.codec.http1_request import RequestParser
from proxy.codec.http1_response import ResponseParser
from proxy.config.node import NodeConfig
from proxy.http.request_headers import REQUEST_HEADERS
from proxy.push.file_source import FileSource
from proxy.push.pipeline import ConfigPipeline
from proxy.upstream.connection import RESPONSE_HEADERS

BASELINE = Path(__file__).parent / "baseline.json"
TOLERANCE = 0.15
SERVICES, HOSTS, SWEPT_HOSTS = 1_000, 100, 100
PICKS, REPORTS, HEADS, CHANGES = 200, 200, 50, 5
ACCEPT = "python -m benchmarks.guard --accept"

Counts = dict[str, dict[str, float]]  # by what is done, and by what is counted


def report_counts() -> Counts:
    """Return what a report to a detector counts, and a sweep for each host."""
    monitor = detector().add_host("10.0.0.1:80")
    split = detector(OutlierDetection(split_external_local_origin_errors=True)).add_host("10.0.0.1:80")
    failing = detector(OutlierDetection(consecutive_5xx=0, consecutive_gateway_failure=0)).add_host("10.0.0.2:80")
    success, connected = Result.EXT_ORIGIN_REQUEST_SUCCESS, Result.LOCAL_ORIGIN_CONNECT_SUCCESS
    works: dict[str, Callable[[], object]] = {
        "put_http_response_code, 200": lambda: monitor.put_http_response_code(200),
        "put_http_response_code, 503": lambda: failing.put_http_response_code(503),
        "put_result, success": lambda: monitor.put_result(success, 200),
        "put_result, connected, split": lambda: split.put_result(connected),
    }
    found = {name: count_of(work, REPORTS) for name, work in works.items()}
    swept = detector()
    for number in range(SWEPT_HOSTS):
        swept.add_host(f"10.0.1.{number}:80")
    sweep = count_of(swept.on_interval_timer, 5)
    return found | {"sweep, each host": {what: count / SWEPT_HOSTS for what, count in sweep.items()}}


def pick_counts() -> Counts:
    """Return what each policy's pick counts."""
    found = {}
    for subject in balancer.SUBJECTS:
        cluster = balancer.Cluster(subject, HOSTS)
        contexts = [balancer.Context(number * 0x9E3779B97F4A7C15 % 2**64) for number in range(PICKS)]
        turns = iter(contexts * 2)

        def pick(cluster: balancer.Cluster = cluster, turns: Iterator[balancer.Context] = turns) -> object:
            return cluster.load_balancer.choose_host(next(turns))

        found[f"pick, {subject.name}"] = count_of(pick, PICKS)
    return found


def head_counts() -> Counts:
    """Return what parsing a head counts that has not been seen before."""
    requests = iter([REQUEST.format(number=f"{n:06}", host="reviews").encode() for n in range(2 * HEADS)])
    responses = iter([RESPONSE.format(number=f"{n:06}").encode() for n in range(2 * HEADS)])
    request_parser, response_parser = RequestParser(REQUEST_HEADERS), ResponseParser(RESPONSE_HEADERS)

    def parse_response() -> None:
        response_parser.expect(head_request=False)
        response_parser.feed(next(responses))

    return {
        "request head": count_of(lambda: request_parser.feed(next(requests)), HEADS),
        "response head": count_of(parse_response, HEADS),
    }


def change_counts() -> Counts:
    """Return what one changed rule among many services counts, its file read already."""
    with tempfile.TemporaryDirectory(prefix="guard-") as name:
        folder = Path(name)
        config.write_files(folder, SERVICES)
        pipeline = ConfigPipeline(NodeConfig(), apply=lambda _: None)
        FileSource([str(folder)], pipeline).load()
        path = folder / "rule-7.yaml"
        errors = iter(range(100, 100 + 2 * CHANGES))

        def change() -> None:
            path.write_text(config.RULE.format(number=7, errors=next(errors)))
            config.change_one(pipeline, str(path))

        return {f"one changed rule among {SERVICES:,} services": count_of(change, CHANGES)}


def all_counts() -> Counts:
    """Return everything that is guarded."""
    parts = (exchange_counts, report_counts, pick_counts, head_counts, change_counts)
    found: Counts = {}
    for part in parts:
        found |= part()
    return {name: {what: round(value, 2) for what, value in counts.items()} for name, counts in found.items()}


def compare(now: Mapping[str, Mapping[str, float]], baseline: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each count that is more than the tolerance above the baseline, or has none."""
    dearer = []
    for name, counts in now.items():
        before = baseline.get(name, {})
        for what, value in counts.items():
            if what not in before:
                dearer.append(f"{name}: {what}: {value:g}, and the baseline has none")
            elif value - before[what] > before[what] * TOLERANCE:
                growth = f"{value / before[what] - 1:+.1%}" if before[what] else "from nothing"
                dearer.append(f"{name}: {what}: {before[what]:g} -> {value:g} ({growth}, allowed +{TOLERANCE:.0%})")
    return dearer


def read_baseline(path: Path) -> dict[str, Counts]:
    """Return the counts of each minor version of Python."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def accept(path: Path, version: str, counts: Counts) -> None:
    """Make these counts the baseline of a version."""
    kept = read_baseline(path) | {version: counts}
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or accept; return 1 when something got dearer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--accept", action="store_true", help="make the present counts the baseline")
    options = parser.parse_args(arguments)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    baseline = read_baseline(BASELINE).get(version)
    if baseline is None and not options.accept:
        print(f"no baseline for Python {version}, so nothing is compared; {ACCEPT} makes one")
        return 0
    now = all_counts()
    for name, counts in now.items():
        before = (baseline or {}).get(name, {})
        shown = (f"{what} {value:g}{_change(value, before.get(what))}" for what, value in counts.items())
        print(f"{name:<44} {', '.join(shown)}")
    if options.accept:
        accept(BASELINE, version, now)
        print(f"accepted as the baseline of Python {version}: commit {BASELINE.name} with the reason")
        return 0
    dearer = compare(now, baseline or {})
    if dearer:
        print(f"\ndearer than the baseline of Python {version}:", *dearer, sep="\n  ")
        print(f"\nWhere that is worth it: {ACCEPT}, and commit benchmarks/{BASELINE.name} with the reason.")
    return 1 if dearer else 0


def _change(value: float, before: float | None) -> str:
    return "" if not before or value == before else f" ({value / before - 1:+.1%})"


if __name__ == "__main__":
    sys.exit(main())
