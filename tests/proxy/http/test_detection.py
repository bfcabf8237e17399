"""Outlier detection as it is seen from outside: what clients and hosts do, and who is ejected for it."""

import asyncio

import pytest

from outlier import OutlierDetection
from proxy.config.cluster_config import CircuitBreakers, LbPolicy, LoadBalancerConfig
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, until

SPLIT = {"split_external_local_origin_errors": True}


def detection(**fields) -> OutlierDetection:
    return OutlierDetection(**{"max_ejection_percent": 100, **fields})


def ejections(sidecar: Sidecar) -> list[str]:
    """Return the type of each ejection so far."""
    return [event.type.name for event in sidecar.events if event.action.name == "EJECT" and event.enforced]


async def time_out(sidecar: Sidecar, clock: ManualClock, upstream: FaultyUpstream, *, at_once: int) -> None:
    """Let so many requests that run side by side end by the route's timeout."""
    clients = [await sidecar.client() for _ in range(at_once)]
    seen = upstream.request_count
    for client in clients:
        client.send(GET)
    await arrived(upstream, seen + at_once)
    clock.advance(101)
    for client in clients:
        assert (await client.response()).status == 504


class TestHungHosts:
    """CASES SEM-07: split mode hides hosts that accept and never answer, unless requests overlap."""

    @pytest.mark.parametrize(
        ("fields", "rounds", "at_once", "ejected"),
        [
            ({}, 4, 1, []),
            ({}, 5, 1, ["CONSECUTIVE_5XX"]),
            (SPLIT, 12, 1, []),
            (SPLIT, 1, 4, []),
            (SPLIT, 1, 5, ["CONSECUTIVE_LOCAL_ORIGIN_FAILURE"]),
        ],
        ids=["4 in turn", "5 in turn", "split, in turn", "split, 4 at once", "split, 5 at once"],
    )
    async def test_ejected(self, fields, rounds, at_once, ejected):
        clock = ManualClock()
        async with (
            FaultyUpstream(fault="hang") as upstream,
            Sidecar(upstream, clock=clock, route={"timeout_ms": 100}, outlier_detection=detection(**fields)) as sidecar,
        ):
            for _ in range(rounds):
                await time_out(sidecar, clock, upstream, at_once=at_once)

            assert ejections(sidecar) == ejected


class TestRefusedConnections:
    """CASES SEM-08: they count as gateway errors by default, and as local origin in split mode."""

    @pytest.mark.parametrize(
        ("fields", "type_"),
        [
            ({}, "CONSECUTIVE_GATEWAY_FAILURE"),
            (SPLIT, "CONSECUTIVE_LOCAL_ORIGIN_FAILURE"),
        ],
        ids=["default", "split"],
    )
    async def test_ejected_by(self, fields, type_):
        async with FaultyUpstream() as upstream:
            address = upstream.address
        settings = detection(enforcing_consecutive_5xx=0, enforcing_consecutive_gateway_failure=100, **fields)
        async with Sidecar(address, outlier_detection=settings) as sidecar:
            client = await sidecar.client()
            for _ in range(4):
                await client.get()
            assert ejections(sidecar) == []
            assert (await client.get()).body.endswith(b"remote connection failure")

            assert ejections(sidecar) == [type_]
            assert (await client.get()).body == b"no healthy upstream"


async def test_own_limits_eject_nobody():
    """CASES SEM-09: a request limit of 1 and 20 parallel requests."""
    limits = CircuitBreakers(max_requests=1)
    async with (
        FaultyUpstream(fault="hang") as upstream,
        Sidecar(upstream, circuit_breakers=limits, outlier_detection=detection(consecutive_5xx=1)) as sidecar,
    ):
        (await sidecar.client()).send(GET)
        await arrived(upstream)
        clients = [await sidecar.client() for _ in range(19)]
        for client in clients:
            client.send(GET)
        responses = [await client.response() for client in clients]

        assert {response.status for response in responses} == {503}
        assert ejections(sidecar) == []
        assert sidecar.cluster.hosts[0].monitor.external.total == 0


async def test_a_503_of_our_own_for_want_of_hosts_ejects_nobody():
    async with (
        FaultyUpstream(status=500) as upstream,
        Sidecar(upstream, outlier_detection=detection(consecutive_5xx=1)) as sidecar,
    ):
        client = await sidecar.client()
        await client.get()
        for _ in range(5):
            assert (await client.get()).body == b"no healthy upstream"

        assert sidecar.cluster.hosts[0].monitor.external.total == 1
        assert sidecar.stat("outlier_detection.ejections_enforced_total") == 1


@pytest.mark.parametrize(("closed", "ejected"), [(4, []), (5, ["CONSECUTIVE_5XX"])])
async def test_websockets_that_the_host_closes_eject_it(closed, ejected):
    """CASES SEM-13: as Envoy does, close frame or not."""
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    close = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(switch)
        await close.wait()
        writer.write(b"\x88\x02\x03\xe8")
        writer.close()

    async with RawUpstream(serve) as upstream, Sidecar(upstream.address, outlier_detection=detection()) as sidecar:
        clients = [await sidecar.client() for _ in range(closed)]
        for client in clients:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert (await client.response()).status == 101
        close.set()
        await until(lambda: len(sidecar.log) == closed)

        assert ejections(sidecar) == ejected


async def test_success_between_failures_starts_the_count_anew():
    async with (
        FaultyUpstream() as upstream,
        Sidecar(upstream, outlier_detection=detection(consecutive_5xx=3)) as sidecar,
    ):
        client = await sidecar.client()
        for statuses in ((500, 500, 200), (500, 500, 404), (500, 500)):
            for status in statuses:
                upstream.set(status=status)
                await client.get()

        assert ejections(sidecar) == []


async def test_panic_sends_to_ejected_hosts_and_their_results_count():
    """CASES SEM-03, SEM-04: with a panic threshold an ejected host still gets traffic."""
    balancer = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, healthy_panic_threshold=50)
    async with (
        FaultyUpstream(status=500) as upstream,
        Sidecar(upstream, load_balancer=balancer, outlier_detection=detection(consecutive_5xx=1)) as sidecar,
    ):
        client = await sidecar.client()
        for _ in range(4):
            assert (await client.get()).status == 500

        assert upstream.request_count == 4
        assert ejections(sidecar) == ["CONSECUTIVE_5XX"]
        assert sidecar.cluster.hosts[0].monitor.external.total == 4
        assert sidecar.stat("lb_healthy_panic") == 3
