"""Vectors of circuit breakers: bursts of requests against limits, as recorded from Envoy 1.40.

Each row runs through a data plane of its own over real sockets. The recorded backend took 0.4 s for each request;
here it answers when it is told to, in rounds, and a recorded time says which round answered a request.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from proxy.config.cluster_config import CircuitBreakers
from proxy.config.route_config import RetryPolicy
from proxy.testing import FaultyUpstream
from tests.conformance.runner import Case, Mismatch
from tests.proxy.http.client import Response
from tests.proxy.http.sidecar import CLUSTER, ManualClock, Sidecar, until

Row = Mapping[str, Any]

_GET = b"GET / HTTP/1.1\r\nhost: service\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_ROUND_MS = 388  # what a request took in the recording, all told
_BACKOFF_MS = 400


class HoldingBackend(asyncio.Protocol):
    """One connection of a backend that keeps every request until the round is over."""

    def __init__(self, held: list[asyncio.Transport]) -> None:
        self._held = held

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._held += [self._transport] * data.count(b"\r\n\r\n")


@asynccontextmanager
async def _backend() -> AsyncIterator[tuple[str, list[asyncio.Transport]]]:
    held: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: HoldingBackend(held), "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", held
    finally:
        server.close()


def _limits(text: str) -> CircuitBreakers:
    """Read `max_connections 1, max_pending_requests 1`."""
    limits = {name: int(value) for name, value in (part.split() for part in text.split(", "))}
    return CircuitBreakers(**limits)


async def _burst(row: Row) -> None:
    """Send the requests one after the other, then let the backend answer in rounds."""
    async with _backend() as (address, held), Sidecar(address, circuit_breakers=_limits(row["config"])) as sidecar:
        stats = sidecar.cluster.stats

        def settled(requests: int) -> bool:
            """Whether each is with the backend, waits for a connection that is busy, or has been answered."""
            connected = stats.connect_time_ms.count == stats.upstream_cx_total
            return connected and len(held) + stats.upstream_rq_pending_active + len(sidecar.log) == requests

        answers: list[asyncio.Future[Response]] = []
        for number in range(len(row["requests"])):
            client = await sidecar.client()
            answers.append(asyncio.ensure_future(client.request(_GET)))
            await until(partial(settled, number + 1))
        rounds: dict[int, int] = {}
        for round_number in range(len(answers) + 1):
            await until(lambda: sum(answer.done() for answer in answers) == len(sidecar.log))
            for number, answer in enumerate(answers):
                if answer.done():
                    rounds.setdefault(number, round_number)
            answered, held[:] = tuple(held), ()
            for transport in answered:
                transport.write(_ANSWER)
            expected = len(sidecar.log) + len(answered)
            await until(lambda expected=expected: len(sidecar.log) == expected and settled(len(answers)))
        responses = [await answer for answer in answers]
        _check(row, sidecar, responses)
        expected_rounds = [round(request["ms"] / _ROUND_MS) for request in row["requests"]]
        _expect(expected_rounds, [rounds[number] for number in range(len(answers))], "rounds")


async def _retries(row: Row) -> None:
    """The first request waits to be sent again while the others come; then time passes until it gives up."""
    clock = ManualClock()
    policy = RetryPolicy(num_retries=5, retry_on="5xx", base_interval_ms=_BACKOFF_MS)
    route = {"retry": policy}
    limits = _limits(row["config"])
    async with (
        FaultyUpstream(status=503) as upstream,
        Sidecar(upstream, clock=clock, route=route, circuit_breakers=limits) as sidecar,
    ):
        answers: list[asyncio.Future[Response]] = []
        stats = sidecar.cluster.stats
        for number in range(len(row["requests"])):
            client = await sidecar.client()
            answers.append(asyncio.ensure_future(client.request(_GET)))
            await until(lambda number=number: stats.upstream_rq_retry + stats.upstream_rq_retry_overflow == number + 1)
        await asyncio.gather(*answers[1:])
        waits = [not answer.done() for answer in answers]
        _expect([request["ms"] > _ROUND_MS for request in row["requests"]], waits, "which requests wait")
        while not answers[0].done():
            clock.advance(1)
            await asyncio.sleep(0)
        _check(row, sidecar, [await answer for answer in answers])


def _check(row: Row, sidecar: Sidecar, responses: list[Response]) -> None:
    for request, response in zip(row["requests"], responses, strict=True):
        _expect(request["status"], f"{response.status} {response.reason}", "status")
        overloaded = response.header("x-envoy-overloaded") == "true"
        _expect(request["x_envoy_overloaded"], overloaded, "x-envoy-overloaded")
    logged = [
        {
            "code": line["response_code"],
            "flags": line["response_flags"],
            "details": line["response_code_details"],
            "attempts": line["attempt"],
        }
        for line in sidecar.log
    ]
    _expect(row["access_log"], logged, "access log")
    for text in row["stats"]:
        name, _, value = text.partition(": ")
        name = name.removeprefix(f"cluster.{row['id']}.")
        _expect(int(value), sidecar.stat(name), f"cluster.{CLUSTER}.{name}")


def _expect(expected: object, actual: object, where: str) -> None:
    if expected != actual:
        raise Mismatch(expected, actual, where)


def _run(row: Row) -> None:
    asyncio.run((_retries if "max_retries" in row["config"] else _burst)(row))


def _cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["rows"]:
        yield Case(row["id"], partial(_run, row))


FILES = {"circuit-breakers": _cases}
