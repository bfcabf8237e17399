"""Claim: outlier detection costs a proxy almost nothing.

`python -m benchmarks.engine [--json]` measures what a report, a sweep and a host cost, and sets the times beside a
bare Python function call, since machines differ. Each figure is the best of several rounds: the others measure the
machine's neighbours.
"""

import argparse
import gc
import platform
import sys
import time
import timeit
import tracemalloc
from collections.abc import Callable

from benchmarks.claims import Claim, last_line
from outlier import Detector, OutlierDetection, Result, SeededRandom, SimulatedTime
from outlier.reporting import report_connected, report_response

HOSTS = 10_000
ROUNDS = 7
TIMER = time.thread_time  # of the processor: waiting while the machine's neighbours run does not count


def detector(config: OutlierDetection | None = None) -> Detector:
    """A detector without hosts."""
    config = config or OutlierDetection(max_ejection_percent=100, interval_ms=1000)
    return Detector(config, cluster_name="bench", time_source=SimulatedTime(), random=SeededRandom(1))


def rounds_us(call: Callable[[], object], number: int = 200_000) -> list[float]:
    """Microseconds that `call` spends below its own frame: the loop and the lambda around it are taken off."""
    empty = min(timeit.repeat(_nothing, timer=TIMER, number=number, repeat=ROUNDS))
    taken = timeit.repeat(call, timer=TIMER, number=number, repeat=ROUNDS)
    return [max(seconds - empty, 0.0) / number * 1e6 for seconds in taken]


def _nothing() -> None:
    return None


def bare_call_us() -> float:
    """A Python function of one argument, called and returned from."""

    def bare(_value: int) -> None:
        return None

    return min(rounds_us(lambda: bare(200)))


def reports() -> list[Claim]:
    """What one report to a host's monitor costs."""
    monitor = detector().add_host("10.0.0.1:80")
    split = detector(OutlierDetection(split_external_local_origin_errors=True)).add_host("10.0.0.1:80")
    success, connected = Result.EXT_ORIGIN_REQUEST_SUCCESS, Result.LOCAL_ORIGIN_CONNECT_SUCCESS
    off = OutlierDetection(consecutive_5xx=0, consecutive_gateway_failure=0)
    failing = detector(off).add_host("10.0.0.2:80")

    def attempt() -> None:
        report_connected(monitor)
        report_response(monitor, 200)

    calls: dict[str, tuple[Callable[[], object], float | None]] = {
        "put_http_response_code, success": (lambda: monitor.put_http_response_code(200), 0.4),
        "put_result, success": (lambda: monitor.put_result(success, 200), 0.4),
        "put_result, success, split": (lambda: split.put_result(success, 200), None),
        "put_result, connected, split": (lambda: split.put_result(connected), None),
        "put_http_response_code, 503": (lambda: failing.put_http_response_code(503), None),
        "a whole attempt: connected, 200": (attempt, None),
    }
    return [Claim.best_of(name, rounds_us(call), "us", limit=limit) for name, (call, limit) in calls.items()]


def sweep(*, split: bool) -> Claim:
    """One sweep over many hosts that all had traffic, success rate on."""
    subject = detector(
        OutlierDetection(max_ejection_percent=100, split_external_local_origin_errors=split, enforcing_success_rate=0)
    )
    hosts = [subject.add_host(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}:80") for i in range(HOSTS)]
    rounds = []
    gc.collect()
    for _ in range(ROUNDS):
        for i, host in enumerate(hosts):
            for results in (host.external, host.local):
                results.total = 200
                results.success = 200 - i % 3
        rounds.append(timeit.timeit(subject.on_interval_timer, timer=TIMER, number=1) * 1000)
    origins = "both origins" if split else "success rate on"
    return Claim.best_of(f"sweep over {HOSTS:,} hosts, {origins}", rounds, "ms", limit=None if split else 15.0)


def memory() -> Claim:
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
    return Claim(name="memory per host monitor", value=(after - before) / HOSTS, unit="B", limit=1000.0)


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
        found = {"bare_call_us": round(bare, 4), "figures": values, "ratio_to_bare_call": ratios}
        print(last_line(found, [figure for figure in figures if figure.limit is not None]))
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
