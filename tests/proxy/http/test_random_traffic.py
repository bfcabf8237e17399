"""Random traffic from a seed: every response belongs to its request, and nothing is left when it is over."""

import asyncio
import random
from collections.abc import Callable, Iterator

import attrs
import pytest

from proxy.config.route_config import RetryPolicy
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.client import Client, Response
from tests.proxy.http.sidecar import WAIT_S, Sidecar, until, virtual_host

CLIENTS = 12
REQUESTS_EACH = 25

REPLIES = {
    "/echo": Reply(echo=True),
    "/chunks": Reply(echo=True, framing="chunked", piece_bytes=10_000, trailers={"x-sum": "1"}),
    "/close": Reply(echo=True, framing="close"),
    "/slow": Reply(echo=True, head_delay_ms=2),
    "/500": Reply(status=500, echo=True),
    "/fin": Reply(fault="close"),
    "/rst": Reply(fault="reset"),
    "/garbage": Reply(garbage=b"\x00nonsense\r\n\r\n", end="hang"),
    "/hints": Reply(echo=True, informational=(103,)),
    "/cut": Reply(body=b"abc", truncate_at=1),
}
ECHOING = {"/echo": 200, "/chunks": 200, "/close": 200, "/slow": 200, "/500": 500, "/hints": 200}
LOCAL = {"/fin": 503, "/rst": 503, "/garbage": 502}


@attrs.frozen
class Request:
    """One request, its bytes, and what its response must be."""

    number: str
    path: str
    method: str
    data: bytes
    body: bytes

    def check(self, response: Response) -> None:
        if self.path == "/nobody":
            assert response.status == 404
            return
        if self.path in LOCAL:
            assert response.status == LOCAL[self.path], (self.path, response)
            return
        assert response.status == ECHOING.get(self.path, 200)
        if self.path == "/cut":
            assert self.method == "HEAD" or (response.body, response.complete) == (b"a", False)
        elif self.method != "HEAD":
            assert f"?{self.number} HTTP/1.1\r\n".encode() in response.body
            assert response.body.endswith(b"\r\n\r\n" + self.body)
            assert response.complete


def make_request(rng: random.Random, number: str) -> Request:
    path = rng.choice([*REPLIES, "/echo", "/echo", "/chunks", "/slow", "/nobody"])
    host = "nobody" if path == "/nobody" else "service"
    kind = rng.choice(["get", "get", "head", "length", "chunked"])
    method = {"get": "GET", "head": "HEAD"}.get(kind, "POST")
    head = f"{method} {path}?{number} HTTP/1.1\r\nHost: {host}\r\n"
    body = rng.randbytes(rng.choice([0, 1, 100, 5_000, 300_000])) if kind in {"length", "chunked"} else b""
    if kind == "length":
        data = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    elif kind == "chunked":
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces(rng, body, 50_000))
        data = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"
    else:
        data = f"{head}\r\n".encode()
    return Request(number, path, method, data, body)


def pieces(rng: random.Random, data: bytes, largest: int) -> Iterator[bytes]:
    while data:
        size = rng.choice([1, 2, 7, 100, largest])
        yield data[:size]
        data = data[size:]


async def run_client(sidecar: Sidecar, rng: random.Random, name: str) -> None:
    """Send some requests, many at once or one by one; go on anew where a connection has ended; leave at times."""
    requests = [make_request(rng, f"{name}.{number}") for number in range(REQUESTS_EACH)]
    while requests:
        count = rng.choice([1, 1, 3, 10])
        batch, requests = requests[:count], requests[count:]
        client = await sidecar.client()
        if rng.random() < 0.15:
            await send(client, rng, batch[0].data[: rng.randrange(len(batch[0].data))])
            client.abort()
            continue
        sending = asyncio.ensure_future(send(client, rng, b"".join(request.data for request in batch)))
        for request in batch:
            request.check(response := await client.response(request.method))
            if response.header("connection") == "close" or not response.complete:
                break  # what was behind it is lost, as a client must expect
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        client.abort()


async def send(client: Client, rng: random.Random, data: bytes) -> None:
    for piece in pieces(rng, data, 65_536):
        client.send(piece)
        if rng.random() < 0.02:
            await client.writer.drain()


async def run_traffic(seed: int, reload: Callable[[Sidecar], None] | None = None, **route) -> None:
    rng = random.Random(seed)
    async with FaultyUpstream() as a, FaultyUpstream() as b, Sidecar(a, b, route=route) as sidecar:
        sidecar.set_routes(virtual_host("service", **route))
        for upstream in (a, b):
            for path, reply in REPLIES.items():
                upstream.set(reply, path=path)
        async with asyncio.timeout(4 * WAIT_S):
            runs = [run_client(sidecar, random.Random(rng.random()), str(number)) for number in range(CLIENTS)]
            traffic = asyncio.gather(*runs)
            while reload is not None and not traffic.done():
                reload(sidecar)
                await asyncio.sleep(0)
            await traffic
        await until(lambda: sidecar.listener.connections == 0)

        assert sidecar.stat("upstream_rq_active") == sidecar.stat("upstream_rq_pending_active") == 0
        assert sidecar.cluster.resources.requests == sidecar.cluster.resources.pending_requests == 0
        assert [(host.rq_active, host.rq_pending_active) for host in sidecar.cluster.hosts] == [(0, 0)] * 2
        assert len(sidecar.deadlines) <= len(sidecar.cluster.hosts)  # the sweeps of idle connections
        sidecar.apply()
        await until(lambda: a.open_connections == b.open_connections == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_every_response_belongs_to_its_request(seed):
    await run_traffic(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_with_a_route_timeout_and_retries(seed):
    """Retries repeat the failure, so the responses are the same."""
    policy = RetryPolicy(num_retries=1, retry_on="5xx,reset", base_interval_ms=1, per_try_timeout_ms=30_000)
    await run_traffic(100 + seed, timeout_ms=60_000, retry=policy)


@pytest.mark.slow
async def test_with_a_configuration_that_keeps_changing():
    rng = random.Random(7)

    def reload(sidecar: Sidecar) -> None:
        config = sidecar.cluster.config
        endpoints = list(config.endpoints)
        rng.shuffle(endpoints)
        sidecar.apply(
            attrs.evolve(config, endpoints=tuple(endpoints), connect_timeout_ms=rng.randrange(30_000, 60_000))
        )

    await run_traffic(200, reload)
