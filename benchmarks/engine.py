"""Claim: outlier detection costs a proxy almost nothing.

`python -m benchmarks.engine [--json]` measures what a report, a sweep and a host cost, and sets the times beside a
bare Python function call, since machines differ. Each figure is the best of several rounds: the others measure the
machine's neighbours.
"""

import argparse
import gc
import json
import platform
import sys
import timeit
import tracemalloc
from collections.abc import Callable

import attrs

from outlier import Detector, OutlierDetection, Result, SeededRandom, SimulatedTime
from outlier.reporting import report_connected, report_response

HOSTS = 10_000
ROUNDS = 7


@attrs.frozen
class Figure:
    """One measured value, and what it must not exceed."""

    name: str
    value: float
    unit: str
    limit: float | None


def detector(config: OutlierDetection | None = None) -> Detector:
    """A detector without hosts."""
    config = config or OutlierDetection(max_ejection_percent=100, interval_ms=1000)
    return Detector(config, cluster_name="bench", time_source=SimulatedTime(), random=SeededRandom(1))


def best_us(call: Callable[[], object], number: int = 200_000) -> float:
    """Microseconds that `call` spends below its own frame: the loop and the lambda around it are taken off."""
    empty = min(timeit.repeat(_nothing, number=number, repeat=ROUNDS))
    return max(min(timeit.repeat(call, number=number, repeat=ROUNDS)) - empty, 0.0) / number * 1e6


def _nothing() -> None:
    return None


def bare_call_us() -> float:
    """A Python function of one argument, called and returned from."""

    def bare(_value: int) -> None:
        return None

    return best_us(lambda: bare(200))


def reports() -> list[Figure]:
    """What one report to a host's monitor costs."""
    monitor = detector().add_host("10.0.0.1:80")
    split = detector(OutlierDetection(split_external_local_origin_errors=True)).add_host("10.0.0.1:80")
    success, connected = Result.EXT_ORIGIN_REQUEST_SUCCESS, Result.LOCAL_ORIGIN_CONNECT_SUCCESS
    off = OutlierDetection(consecutive_5xx=0, consecutive_gateway_failure=0)
    failing = detector(off).add_host("10.0.0.2:80")

    def attempt() -> None:
        report_connected(monitor)
        report_response(monitor, 200)

    return [
        Figure("put_http_response_code, success", best_us(lambda: monitor.put_http_response_code(200)), "us", 0.4),
        Figure("put_result, success", best_us(lambda: monitor.put_result(success, 200)), "us", 0.4),
        Figure("put_result, success, split", best_us(lambda: split.put_result(success, 200)), "us", None),
        Figure("put_result, connected, split", best_us(lambda: split.put_result(connected)), "us", None),
        Figure("put_http_response_code, 503", best_us(lambda: failing.put_http_response_code(503)), "us", None),
        Figure("a whole attempt: connected, 200", best_us(attempt), "us", None),
    ]


def sweep(*, split: bool) -> Figure:
    """One sweep over many hosts that all had traffic, success rate on."""
    subject = detector(
        OutlierDetection(max_ejection_percent=100, split_external_local_origin_errors=split, enforcing_success_rate=0)
    )
    hosts = [subject.add_host(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}:80") for i in range(HOSTS)]
    best = float("inf")
    gc.collect()
    for _ in range(ROUNDS):
        for i, host in enumerate(hosts):
            for results in (host.external, host.local):
                results.total = 200
                results.success = 200 - i % 3
        best = min(best, timeit.timeit(subject.on_interval_timer, number=1))
    origins = "both origins" if split else "success rate on"
    return Figure(f"sweep over {HOSTS} hosts, {origins}", best * 1000, "ms", None if split else 15.0)


def memory() -> Figure:
    """Bytes that one more host takes."""
    subject = detector()
    addresses = [f"10.0.{i >> 8}.{i & 255}:80" for i in range(HOSTS)]
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for address in addresses:
        subject.add_host(address)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Figure("memory per host monitor", (after - before) / HOSTS, "B", 1000.0)


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, and return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args(argv)
    bare = bare_call_us()
    figures = [*reports(), sweep(split=False), sweep(split=True), memory()]
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}; bare call {bare:.3f} us"
    )
    for figure in figures:
        ratio = f"{figure.value / bare:6.1f} x bare call" if figure.unit == "us" else ""
        limit = f"limit {figure.limit:g} {figure.unit}" if figure.limit is not None else ""
        print(f"{figure.name:<44} {figure.value:9.3f} {figure.unit:<3} {ratio:<20} {limit}")
    if options.json:
        values = {figure.name: {"value": round(figure.value, 4), "unit": figure.unit} for figure in figures}
        ratios = {figure.name: round(figure.value / bare, 2) for figure in figures if figure.unit == "us"}
        print(json.dumps({"bare_call_us": round(bare, 4), "figures": values, "ratio_to_bare_call": ratios}))
    return 1 if any(figure.limit is not None and figure.value > figure.limit for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
