"""h2load as the load generator, and its report as numbers."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import require
from benchmarks.wrk import Report


def run(
    url: str,
    *,
    host: str,
    connections: int,
    streams: int,
    seconds: float,
    headers: Sequence[str] = (),
    body: bytes = b"",
) -> Report:
    """Load `url` over HTTP/2 with prior knowledge, as fast as answers come.

    Args:
        url: Where the proxy listens.
        host: The authority to ask for.
        connections: How many.
        streams: Requests under way on each connection.
        seconds: How long.
        headers: Lines (`name: value`) besides.
        body: What each request carries; a request with a body is a POST.

    Raises:
        RuntimeError: h2load could not connect.
    """
    with tempfile.TemporaryDirectory(prefix="h2load-") as directory:
        log = Path(directory, "log")
        command = [
            *(require("h2load", "the package nghttp2-client"), f"-c{connections}", f"-m{streams}", f"-D{seconds:g}"),
            *(f"--log-file={log}", "-H", f":authority: {host}"),
        ]
        for line in headers:
            command += ["-H", line]
        if body:
            Path(directory, "body").write_bytes(body)
            command += ["-d", str(Path(directory, "body"))]
        done = subprocess.run([*command, url], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"h2load failed: {done.stdout}{done.stderr}")
        return parse(done.stdout, log.read_text(), connections=connections * streams)


def parse(output: str, log: str, *, connections: int) -> Report:
    """Read the report of `h2load` and its log, one line a request: start, status, microseconds.

    `connections` is how many requests may be under way when the time is up; those are not failures.
    """
    totals = re.search(r"requests: .* (\d+) done, (\d+) succeeded, (\d+) failed", output)
    rate = re.search(r"([\d.]+) req/s", output)
    statuses = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output)
    if totals is None or rate is None or statuses is None:
        raise RuntimeError(f"h2load's report is not understood: {output}")
    failed = max(0, int(totals.group(3)) - connections)
    times_us = sorted(int(line.split("\t")[2]) for line in log.splitlines())
    return Report(
        requests=int(totals.group(2)),
        requests_per_second=float(rate.group(1)),
        p50_ms=times_us[len(times_us) // 2] / 1000,
        p99_ms=times_us[len(times_us) * 99 // 100] / 1000,
        errors=failed + int(statuses.group(3)) + int(statuses.group(4)),
    )
