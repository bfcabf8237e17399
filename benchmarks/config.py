"""Claim: a changed rule costs the same whatever the size of the mesh.

`python -m benchmarks.config [--json]` writes 10,000 DestinationRules (a file each) and 10,000 ServiceEntries with
100,000 endpoints (a hundred to a file), loads them, and then changes one rule at a time: reading its file, checking
it, and building the next snapshot. The same at a tenth of the size shows what depends on the total. Looking for the
changed file is a cost of its own, by number of files, and shown apart.

Then changes reach a running sidecar with as many services: for how long is it away from its requests?
"""

import argparse
import gc
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs

from benchmarks.claims import Claim, last_line
from benchmarks.switching import Holds, holds
from proxy.config.node import NodeConfig
from proxy.push.file_source import SOURCE_NAME, FileSource, read_file
from proxy.push.file_watcher import FileWatcher
from proxy.push.pipeline import ConfigPipeline

SERVICES = 10_000
ENDPOINTS_EACH = 10
SERVICES_PER_FILE = 100
CHANGES = 50
CHANGE_LIMIT_MS = 5.0
HOLD_LIMIT_MS = 5.0

RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: shop-{number}
  namespace: default
spec:
  host: shop-{number}.default.svc.cluster.local
  trafficPolicy:
    connectionPool:
      tcp: {{connectTimeout: 1s}}
      http: {{http1MaxPendingRequests: 1024}}
    outlierDetection:
      consecutive5xxErrors: {errors}
      interval: 10s
      baseEjectionTime: 30s
      maxEjectionPercent: 50
"""
SERVICE = """\
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: shop-{number}
  namespace: default
spec:
  hosts: [shop-{number}.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {{number: 80, name: http, protocol: HTTP}}
  endpoints:
{endpoints}
"""
ENDPOINT = "  - {{address: 10.{a}.{b}.{c}, ports: {{http: 8080}}, labels: {{app: shop, version: v1}}}}"


@attrs.frozen(kw_only=True)
class Result:
    """What one size costs, in milliseconds of CPU time of this process; `changes_ms` are all changes, sorted.

    `memory_mb` is what loading added to the resident size.
    """

    services: int
    endpoints: int
    load_ms: float
    memory_mb: float
    changes_ms: list[float]
    look_ms: float

    @property
    def change_median_ms(self) -> float:
        """The median of the changes."""
        return self.changes_ms[len(self.changes_ms) // 2]


def write_files(folder: Path, services: int) -> None:
    """Write the resources of that many services."""
    for number in range(services):
        (folder / f"rule-{number}.yaml").write_text(RULE.format(number=number, errors=5))
    for first in range(0, services, SERVICES_PER_FILE):
        texts = []
        for number in range(first, min(first + SERVICES_PER_FILE, services)):
            endpoints = "\n".join(
                ENDPOINT.format(a=number >> 8 & 255, b=number & 255, c=index) for index in range(ENDPOINTS_EACH)
            )
            texts.append(SERVICE.format(number=number, endpoints=endpoints))
        (folder / f"services-{first}.yaml").write_text("".join(texts))


def cpu_ms(call: Callable[[], object]) -> float:
    """CPU time of a call, in milliseconds."""
    start = time.process_time_ns()
    call()
    return (time.process_time_ns() - start) / 1e6


def resident_mb() -> float:
    """Resident size of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def change_one(pipeline: ConfigPipeline, path: str) -> None:
    """What the file source does with a changed file."""
    pipeline.update(SOURCE_NAME, {path: read_file(path)})


def measure(services: int) -> Result:
    """Load a mesh of that size and change rules in it."""
    with tempfile.TemporaryDirectory(prefix="outlier-bench-") as name:
        folder = Path(name)
        write_files(folder, services)
        applied = []
        pipeline = ConfigPipeline(NodeConfig(), apply=applied.append)
        source = FileSource([str(folder)], pipeline)
        gc.collect()
        before_mb = resident_mb()
        load_ms = cpu_ms(source.load)
        memory_mb = resident_mb() - before_mb
        watcher = FileWatcher([str(folder)])
        watcher.first_look()
        look_ms = min(cpu_ms(lambda: watcher.look(0)) for _ in range(3))
        changes = []
        for change in range(CHANGES):
            number = change * services // CHANGES
            path = folder / f"rule-{number}.yaml"
            path.write_text(RULE.format(number=number, errors=change + 100))
            changes.append(cpu_ms(partial(change_one, pipeline, str(path))))
            assert applied[-1].changed == {f"outbound|80||shop-{number}.default.svc.cluster.local"}
    return Result(
        services=services,
        endpoints=services * ENDPOINTS_EACH,
        load_ms=load_ms,
        memory_mb=memory_mb,
        changes_ms=sorted(changes),
        look_ms=look_ms,
    )


def claims(large: Result, held: Holds) -> list[Claim]:
    """Return what the large mesh costs."""
    mesh = f"{large.services:,} rules and services, {large.endpoints:,} endpoints"
    return [
        Claim(name=f"loading {mesh}: CPU", value=large.load_ms / 1000, unit="s"),
        Claim(name="the same: memory", value=large.memory_mb, unit="MB"),
        Claim.of_rounds("one changed rule among them: CPU", large.changes_ms, "ms", limit=CHANGE_LIMIT_MS),
        Claim.of_rounds(
            f"one changed route, {held.services:,} services: away from requests",
            held.route_ms,
            "ms",
            limit=HOLD_LIMIT_MS,
        ),
        Claim.of_rounds("one new service: away from requests", held.service_ms, "ms", limit=HOLD_LIMIT_MS),
        Claim(name=f"{held.services // 2:,} new services: away from requests", value=held.arrival_ms, unit="ms"),
        Claim(name="the same removed: away from requests", value=held.departure_ms, unit="ms"),
    ]


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, and return 1 if a change costs more than its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.config", description=__doc__)
    parser.add_argument("--services", type=int, default=SERVICES, help=f"size of the large mesh (default {SERVICES})")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args(argv)
    results = [measure(options.services // 10), measure(options.services)]
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}; CPU times")
    print(f"{'services':>9} {'endpoints':>10} {'load':>9} {'memory':>9} {'one change':>11} {'median':>9} {'look':>8}")
    for result in results:
        print(
            f"{result.services:>9} {result.endpoints:>10} {result.load_ms / 1000:>7.2f} s {result.memory_mb:>6.0f} MB "
            f"{result.changes_ms[0]:>8.2f} ms {result.change_median_ms:>6.2f} ms {result.look_ms:>5.1f} ms"
        )
    print(f"limit of one change: {CHANGE_LIMIT_MS:g} ms (median)")
    held = [holds(options.services // 10), holds(options.services)]
    print("longest CPU time away from requests, running sidecar, without the garbage collector")
    print(f"{'services':>9} {'one route':>11} {'one service':>12} {'half as many new':>17} {'and removed':>12}")
    for each in held:
        route_ms, service_ms = (values[len(values) // 2] for values in (each.route_ms, each.service_ms))
        print(
            f"{each.services:>9} {route_ms:>8.2f} ms {service_ms:>9.2f} ms {each.arrival_ms:>14.1f} ms "
            f"{each.departure_ms:>9.1f} ms"
        )
    if options.json:
        small, large = results
        growth = round(large.change_median_ms / small.change_median_ms, 2)
        found = {"results": [attrs.asdict(result) for result in results], "change_growth": growth}
        found["holds"] = [attrs.asdict(each) for each in held]
        print(last_line(found, claims(large, held[-1])))
    return 0 if all(claim.kept for claim in claims(results[-1], held[-1])) else 1


if __name__ == "__main__":
    sys.exit(main())
