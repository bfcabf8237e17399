"""A test of a 30 s ejection on real sockets passes every time, on a busy machine too; benchmarks time it."""

import asyncio
import multiprocessing

import pytest

from proxy.testing import FaultyUpstream, Sidecar

RULE = {
    "host": "reviews",
    "trafficPolicy": {
        "outlierDetection": {"consecutive5xxErrors": 5, "baseEjectionTime": "30s", "maxEjectionPercent": 50}
    },
}
REPEATS = 500


def spin() -> None:
    while True:
        pass


@pytest.fixture(params=[0, 2], ids=["idle", "both cores busy"])
def load(request):
    spinners = [multiprocessing.Process(target=spin, daemon=True) for _ in range(request.param)]
    for spinner in spinners:
        spinner.start()
    yield
    for spinner in spinners:
        spinner.terminate()
        spinner.join()


async def ejection_of_thirty_seconds() -> None:
    async with (
        FaultyUpstream() as good,
        FaultyUpstream(status=503) as bad,
        Sidecar(destination_rule=RULE, endpoints=[good, bad]) as sidecar,
    ):
        while not sidecar.ejected():
            await sidecar.get("/")
        sidecar.assert_ejected(bad)
        sidecar.advance(ms=29_999)
        sidecar.assert_ejected(bad)
        sidecar.advance(ms=1)
        sidecar.assert_ejected()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_thirty_second_ejection_passes_five_hundred_times(load):
    for _ in range(REPEATS):
        asyncio.run(ejection_of_thirty_seconds())
