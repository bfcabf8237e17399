"""One request through a whole sidecar, counted: real sockets, a client and an upstream in the same thread."""

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog
import yaml

from benchmarks.counting import Counting, PeakMemory
from benchmarks.proxies import service
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap, LoopChoice
from proxy.run_command import choose_loop
from proxy.server import Server
from tests.oracle.sidecar import resources

WARM_UP, ROUNDS = 30, 60
_NOWHERE = Address("127.0.0.1", 0)
# What a client and a server of today send, in number and length of their headers.
REQUEST = (
    "GET /reviews/{number} HTTP/1.1\r\nhost: {host}\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0\r\n"
    "accept: application/json\r\naccept-encoding: gzip, deflate, br\r\nx-visit: {number}\r\n\r\n"
)
RESPONSE = (
    "HTTP/1.1 200 OK\r\nserver: upstream\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\ncontent-type: application/json\r\n"
    "content-length: 0\r\ncache-control: no-store\r\nx-visit: {number}\r\n\r\n"
)


class Upstream(asyncio.Protocol):
    """Answers each read with the response that the scene has ready."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keep the connection."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer."""
        self._transport.write(self._scene.response)


class Client(asyncio.Protocol):
    """Sends what it is told; `answered` is done when the answer, which has no body, has come."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keep the connection."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Check the answer."""
        assert data.startswith(b"HTTP/1.1 200"), data
        self.answered.set_result(None)

    async def ask(self, request: bytes) -> None:
        """Send a request and wait for its answer, and for what the sidecar does after it."""
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await self.answered
        for _ in range(3):
            await asyncio.sleep(0)


class Scene:
    """A sidecar, its upstream and a client; `repeated` says that all heads are the same to the byte."""

    def __init__(self, client: Client, host: str) -> None:
        self._client = client
        self._host = host
        self._number = 0
        self.response = b""

    async def exchange(self, *, repeated: bool) -> None:
        """Send one request."""
        self._number += not repeated
        number = f"{self._number:06}"
        self.response = RESPONSE.format(number=number).encode()
        await self._client.ask(REQUEST.format(number=number, host=self._host).encode())


async def _measure() -> dict[str, dict[str, float]]:
    loop = asyncio.get_running_loop()
    client = Client()
    target = service(["127.0.0.1:1"])
    scene = Scene(client, target.host)
    upstream = await loop.create_server(lambda: Upstream(scene), "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="guard-") as name:
        path = Path(name) / "rules.yaml"
        path.write_text(yaml.safe_dump_all(resources(service([f"127.0.0.1:{port}"]))))
        server = Server(Bootstrap(config_paths=(path,), listen=_NOWHERE, admin=_NOWHERE, drain_time_ms=0))
        await server.start()
    host, _, listen_port = str(server.ready_line()["listen"]).rpartition(":")
    await loop.create_connection(lambda: client, host, int(listen_port))
    found = {}
    for text, repeated in (("the same heads again", True), ("new heads each time", False)):
        for _ in range(WARM_UP):
            await scene.exchange(repeated=repeated)
        found[f"exchange at 0 B, {text}"] = await _counts(scene, repeated=repeated)
    client.transport.close()
    await server.close()
    upstream.close()
    return found


async def _counts(scene: Scene, *, repeated: bool) -> dict[str, float]:
    """Return medians: a timer may be due in one exchange, and is not what is measured."""
    counts, peaks = [], []
    for _ in range(ROUNDS):
        with Counting() as count:
            await scene.exchange(repeated=repeated)
        counts.append(count)
    with PeakMemory() as memory:
        for _ in range(ROUNDS):
            memory.begin()
            await scene.exchange(repeated=repeated)
            peaks.append(memory.end())
    return {
        "opcodes": statistics.median(count.opcodes for count in counts),
        "calls": statistics.median(count.calls for count in counts),
        "bytes": statistics.median(peaks),
    }


def exchange_counts() -> dict[str, dict[str, float]]:
    """Return what one exchange counts; `bytes` is the most that it holds at a time."""
    make: Callable[[], asyncio.AbstractEventLoop] = choose_loop(LoopChoice.AUTO)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50)
    )  # what starts and stops is no news here
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(_measure())
