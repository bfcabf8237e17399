"""How long a change of configuration keeps a running sidecar from its requests, by the size of the mesh.

The sidecar takes changes as from a source, debounced; a task that does nothing but give way notes how much CPU time
passes between two of its turns. The garbage collector is off: how long it pauses depends on what it has seen before.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator

import attrs

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.resource import Contents, read_resources
from proxy.event_stream import StreamEvent
from proxy.push.debounce import DebounceSettings
from proxy.server import Server

CHANGES = 20
SERVICE = """\
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}}}
spec:
  hosts: [{name}.default.svc.cluster.local]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: 10.0.0.1}}, {{address: 10.0.0.2}}]
"""
ROUTE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: shop-0}}
spec: {{hosts: [shop-0], http: [{{timeout: {seconds}s, route: [{{destination: {{host: shop-0}}}}]}}]}}
"""
ANYWHERE = Address("127.0.0.1", 0)


@attrs.frozen(kw_only=True)
class Holds:
    """Longest stretches of CPU time between two turns of others, in milliseconds.

    `route_ms` and `service_ms` are those of one changed route and of one new service, of each change, sorted;
    `arrival_ms` and `departure_ms` those of half as many services more, and of their removal.
    """

    services: int
    route_ms: list[float]
    service_ms: list[float]
    arrival_ms: float
    departure_ms: float


def holds(services: int) -> Holds:
    """Measure a sidecar with that many services."""
    with _collector_off():
        return asyncio.run(_holds(services))


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _services(prefix: str, count: int) -> Contents:
    return read_resources("".join(SERVICE.format(name=f"{prefix}-{number}") for number in range(count)), "benchmark")


async def _holds(services: int) -> Holds:
    server = Server(Bootstrap(listen=ANYWHERE, admin=ANYWHERE))
    server.pipeline.update("benchmark", {"mesh": _services("shop", services)})
    await server.start()
    server.pipeline.debounce(DebounceSettings(after_ms=0, max_ms=10, endpoints=True))
    try:
        route = [
            await _change(server, {"route": read_resources(ROUTE.format(seconds=number + 1), "benchmark")})
            for number in range(CHANGES)
        ]
        service = [await _change(server, {f"new-{number}": _services(f"new-{number}", 1)}) for number in range(CHANGES)]
        arrival = await _change(server, {"more": _services("more", services // 2)})
        departure = await _change(server, {"more": Contents()})
    finally:
        await server.close()
    return Holds(
        services=services,
        route_ms=sorted(route),
        service_ms=sorted(service),
        arrival_ms=arrival,
        departure_ms=departure,
    )


async def _change(server: Server, parts: dict[str, Contents]) -> float:
    """Let a sidecar take a change, and return the longest hold until requests go by it."""
    switched: list[StreamEvent] = []
    server.events.subscribe(switched.append)
    longest_ms, last_ns = 0.0, time.process_time_ns()
    server.pipeline.update("benchmark", parts)
    while not switched:
        await asyncio.sleep(0)
        now_ns = time.process_time_ns()
        longest_ms, last_ns = max(longest_ms, (now_ns - last_ns) / 1e6), now_ns
    server.events.unsubscribe(switched.append)
    return longest_ms
