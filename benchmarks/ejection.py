"""How long a test of a 30 s ejection takes: `python -m benchmarks.ejection`.

The kit of `proxy.testing` with real sockets: two upstreams and a sidecar are started, one host is ejected, 30 s of the
detector's time pass, the host is back, all is closed. Wall clock; then the same while every core is kept busy.
"""

import argparse
import asyncio
import contextlib
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.claims import Claim, last_line
from benchmarks.processes import processor_name
from proxy.testing import FaultyUpstream, Sidecar

RULE = {"consecutive5xxErrors": 5, "baseEjectionTime": "30s", "maxEjectionPercent": 50}
LIMIT_S = 0.3


async def ejection() -> None:
    """Let a host be ejected for 30 s."""
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=503) as bad,
        Sidecar(outlier_detection=RULE, endpoints=[good, bad]) as sidecar,
    ):
        while not sidecar.ejected():
            await sidecar.get("/")
        sidecar.advance(ms=29_999)
        sidecar.assert_ejected(bad)
        sidecar.advance(ms=1)
        sidecar.assert_ejected()


def seconds(times: int) -> list[float]:
    """Return how long each of so many tests took; a first one, which imports, is not among them."""
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        asyncio.run(ejection())
        taken.append(time.perf_counter() - start)
    return taken[1:]


def spin() -> None:
    """Keep a core busy until the process is ended."""
    while True:
        pass


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy meanwhile."""
    spinners = [multiprocessing.Process(target=spin, daemon=True) for _ in os.sched_getaffinity(0)]
    for spinner in spinners:
        spinner.start()
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.terminate()
            spinner.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when a test takes longer than its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ejection", description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="tests of each kind (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a last line with all figures as one JSON object")
    options = parser.parse_args(arguments)
    logging.disable()  # each ejection is worth a warning, elsewhere
    idle = seconds(options.times)
    with busy_cores():
        busy = seconds(options.times)
    made = [
        Claim.of_rounds("a test of a 30 s ejection on real sockets", idle, "s", limit=LIMIT_S),
        Claim.of_rounds("the same while all cores are busy", busy, "s", limit=LIMIT_S),
    ]
    print(processor_name())
    for claim in made:
        print(f"{claim.name:<44} {claim.value:.3f} s ({claim.least:.3f}-{claim.most:.3f}), limit {claim.limit:g} s")
    if options.json:
        print(last_line({"idle_s": idle, "busy_s": busy}, made))
    return 0 if all(claim.kept for claim in made) else 1


if __name__ == "__main__":
    sys.exit(main())
