"""Limits of a cluster: which request is refused, which waits, and what is counted.

Expected values: recorded from Envoy 1.40 with four requests one after the other against a slow backend (vectors
`circuit-breakers.yaml`; the ids are theirs).
"""

import pytest

from proxy.config.cluster_config import CircuitBreakers
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import GatedUpstream
from tests.proxy.http.sidecar import GET, Sidecar, arrived, cluster_config, until

OVERFLOW = b"upstream connect error or disconnect/reset before headers. reset reason: overflow"

CASES = {
    "cbconn0": (
        {"max_connections": 0},
        [200] * 4,
        {"cx_overflow": 6, "cx_total": 1, "rq_completed": 4, "rq_pending_total": 4, "rq_total": 4},
    ),
    "cbconn1": (
        {"max_connections": 1},
        [200] * 4,
        {"cx_overflow": 5, "cx_total": 1, "rq_completed": 4, "rq_pending_total": 4, "rq_total": 4},
    ),
    "cbconn1pend1": (
        {"max_connections": 1, "max_pending_requests": 1},
        [200, 200, 503, 503],
        {
            "cx_overflow": 1,
            "cx_total": 1,
            "rq_503": 2,
            "rq_completed": 4,
            "rq_pending_overflow": 2,
            "rq_pending_total": 2,
            "rq_total": 2,
        },
    ),
    "cbpend1": (
        {"max_pending_requests": 1},
        [200] * 4,
        {"cx_total": 4, "rq_completed": 4, "rq_pending_total": 4, "rq_total": 4},
    ),
    "cbreq1": (
        {"max_requests": 1},
        [200, 503, 503, 503],
        {
            "cx_total": 2,
            "rq_503": 3,
            "rq_completed": 4,
            "rq_pending_total": 2,
            "rq_total": 1,
            "rq_active_overflow": 3,
            "rq_pending_overflow": 0,
        },
    ),
}


@pytest.mark.parametrize(("limits", "statuses", "counters"), CASES.values(), ids=CASES)
async def test_four_requests_against_a_slow_upstream(limits, statuses, counters):
    async with (
        GatedUpstream() as upstream,
        Sidecar(upstream.address, circuit_breakers=CircuitBreakers(**limits)) as sidecar,
    ):
        clients = []
        for number in range(4):
            client = await sidecar.client()
            client.send(GET)
            clients.append(client)
            await until(lambda number=number: _decided(sidecar) == number + 1)
        upstream.release()
        responses = [await client.response() for client in clients]

        assert [response.status for response in responses] == statuses
        assert {response.body for response in responses if response.status == 503} <= {OVERFLOW}
        assert {name: sidecar.stat(f"upstream_{name}") for name in counters} == counters


def _decided(sidecar: Sidecar) -> int:
    """Return how many requests are on a connection, wait behind the one connection, or were refused."""
    waiting = sidecar.stat("upstream_rq_pending_active") if sidecar.stat("upstream_rq_active") else 0
    refused = sidecar.stat("upstream_rq_pending_overflow") + sidecar.stat("upstream_rq_active_overflow")
    connecting = sidecar.stat("upstream_cx_total") - sidecar.cluster.hosts[0].cx_active
    return sidecar.stat("upstream_rq_total") + waiting + refused - connecting


@pytest.mark.parametrize(
    ("limits", "gauge"),
    [
        ({"max_connections": 1}, "cx_open"),
        ({"max_requests": 1}, "rq_open"),
    ],
)
async def test_gauge_is_1_while_the_limit_is_reached(limits, gauge):
    async with (
        FaultyUpstream(fault="hang") as upstream,
        Sidecar(upstream, circuit_breakers=CircuitBreakers(**limits)) as sidecar,
    ):
        assert sidecar.stat(f"circuit_breakers.default.{gauge}") == 0
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)

        assert sidecar.stat(f"circuit_breakers.default.{gauge}") == 1
        client.abort()
        await until(lambda: sidecar.stat(f"circuit_breakers.default.{gauge}") == 0)


async def test_each_host_may_have_one_connection_whatever_the_limit():
    """facts: "one connection per host is allowed even at 0"."""
    limits = CircuitBreakers(max_connections=0)
    async with FaultyUpstream() as a, FaultyUpstream() as b, Sidecar(a, b, circuit_breakers=limits) as sidecar:
        client = await sidecar.client()
        for _ in range(4):
            assert (await client.get()).status == 200

        assert (a.connection_count, b.connection_count) == (1, 1)


async def test_limit_is_that_of_the_cluster_not_of_a_host():
    async with (
        FaultyUpstream(fault="hang") as a,
        FaultyUpstream(fault="hang") as b,
        Sidecar(a, b, circuit_breakers=CircuitBreakers(max_requests=1)) as sidecar,
    ):
        (await sidecar.client()).send(GET)
        await until(lambda: a.request_count + b.request_count)

        assert (await (await sidecar.client()).get()).status == 503
        assert sidecar.stat("upstream_rq_active_overflow") == 1


async def test_limits_may_change_while_requests_run():
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        sidecar.apply(cluster_config([upstream], circuit_breakers=CircuitBreakers(max_requests=1)))

        assert (await (await sidecar.client()).get()).status == 503
        client.abort()
        await until(lambda: sidecar.stat("upstream_rq_active") == 0)
