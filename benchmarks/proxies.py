"""The proxies that are measured, each a process on loopback in front of the same upstream addresses."""

import asyncio
import functools
import sys
from collections.abc import Callable, Sequence

from benchmarks.processes import free_port, require
from tests.oracle.envoy import Envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject

START_DEADLINE_S = 10.0
# Detection on, as a user would have it; the load makes no errors, so nobody is ejected.
RULE = {"consecutive5xxErrors": 5, "interval": "10s", "baseEjectionTime": "30s", "maxEjectionPercent": 50}


class HAProxy(Subject):
    """HAProxy with one thread; it watches answers as the others do (`observe layer7`)."""

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__()
        (self._service,) = services

    async def start(self) -> None:
        """Start it and return once its port is open."""
        self.listen = ("127.0.0.1", free_port())
        servers = "\n".join(
            f"  server s{number} {address} check inter 10s observe layer7 error-limit 5 on-error mark-down"
            for number, address in enumerate(self._service.addresses)
        )
        config = self.directory / "haproxy.cfg"
        config.write_text(
            "global\n  nbthread 1\n"
            "defaults\n  mode http\n  http-reuse always\n"
            "  timeout connect 1s\n  timeout client 1h\n  timeout server 15s\n"
            f"frontend benchmark\n  bind 127.0.0.1:{self.listen[1]}\n  default_backend upstream\n"
            f"backend upstream\n  balance roundrobin\n{servers}\n"
        )
        self._process = await asyncio.create_subprocess_exec(
            require("haproxy", "the package haproxy"), "-db", "-f", str(config), stderr=asyncio.subprocess.DEVNULL
        )
        await _wait_open(*self.listen)


class AiohttpProxy(Subject):
    """The proxy of `aiohttp_proxy.py`."""

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__()
        (self._service,) = services

    async def start(self) -> None:
        """Start it and return once its port is open."""
        self.listen = ("127.0.0.1", free_port())
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.aiohttp_proxy", str(self.listen[1]), *self._service.addresses),
            stderr=asyncio.subprocess.DEVNULL,  # aiohttp logs each client that leaves when wrk is done
        )
        await _wait_open(*self.listen)


PROXIES: dict[str, Callable[[Sequence[Service]], Subject]] = {
    "sidecar": Sidecar,
    "envoy": Envoy,
    "haproxy": HAProxy,
    "aiohttp": AiohttpProxy,
}
# As a sidecar runs in a mesh; the others have no such settings.
LOGGING_PROXIES = PROXIES | {
    "sidecar": functools.partial(Sidecar, access_log=True),
    "envoy": functools.partial(Envoy, access_log=True),
}


def service(addresses: Sequence[str], *, retries: int = 0) -> Service:
    """Return the service that all of them forward to."""
    return Service(host="bench.test", addresses=addresses, outlier_detection=RULE, retries=retries, timeout_ms=15_000)


async def _wait_open(host: str, port: int) -> None:
    async with asyncio.timeout(START_DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
