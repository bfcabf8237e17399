"""What memory the sidecar takes: `python -m benchmarks.memory`.

Resident memory of the process, as the kernel has it, with a handful of hosts, with 1,000 and with 10,000; what a
client adds that has been answered once and is idle since; the same for Envoy, where it is installed.
"""

import argparse
import asyncio
import contextlib
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.claims import Claim, last_line
from benchmarks.nginx import Nginx
from benchmarks.processes import processor_name, resident_bytes
from benchmarks.proxies import PROXIES, RULE, missing, release, service
from tests.oracle.service import Service
from tests.oracle.subject import Subject

HOSTS_PER_SERVICE = 100
FEW, MANY = 1_000, 10_000
LIMIT_CLIENT_KB = 10.0
SPARE_DESCRIPTORS = 200
BATCH = 100  # clients that connect at the same time: the others would only wait in the backlog


def services(hosts: int) -> list[Service]:
    """Return services with so many hosts altogether, a hundred each."""
    return [
        Service(
            host=f"shop-{number}.test",
            addresses=[f"10.{number >> 8}.{number & 255}.{host}:80" for host in range(1, HOSTS_PER_SERVICE + 1)],
            outlier_detection=RULE,
        )
        for number in range(hosts // HOSTS_PER_SERVICE)
    ]


async def with_hosts(proxy: Callable[[Sequence[Service]], Subject], hosts: int) -> int:
    """Return the memory of a proxy that has started with so many hosts."""
    async with proxy(services(hosts)) as subject:
        return resident_bytes(subject.pid)


class IdleClient(asyncio.Protocol):
    """A client that asks once; `answered` is done when the answer has come."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.answered = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Ask."""
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Note the answer, which has no body."""
        assert data.startswith(b"HTTP/1.1 200"), data
        if not self.answered.done():
            self.answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so, where an answer is waited for."""
        if not self.answered.done():
            self.answered.set_exception(exc or ConnectionResetError())

    def close(self) -> None:
        """Close."""
        self._transport.abort()


async def idle_clients(subject: Subject, request: bytes, clients: int) -> tuple[int, int]:
    """Return the memory of a proxy before so many clients have come, and when all are idle."""
    loop = asyncio.get_running_loop()
    before = resident_bytes(subject.pid)
    connected: list[IdleClient] = []
    while len(connected) < clients:
        batch = [
            (await loop.create_connection(lambda: IdleClient(request), *subject.listen))[1]
            for _ in range(min(BATCH, clients - len(connected)))
        ]
        await asyncio.gather(*(client.answered for client in batch))
        connected += batch
    after = resident_bytes(subject.pid)
    for client in connected:
        client.close()
    return before, after


async def measure(name: str, clients: int) -> dict[str, float]:
    """Return the figures of one proxy: MB at start and with many hosts, kB of a host and of an idle client."""
    proxy = PROXIES[name]
    few, many = await with_hosts(proxy, FEW), await with_hosts(proxy, MANY)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memory-")))
        target = service([stack.enter_context(Nginx(folder, ["0"])).address])
        request = f"GET /0 HTTP/1.1\r\nhost: {target.host}\r\n\r\n".encode()
        async with proxy([target]) as subject:
            start = resident_bytes(subject.pid)
            await idle_clients(subject, request, 1)  # what the first request takes is not a client's
            before, after = await idle_clients(subject, request, clients)
    return {
        "start_mb": start / 1e6,
        "many_hosts_mb": many / 1e6,
        "host_kb": (many - few) / (MANY - FEW) / 1e3,
        "idle_client_kb": (after - before) / clients / 1e3,
    }


def claims(found: dict[str, dict[str, float]]) -> list[Claim]:
    """Return the sidecar's figures, Envoy's beside them."""
    return [
        Claim(
            name=name,
            value=found["sidecar"][figure],
            unit=unit,
            limit=limit,
            beside=f"Envoy {found['envoy'][figure]:.3g}" if "envoy" in found else None,
        )
        for name, figure, unit, limit in (
            ("memory at start", "start_mb", "MB", None),
            (f"memory with {MANY:,} hosts", "many_hosts_mb", "MB", None),
            ("memory of a host", "host_kb", "kB", None),
            ("memory of an idle client that was answered once", "idle_client_kb", "kB", LIMIT_CLIENT_KB),
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 when an idle client takes more than its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000, help="idle clients (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a last line with all figures as one JSON object")
    options = parser.parse_args(arguments)
    needed = options.clients + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))
    reason = missing("envoy")
    found = {name: uvloop.run(measure(name, options.clients)) for name in ("sidecar", *(() if reason else ("envoy",)))}
    made = claims(found)
    print(processor_name())
    for claim in made:
        limit = f"limit {claim.limit:g} {claim.unit}" if claim.limit is not None else ""
        print(f"{claim.name:<48} {claim.value:8.2f} {claim.unit:<3} {claim.beside or '':<12} {limit}")
    if options.json:
        figures: dict[str, Any] = {
            "figures": found,
            "releases": {} if reason else {"envoy": release("envoy")},
            "skipped": {"envoy": reason} if reason else {},
        }
        print(last_line(figures, made))
    return 0 if all(claim.kept for claim in made) else 1


if __name__ == "__main__":
    sys.exit(main())
