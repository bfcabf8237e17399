"""How long a start takes: `python -m benchmarks.startup`.

From exec to the first answer that comes through the proxy from an nginx upstream, asked for each millisecond; the same
for Envoy. And what the imports of `outlier run` take, above an interpreter that imports nothing. Wall clock, in
alternating rounds.
"""

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.claims import Claim, last_line
from benchmarks.nginx import Nginx
from benchmarks.processes import free_port, processor_name
from benchmarks.proxies import missing, release, service
from tests.oracle.envoy import bootstrap, find_envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import resources

START_DEADLINE_S = 30.0
POLL_S = 0.001
MILLISECONDS = 1000


def first_answer_ms(command: Sequence[str], port: int, host: str) -> float:
    """Start a proxy, ask until it answers with 200, end it, and return how long the answer took to come.

    Raises:
        RuntimeError: It ended, or did not answer in time.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(port, host):
            if process.poll() is not None or time.perf_counter() > start + START_DEADLINE_S:
                raise RuntimeError(f"{command[0]} gave no answer")
            time.sleep(POLL_S)
        return (time.perf_counter() - start) * MILLISECONDS
    finally:
        process.kill()
        process.wait()


def _answers(port: int, host: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_DEADLINE_S)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/0", headers={"host": host})
        return connection.getresponse().status == 200
    return False


def sidecar_command(folder: Path, target: Service, port: int) -> list[str]:
    """Write the sidecar's configuration, and return what starts it."""
    config = folder / "rules.yaml"
    config.write_text(yaml.safe_dump_all(resources(target)))
    listen = ("--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0")
    return [sys.executable, "-m", "proxy.cli", "run", "--config", str(config), *listen]


def envoy_command(folder: Path, target: Service, port: int) -> list[str]:
    """Write Envoy's configuration, and return what starts it."""
    message = bootstrap([target], str(folder / "events.log"))
    message["static_resources"]["listeners"][0]["address"]["socket_address"]["port_value"] = port
    config = folder / "envoy.json"
    config.write_text(json.dumps(message))
    options = ("--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error")
    return [find_envoy() or "envoy", "-c", str(config), *options]


def run_ms(*code: str) -> float:
    """Return how long the interpreter runs with these arguments."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *code], check=True)
    return (time.perf_counter() - start) * MILLISECONDS


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each round; the first, which reads from disk and compiles, is not one."""
    names = ["sidecar", *([] if missing("envoy") else ["envoy"])]
    taken: dict[str, list[float]] = {name: [] for name in (*names, "import")}
    with tempfile.TemporaryDirectory(prefix="startup-") as directory, Nginx(Path(directory), ["0"]) as upstream:
        folder, target = Path(directory), service([upstream.address])
        makers = {"sidecar": sidecar_command, "envoy": envoy_command}
        for number in range(rounds + 1):
            found = {}
            for name in names:
                port = free_port()
                found[name] = first_answer_ms(makers[name](folder, target, port), port, target.host)
            found["import"] = run_ms("-c", "import proxy.run_command") - run_ms("-c", "pass")
            if number:
                for name, value in found.items():
                    taken[name].append(value)
    return taken


def claims(taken: dict[str, list[float]]) -> list[Claim]:
    """Return the sidecar's times, Envoy's beside them."""
    beside = f"Envoy {statistics.median(taken['envoy']):.3g}" if "envoy" in taken else None
    return [
        Claim.of_rounds("start, from exec to the first answer", taken["sidecar"], "ms", beside=beside),
        Claim.of_rounds("of it the imports", taken["import"], "ms"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; there is no limit to keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="starts of each (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a last line with all figures as one JSON object")
    options = parser.parse_args(arguments)
    taken = measure(options.rounds)
    print(processor_name())
    for claim in claims(taken):
        spread = f"({claim.least:.1f}-{claim.most:.1f})"
        print(f"{claim.name:<38} {claim.value:7.1f} {claim.unit} {spread:<18} {claim.beside or ''}")
    if options.json:
        reason = missing("envoy")
        figures = {
            "milliseconds": {name: [round(value, 1) for value in values] for name, values in taken.items()},
            "releases": {} if reason else {"envoy": release("envoy")},
            "skipped": {"envoy": reason} if reason else {},
        }
        print(last_line(figures, claims(taken)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
