"""Claim: a rule is tried on an hour of traffic, or on a million logged requests, in less than a minute.

`python -m benchmarks.simulate [--json]` runs the command `outlier simulate` as a user would, start of the interpreter
included: an hour of 1,000 requests a second over 20 hosts, a day of sweeps without traffic, and the replay of a million
lines, and of a hundred thousand to see that memory does not grow with the log. One run each: they are long enough.
"""

import argparse
import datetime as dt
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

from benchmarks.claims import Claim, last_line

HOSTS = 20
LINES = 1_000_000
GROWTH_LIMIT = 1.05

SCENARIO = """
name: {name}
outlier_detection: {{consecutive_5xx: 5}}
duration: {duration}
rate: {rate}
hosts: [{hosts}]
behaviours: [h3 fails with 503 in 50 % of requests from 10s]
"""
RULE = """
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 5, maxEjectionPercent: 20}
"""


@attrs.frozen
class Figure:
    """One run: seconds by the clock and of the processor, peak memory, and what the first must not exceed."""

    name: str
    seconds: float
    cpu_seconds: float
    peak_mib: float
    limit_seconds: float


def run(name: str, limit_seconds: float, *arguments: object) -> Figure:
    """Run `outlier simulate` with these arguments in a process of its own."""
    command = [sys.executable, "-c", "from proxy.cli import main; raise SystemExit(main())", "simulate"]
    start = time.monotonic()
    with subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name}: exit code {process.returncode}")
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Figure(name, time.monotonic() - start, cpu_seconds, usage.ru_maxrss / 1024, limit_seconds)


def write_log(path: Path, lines: int) -> None:
    """Write an access log of one request a millisecond; every third minute one host of twenty answers 503."""
    draw = random.Random(1)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            host = draw.randrange(HOSTS)
            fails = host == 3 and number // 60_000 % 3 == 1
            moment = start + dt.timedelta(milliseconds=number)
            line = {
                "start_time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "method": "GET",
                "path": f"/reviews/{number}",
                "authority": "reviews:9080",
                "protocol": "HTTP/1.1",
                "response_code": 503 if fails else 200,
                "response_flags": "-",
                "response_code_details": "via_upstream",
                "bytes_received": 0,
                "bytes_sent": 100,
                "duration_ms": draw.randrange(1, 30),
                "upstream_cluster": "outbound|9080||reviews.default.svc.cluster.local",
                "upstream_host": f"10.0.0.{host}:9080",
                "attempt": 1,
                "request_id": f"{number:032x}",
                "downstream_remote_address": "127.0.0.1:40000",
            }
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def measure(folder: Path, lines: int) -> list[Figure]:
    """Run everything."""
    hosts = ", ".join(f"h{number}" for number in range(HOSTS))
    for name, duration, rate in (("hour", "1h", 1000), ("day", "24h", 0)):
        (folder / f"{name}.yaml").write_text(SCENARIO.format(name=name, duration=duration, rate=rate, hosts=hosts))
    (folder / "new.yaml").write_text(RULE)
    write_log(folder / "long.jsonl", lines)
    write_log(folder / "short.jsonl", lines // 10)
    replay = ("--config", folder / "new.yaml", "--replay")
    return [
        run("an hour of 1,000 requests/s, 20 hosts", 60, folder / "hour.yaml"),
        run("a day of sweeps without traffic", 5, folder / "day.yaml"),
        run(f"replay of {lines // 10:,} lines", 60, *replay, folder / "short.jsonl"),
        run(f"replay of {lines:,} lines", 60, *replay, folder / "long.jsonl"),
    ]


def claims(figures: list[Figure]) -> list[Claim]:
    """Return the run times, and how much more memory ten times the log takes."""
    short, long = figures[-2:]
    times = [
        Claim(name=figure.name, value=figure.seconds, unit="s", limit=figure.limit_seconds)
        for figure in figures
        if figure is not short
    ]
    growth = long.peak_mib / short.peak_mib
    return [
        *times,
        Claim(name="the same: memory against a tenth of the log", value=growth, unit="x", limit=GROWTH_LIMIT),
    ]


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, and return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES, help="of the longer log (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="outlier-simulate-") as folder:
        figures = measure(Path(folder), options.lines)
    found = claims(figures)
    for figure in figures:
        print(
            f"{figure.name:<40} {figure.seconds:6.1f} s  {figure.cpu_seconds:6.1f} s processor  "
            f"{figure.peak_mib:6.1f} MiB  limit {figure.limit_seconds:g} s"
        )
    print(f"{found[-1].name}: {found[-1].value:.3f}, limit {GROWTH_LIMIT}")
    if options.json:
        print(last_line({"figures": {figure.name: attrs.asdict(figure) for figure in figures}}, found))
    return 0 if all(claim.kept for claim in found) else 1


if __name__ == "__main__":
    sys.exit(main())
