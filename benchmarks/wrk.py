"""wrk as the load generator, and its report as numbers."""

import re
import subprocess

import attrs

from benchmarks.processes import require

_UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1_000.0, "m": 60_000.0}


@attrs.frozen(kw_only=True)
class Report:
    """What wrk saw: completed requests, and those that failed (not 2xx or 3xx, or a socket error)."""

    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    errors: int


def run(url: str, *, host: str, connections: int, seconds: float) -> Report:
    """Load `url` on keep-alive connections for at least one second, as fast as answers come.

    Raises:
        RuntimeError: wrk could not connect.
    """
    command = (
        *(require("wrk", "the package wrk"), "--latency", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s"),
        *("-H", f"Host: {host}", url),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"wrk failed: {done.stdout}{done.stderr}")
    return parse(done.stdout)


def parse(output: str) -> Report:
    """Read the report of `wrk --latency`."""
    socket_errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    bad_statuses = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    return Report(
        requests=int(_group(r"(\d+) requests in", output)),
        requests_per_second=float(_group(r"Requests/sec:\s+([\d.]+)", output)),
        p50_ms=_milliseconds(_group(r"\s50%\s+([\d.]+\w+)", output)),
        p99_ms=_milliseconds(_group(r"\s99%\s+([\d.]+\w+)", output)),
        errors=sum(int(count) for match in (socket_errors, bad_statuses) if match for count in match.groups()),
    )


def _group(pattern: str, output: str) -> str:
    match = re.search(pattern, output)
    if match is None:
        raise RuntimeError(f"wrk's report has no {pattern!r}: {output}")
    return match.group(1)


def _milliseconds(text: str) -> float:
    number = text.rstrip("mus")
    return float(number) * _UNITS_MS[text[len(number) :]]
