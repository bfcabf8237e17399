"""Coroutines, the fixtures, and time that the test moves. With or without pytest-asyncio or anyio's plugin."""

RULE = """
host: reviews
trafficPolicy:
  loadBalancer: {simple: ROUND_ROBIN}
  outlierDetection: {consecutive5xxErrors: 5, interval: 10s, baseEjectionTime: 30s, maxEjectionPercent: 50}
"""


async def test_a_failing_pod_is_out_for_thirty_seconds(sidecar, faulty_upstream):
    good, bad = await faulty_upstream(), await faulty_upstream(status=503)
    proxy = await sidecar(destination_rule=RULE, endpoints=[good, bad])

    for _ in range(10):
        await proxy.get("/")
    assert proxy.ejected() == [bad]

    proxy.advance(seconds=29)
    assert proxy.ejected() == [bad]

    bad.set(status=200)
    proxy.advance(seconds=1)
    assert proxy.ejected() == []


async def test_clients_see_no_error_once_the_pod_is_out(sidecar, faulty_upstream):
    good, bad = await faulty_upstream(), await faulty_upstream(fault="reset")
    proxy = await sidecar(destination_rule=RULE, endpoints=[good, bad])

    while not proxy.ejected():
        await proxy.get("/")

    assert [(await proxy.get("/")).status for _ in range(20)] == [200] * 20
