"""Claim: a change is live in the sidecar within the debounce time and a few milliseconds, however big the mesh is.

`python -m benchmarks.propagation [--part mesh|large] [--minutes M] [--json]`. `outlier source` feeds `outlier run` over
MCP, each a process of its own.

mesh: the test mesh of Airbnb's study of Istio (istio/istio issue 40744): 50 services with 500 endpoints, a redeploy of
one each 10 seconds and a change of a route each 5 seconds. Its caches on and off gave a p90 of 2.9 to 0.85 s there.

large: 10,000 services with 100,000 endpoints and a change of one endpoint each second, and what that does to proxied
requests: wrk runs in alternating phases with and without changes.

Convergence runs from the arrival of a change at the sidecar until requests can use it, debouncing included; the time
from the changed file adds the source's look at its folder.
"""

import argparse
import contextlib
import datetime as dt
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from benchmarks import wrk
from benchmarks.claims import Claim, last_line
from benchmarks.nginx import Nginx
from benchmarks.processes import free_port, processor_name

DEBOUNCE_AFTER_MS = 100
REDEPLOY_EACH_S, ROUTE_EACH_S = 10, 5
ENDPOINTS_EACH = 10
MESH_LIMIT_MS, LARGE_LIMIT_MS = DEBOUNCE_AFTER_MS + 20, DEBOUNCE_AFTER_MS + 50
LATENCY_LIMIT = 1.5
SERVICES_PER_FILE = 100
HOT = "hot.default.svc.cluster.local"


def service(number: int, generation: int) -> dict[str, object]:
    """Return a ServiceEntry whose endpoints all change with the generation."""
    name = f"shop-{number}"
    network = f"10.{number // 250 % 250}.{number % 250}"
    first = generation % 24 * ENDPOINTS_EACH + 1
    endpoints = [{"address": f"{network}.{first + index}"} for index in range(ENDPOINTS_EACH)]
    return entry(name, endpoints)


def entry(name: str, endpoints: list[dict[str, object]]) -> dict[str, object]:
    """Return a ServiceEntry."""
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": name},
        "spec": {
            "hosts": [f"{name}.default.svc.cluster.local"],
            "location": "MESH_INTERNAL",
            "resolution": "STATIC",
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
            "endpoints": endpoints,
        },
    }


def route(number: int, generation: int) -> dict[str, object]:
    """Return a VirtualService whose timeout changes with the generation."""
    host = f"shop-{number}.default.svc.cluster.local"
    http = [{"timeout": f"{generation + 1}s", "route": [{"destination": {"host": host}}]}]
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": {"name": f"shop-{number}"},
        "spec": {"hosts": [host], "http": http},
    }


def write(folder: Path, name: str, *resources: dict[str, object]) -> None:
    """Replace a file at once."""
    fresh = folder / f".{name}.json"
    fresh.write_text("\n".join(map(json.dumps, resources)))
    fresh.rename(folder / f"{name}.json")


@attrs.frozen
class Push:
    """One line of the sidecar's log: when a configuration was live (wall clock, s), and how long it took."""

    time_s: float
    duration_ms: int


class Sidecar:
    """`outlier source` and an `outlier run` that it feeds."""

    def __init__(self, folder: Path) -> None:
        self._address = f"127.0.0.1:{free_port()}"
        self._source = self._command("source", str(folder), "--listen", self._address)
        assert self._source.stdout is not None
        self._source.stdout.readline()
        listen = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        options = ("--log-format", "json", "--debounce-after", str(DEBOUNCE_AFTER_MS / 1000))
        self._run = self._command("run", "--source", f"mcp://{self._address}", *listen, *options)
        self.pushes: list[Push] = []
        threading.Thread(target=self._read_log, daemon=True).start()
        assert self._run.stdout is not None
        self.listen = json.loads(self._run.stdout.readline())["listen"]

    def _command(self, *arguments: str) -> "subprocess.Popen[str]":
        command = (sys.executable, "-m", "proxy.cli", *arguments)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _read_log(self) -> None:
        assert self._run.stderr is not None
        for line in self._run.stderr:
            fields = json.loads(line)
            if fields["event"] == "config.applied":
                moment = dt.datetime.fromisoformat(fields["timestamp"]).timestamp()
                self.pushes.append(Push(moment, fields["duration_ms"]))

    def close(self) -> None:
        """End both."""
        for process in (self._run, self._source):
            process.terminate()
            process.wait()


@contextlib.contextmanager
def fed(folder: Path) -> Iterator[Sidecar]:
    """Run a sidecar that is fed from a folder."""
    sidecar = Sidecar(folder)
    try:
        yield sidecar
    finally:
        sidecar.close()


def quantiles(values: list[float]) -> dict[str, float]:
    """Return p50, p90 and p99."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 1), "p90": round(cuts[89], 1), "p99": round(cuts[98], 1)}


def from_change(writes: list[float], pushes: list[Push]) -> list[float]:
    """Return for each changed file how long after it the next configuration was live, in milliseconds."""
    return [
        min(push.time_s - written for push in pushes if push.time_s > written) * 1000
        for written in writes
        if pushes and written < pushes[-1].time_s
    ]


def mesh(minutes: float) -> dict[str, object]:
    """Return the convergence times of the study's mesh."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(50):
            write(folder, f"service-{number}", service(number, 0))
            write(folder, f"route-{number}", route(number, 0))
        with fed(folder) as sidecar:
            time.sleep(2)
            del sidecar.pushes[:]
            writes, start = [], time.monotonic()
            for generation in range(1, round(minutes * 60 / ROUTE_EACH_S) + 1):
                writes.append(time.time())
                write(folder, f"route-{(number := chance.randrange(50))}", route(number, generation))
                if generation % (REDEPLOY_EACH_S // ROUTE_EACH_S) == 0:
                    write(folder, f"service-{(number := chance.randrange(50))}", service(number, generation))
                time.sleep(max(start + generation * ROUTE_EACH_S - time.monotonic(), 0))
            time.sleep(2)
            pushes = list(sidecar.pushes)
    return {
        "pushes": len(pushes),
        "convergence_ms": quantiles([push.duration_ms for push in pushes]),
        "from_changed_file_ms": quantiles(from_change(writes, pushes)),
    }


def large(services: int, phases: int, phase_s: int) -> dict[str, object]:
    """Return convergence times in a big mesh, and the latency of requests with and without changes."""
    with tempfile.TemporaryDirectory() as name, Nginx(Path(name), ["0"]) as nginx:
        folder = Path(name) / "rules"
        folder.mkdir()
        for first in range(0, services, SERVICES_PER_FILE):
            write(folder, f"services-{first}", *(service(first + index, 0) for index in range(SERVICES_PER_FILE)))
        move(folder, 0)  # there from the start: what is measured is a change of endpoints, not a new service
        write(folder, "hot", entry("hot", [{"address": "127.0.0.1", "ports": {"http": nginx.port}}]))
        with fed(folder) as sidecar:
            latencies: dict[str, list[float]] = {"at_rest": [], "during": []}
            writes: list[float] = []
            url = f"http://{sidecar.listen}/0"
            wrk.run(url, host=HOT, connections=4, seconds=5)
            del sidecar.pushes[:]
            for _ in range(phases):
                latencies["at_rest"].append(wrk.run(url, host=HOT, connections=4, seconds=phase_s).p99_ms)
                stop = threading.Event()
                churn = threading.Thread(target=change_each_second, args=(folder, stop, writes))
                churn.start()
                latencies["during"].append(wrk.run(url, host=HOT, connections=4, seconds=phase_s).p99_ms)
                stop.set()
                churn.join()
            pushes = list(sidecar.pushes)
    p99 = {phase: round(statistics.median(values), 2) for phase, values in latencies.items()}
    ratios = [round(during / rest, 3) for rest, during in zip(*latencies.values(), strict=True)]
    return {
        "services": services,
        "endpoints": services * ENDPOINTS_EACH,
        "pushes": len(pushes),
        "convergence_ms": quantiles([push.duration_ms for push in pushes]),
        "from_changed_file_ms": quantiles(from_change(writes, pushes)),
        "request_p99_ms": p99,
        "ratio": round(statistics.median(ratios), 2),
        "ratios": ratios,
    }


def change_each_second(folder: Path, stop: threading.Event, writes: list[float]) -> None:
    """Move one endpoint a second."""
    generation = 0
    while not stop.wait(1):
        generation += 1
        writes.append(time.time())
        move(folder, generation)


def move(folder: Path, generation: int) -> None:
    """Write the service whose endpoint changes."""
    write(folder, "moving", entry("moving", [{"address": f"10.255.255.{generation % 250 + 1}"}]))


def show(title: str, figures: dict[str, object], limit_ms: int) -> bool:
    """Print one part; return whether it keeps its limits."""
    print(f"\n{title}")
    for name, value in figures.items():
        print(f"  {name:22} {value}")
    convergence = figures["convergence_ms"]
    assert isinstance(convergence, dict)
    ratio = figures.get("ratio", 1.0)
    assert isinstance(ratio, float)
    kept = convergence["p99"] <= limit_ms and ratio <= LATENCY_LIMIT
    limits = f"convergence p99 <= {limit_ms} ms" + (f", ratio <= {LATENCY_LIMIT}" if "ratio" in figures else "")
    print(f"  limits: {limits}: {'kept' if kept else 'NOT kept'}")
    return kept


def claims(figures: dict[str, Any]) -> list[Claim]:
    """Return how long a change takes to be live (the p99; the spread is p50 to p99), and what it does to requests."""
    made = []
    for part, mesh, limit_ms in (
        ("mesh", "50 services, 500 endpoints", MESH_LIMIT_MS),
        ("large", "{services:,} services, {endpoints:,} endpoints", LARGE_LIMIT_MS),
    ):
        if part in figures:
            found = figures[part]
            taken = found["convergence_ms"]
            name = f"a change is live, p99, {DEBOUNCE_AFTER_MS} ms of debouncing included: {mesh.format(**found)}"
            made.append(
                Claim(name=name, value=taken["p99"], unit="ms", least=taken["p50"], most=taken["p99"], limit=limit_ms)
            )
    if "large" in figures:
        name = "p99 of requests while they change, over that at rest"
        made.append(Claim.of_rounds(name, figures["large"]["ratios"], "x", limit=LATENCY_LIMIT))
    return made


def main() -> int:
    """Measure and print; return 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("mesh", "large"), help="one part only")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the mesh is watched, default 5")
    parser.add_argument("--phases", type=int, default=4, help="of rest and of change in the large mesh, default 4")
    parser.add_argument("--phase-seconds", type=int, default=15, help="length of each, default 15")
    parser.add_argument("--services", type=int, default=10_000, help="of the large mesh, default 10000")
    parser.add_argument("--json", action="store_true", help="a last line with all figures")
    args = parser.parse_args()
    print(f"debounce {DEBOUNCE_AFTER_MS} ms; {processor_name()}")
    kept, figures = True, {}
    if args.part != "large":
        figures["mesh"] = mesh(args.minutes)
        kept &= show("50 services, 500 endpoints", figures["mesh"], MESH_LIMIT_MS)
    if args.part != "mesh":
        figures["large"] = large(args.services, args.phases, args.phase_seconds)
        kept &= show("large mesh, an endpoint changes each second", figures["large"], LARGE_LIMIT_MS)
    if args.json:
        print(last_line(figures, claims(figures)))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
