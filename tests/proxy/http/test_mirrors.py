"""Mirrors: copies of a request whose answers nobody hears, and that must not outlive or outgrow the original."""

import asyncio

import pytest

from proxy.config.route_config import Mirror
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, Sidecar, arrived, cluster_config, post, until

SHADOW = "outbound|80||shadow"
MIB = 1 << 20


def mirrored(sidecar: Sidecar, upstream: FaultyUpstream, shadow: FaultyUpstream | str, **fields) -> None:
    """Give the sidecar a second cluster to send copies to."""
    sidecar.apply(cluster_config([upstream]), cluster_config([shadow], name=SHADOW, **fields))


ROUTE = {"mirrors": (Mirror(cluster=SHADOW),)}


async def test_copy_has_the_whole_request_and_its_answer_is_dropped():
    async with (
        FaultyUpstream(body=b"main") as upstream,
        FaultyUpstream(status=500, body=b"shadow") as shadow,
        Sidecar(upstream, route=ROUTE) as sidecar,
    ):
        mirrored(sidecar, upstream, shadow)
        response = await (await sidecar.client()).request(post(b"body"))
        await until(lambda: shadow.requests and shadow.requests[0].complete)

        assert (response.status, response.body) == (200, b"main")
        assert bytes(shadow.requests[0].body) == b"body"
        assert shadow.requests[0].header("host") == "a-shadow"


@pytest.mark.parametrize("fault", ["reset", "close", "hang"])
async def test_shadow_that_fails_is_not_noticed(fault):
    async with (
        FaultyUpstream(body=b"x") as upstream,
        FaultyUpstream(fault=fault) as shadow,
        Sidecar(upstream, route=ROUTE) as sidecar,
    ):
        mirrored(sidecar, upstream, shadow)
        client = await sidecar.client()
        for _ in range(3):
            assert (await client.get()).body == b"x"
        await arrived(shadow, 3)


async def test_shadow_that_refuses_is_not_noticed():
    async with FaultyUpstream() as gone:
        address = gone.address
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, route=ROUTE) as sidecar:
        mirrored(sidecar, upstream, address)
        client = await sidecar.client()
        for _ in range(3):
            assert (await client.get()).body == b"x"


async def test_host_that_is_main_and_shadow_may_refuse_both():
    async with FaultyUpstream() as gone:
        address = gone.address
    async with Sidecar(address, route={"mirrors": (Mirror(cluster="outbound|80||service"),)}) as sidecar:
        client = await sidecar.client()
        for _ in range(3):
            assert (await client.get()).status == 503


async def test_client_that_leaves_inside_its_request_ends_the_copy():
    async with FaultyUpstream() as upstream, FaultyUpstream() as shadow, Sidecar(upstream, route=ROUTE) as sidecar:
        mirrored(sidecar, upstream, shadow)
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        await arrived(upstream)
        await arrived(shadow)
        client.abort()

        await until(lambda: upstream.open_connections == 0)
        await until(lambda: shadow.open_connections == 0)


async def test_response_before_the_end_of_the_request_ends_the_copy():
    async with (
        FaultyUpstream(early=True) as upstream,
        FaultyUpstream() as shadow,
        Sidecar(upstream, route=ROUTE) as sidecar,
    ):
        mirrored(sidecar, upstream, shadow)
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        await client.response("POST")
        client.abort()

        await until(lambda: shadow.open_connections == 0)


async def test_client_that_leaves_after_its_request_does_not_end_the_copy():
    async with (
        FaultyUpstream(fault="hang") as upstream,
        FaultyUpstream(head_delay_ms=20) as shadow,
        Sidecar(upstream, route=ROUTE) as sidecar,
    ):
        mirrored(sidecar, upstream, shadow)
        client = await sidecar.client()
        client.send(GET)
        await arrived(upstream)
        await arrived(shadow)
        client.abort()
        cluster = sidecar.manager.clusters[SHADOW]

        await until(lambda: cluster.stats.responses == {200: 1})


@pytest.mark.slow
async def test_shadow_that_does_not_read_does_not_collect_the_body():
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.Event().wait()

    body = bytes(48 * MIB)
    async with FaultyUpstream() as upstream, RawUpstream(deaf) as shadow, Sidecar(upstream, route=ROUTE) as sidecar:
        mirrored(sidecar, upstream, shadow.address)
        client = await sidecar.client()
        response = await client.request(post(body))

        assert response.status == 200
        assert len(upstream.requests[0].body) == len(body)
        assert sidecar.manager.clusters[SHADOW].stats.upstream_cx_tx_bytes_total < 20 * MIB
