"""What a request costs: `python -m benchmarks.data_plane`.

Runs the sidecar and its competitors side by side in front of the same three nginx upstreams: one proxy at a time is
loaded, in turns, so that a busy moment of the machine meets all of them. Each proxy has one core, wrk and nginx have
the other. CPU is the user and system time of the proxy's process, with all its threads, divided by the requests that
wrk saw answered.
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
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import wrk
from benchmarks.claims import Claim, last_line, worst
from benchmarks.nginx import Nginx, parse_size
from benchmarks.processes import cpu_seconds, give_up, on_core, processor_name, require, resident_bytes
from benchmarks.proxies import LOGGING_PROXIES, PROXIES, missing, release, service
from benchmarks.sample import FIGURES, Sample, Samples
from tests.oracle.service import Service
from tests.oracle.subject import Subject

UPSTREAMS = 3
WARM_UP_S = 1.0
PRODUCT = "sidecar"
COMPETITORS = tuple(name for name in PROXIES if name != PRODUCT)
MESH_COMPETITORS = ("envoy",)  # the others have no such retries
CPU_LIMITS = {("envoy", "0"): 0.75, ("envoy", "20k"): 0.75, ("envoy", "1m"): 1.0, ("aiohttp", "0"): 0.25}
P99_LIMIT = 1.0
BODIES = {"0": "0 B", "20k": "20 kB", "1m": "1 MB"}  # for people


def measure(subject: Subject, target: Service, size: str, options: argparse.Namespace) -> Sample:
    """Load one proxy and return what it cost."""
    url = f"http://{subject.listen[0]}:{subject.listen[1]}/{size}"
    load = {"host": target.host, "connections": options.connections}
    wrk.run(url, seconds=WARM_UP_S, **load)
    before = cpu_seconds(subject.pid)
    report = wrk.run(url, seconds=options.seconds, **load)
    return Sample.of(report, cpu_seconds(subject.pid) - before)


async def run(names: Sequence[str], options: argparse.Namespace, console: Console) -> tuple[Samples, dict[str, int]]:
    """Measure all proxies in alternating rounds; return the samples and the memory of each proxy afterwards."""
    samples: Samples = {name: {size: [] for size in options.sizes} for name in names}
    proxy_core, load_core = sorted(os.sched_getaffinity(0))[:2]
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        with on_core(load_core):
            upstreams = [stack.enter_context(Nginx(directory, options.sizes)) for _ in range(UPSTREAMS)]
        target = service([upstream.address for upstream in upstreams], retries=2 if options.mesh else 0)
        proxies = LOGGING_PROXIES if options.mesh else PROXIES
        with on_core(proxy_core):
            subjects = {name: await stack.enter_async_context(proxies[name]([target])) for name in names}
        with on_core(load_core):
            for number in range(options.rounds):
                # Another order each round: nobody is always the first to meet a warm or a cold machine.
                order = list(itertools.islice(itertools.cycle(names), number, number + len(names)))
                for size, name in itertools.product(options.sizes, order):
                    console.print(f"round {number + 1} of {options.rounds}: {size} through {name}", style="dim")
                    samples[name][size].append(measure(subjects[name], target, size, options))
        memory = {name: resident_bytes(subject.pid) for name, subject in subjects.items()}
    return samples, memory


def summary(samples: Samples, memory: dict[str, int]) -> dict[str, Any]:
    """Return medians with their spread, and the product's figures as ratios to each competitor's of the same round."""
    results = {name: {size: _figures(taken) for size, taken in by_size.items()} for name, by_size in samples.items()}
    ratios = {
        name: {size: _ratios(samples[PRODUCT][size], taken) for size, taken in by_size.items()}
        for name, by_size in samples.items()
        if name != PRODUCT
    }
    return {
        "processor": processor_name(),
        "results": results,
        "ratios": ratios,
        "resident_mb": {name: round(size / 1e6, 1) for name, size in memory.items()},
        "releases": {name: release(name) for name in samples},
    }


def claims(samples: Samples, *, mesh: bool) -> list[Claim]:
    """Return the ratios that are promised; of a mesh those that are measured, for no promise was made."""
    manner = ", with retries and access log" if mesh else ""
    promised = dict.fromkeys(CPU_LIMITS) if mesh else CPU_LIMITS
    made = [
        Claim.of_rounds(
            f"CPU of a request of {BODIES.get(size, size)}{manner}, sidecar / {name}",
            _round_ratios(samples[PRODUCT][size], samples[name][size], "cpu_us"),
            "x",
            limit=limit,
        )
        for (name, size), limit in promised.items()
        if name in samples and size in samples[name]
    ]
    if "envoy" in samples and not mesh:
        each = [
            Claim.of_rounds(size, _round_ratios(samples[PRODUCT][size], taken, "p99_ms"), "x")
            for size, taken in samples["envoy"].items()
        ]
        made.append(worst("p99 of a request, sidecar / envoy, the worst of all bodies", each, "x", limit=P99_LIMIT))
    return made


def _figures(taken: Sequence[Sample]) -> dict[str, Any]:
    return {figure: _spread(taken, figure) for figure in FIGURES} | {"errors": sum(sample.errors for sample in taken)}


def _spread(taken: Sequence[Sample], figure: str) -> dict[str, float]:
    values = [getattr(sample, figure) for sample in taken]
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }


def _ratios(product: Sequence[Sample], competitor: Sequence[Sample]) -> dict[str, float]:
    return {figure: round(statistics.median(_round_ratios(product, competitor, figure)), 3) for figure in FIGURES}


def _round_ratios(product: Sequence[Sample], competitor: Sequence[Sample], figure: str) -> list[float]:
    pairs = zip(product, competitor, strict=True)
    return [getattr(left, figure) / getattr(right, figure) for left, right in pairs]


def table(found: dict[str, Any], options: argparse.Namespace) -> Table:
    """Return the summary as a table: medians, the spread of the CPU figure, and the ratio of the sidecar's CPU."""
    rounds = f"{options.rounds} rounds of {options.seconds:g} s, {options.connections} connections"
    figures_are = "medians, and the spread of the CPU; ratio: the sidecar's CPU over the other's"
    shown = Table(
        title="Cost of one request",
        caption=f"{found['processor']}; {rounds}; {figures_are}",
    )
    for heading in ("body", "proxy", "CPU µs", "spread", "req/s", "p50 ms", "p99 ms", "CPU ratio"):
        shown.add_column(heading, justify="left" if heading in ("body", "proxy") else "right", no_wrap=True)
    for size in options.sizes:
        for name, by_size in found["results"].items():
            figures = by_size[size]
            cpu = figures["cpu_us"]
            ratio = "" if name == PRODUCT else f"{found['ratios'][name][size]['cpu_us']:.2f}"
            shown.add_row(
                *(size, name, f"{cpu['median']:.1f}", f"{cpu['least']:.0f}-{cpu['most']:.0f}"),
                *(
                    f"{figures[figure]['median']:.{digits}f}"
                    for figure, digits in zip(FIGURES[1:], (0, 2, 2), strict=True)
                ),
                ratio,
                end_section=name == list(found["results"])[-1],
            )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 when a limit is not kept or the sidecar failed requests."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_plane", description=__doc__)
    parser.add_argument("--against", help=f"competitors (default {','.join(COMPETITORS)}; of a mesh: envoy)")
    parser.add_argument("--sizes", default="0,20k,1m", help="response bodies in bytes (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each figure (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a sample (default %(default)s)")
    parser.add_argument("--connections", type=int, default=16, help="keep-alive connections (default %(default)s)")
    parser.add_argument("--mesh", action="store_true", help="retries and access log on, where the proxy has them")
    parser.add_argument("--json", action="store_true", help="print a last line with all figures as one JSON object")
    options = parser.parse_args(arguments)
    options.sizes = options.sizes.split(",")
    against = options.against.split(",") if options.against else MESH_COMPETITORS if options.mesh else COMPETITORS
    names = [PRODUCT, *against]
    unknown = sorted(set(names) - PROXIES.keys())
    if unknown:
        parser.error(f"--against: unknown {', '.join(unknown)}; known are {', '.join(PROXIES)}")
    for size in options.sizes:
        parse_size(size)
    _check_machine()
    skipped = {name: reason for name in names if (reason := missing(name)) is not None}
    names = [name for name in names if name not in skipped]
    taken, memory = asyncio.run(run(names, options, Console(stderr=True)))
    samples, failed = sound(taken)
    skipped |= failed
    for reason in skipped.values():
        print(f"left out: {reason}", file=sys.stderr)
    found = summary(samples, memory) | {"skipped": skipped}
    made = claims(samples, mesh=options.mesh)
    Console().print(table(found, options))
    if options.json:
        print(last_line(found, made))
    return 0 if all(claim.kept for claim in made) else 1


def sound(samples: Samples) -> tuple[Samples, dict[str, str]]:
    """Return the samples without those of competitors that failed requests, and why those are left out.

    Raises:
        SystemExit: The sidecar failed requests.
    """
    errors = {
        name: sum(sample.errors for taken in by_size.values() for sample in taken) for name, by_size in samples.items()
    }
    said = {
        name: f"{name}: {count} requests failed, so its figures mean nothing" for name, count in errors.items() if count
    }
    if PRODUCT in said:
        raise SystemExit(said[PRODUCT])
    return {name: by_size for name, by_size in samples.items() if name not in said}, said


def _check_machine() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        give_up("this needs two cores: one for the proxy, one for the load and the upstream")
    require("wrk", "the package wrk")
    require("nginx", "the package nginx")


if __name__ == "__main__":
    sys.exit(main())
