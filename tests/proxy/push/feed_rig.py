"""A sidecar's feeds against a real source over gRPC on loopback, and peers that misbehave by script."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import attrs

from outlier import SeededRandom
from proxy.config.feed_mode import FeedMode
from proxy.config.node import NodeConfig
from proxy.config.resource import read_resources
from proxy.config.source_options import ConnectionOptions, Source
from proxy.mcp.stream import Stream
from proxy.mcp.transport import MCP_SOURCE_PATH, XDS_DELTA_PATH, XDS_PATH, Server
from proxy.push.feeds import Feeds
from proxy.push.pipeline import ConfigPipeline
from proxy.push.source_server import SourceServer

PROTOCOLS = ("mcp", "xds", "xds-delta")
WAIT_S = 30.0

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}}}
spec:
  hosts: [{name}.default.svc.cluster.local]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: {address}}}]
"""
RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}}}
spec: {{host: {name}, trafficPolicy: {{outlierDetection: {{maxEjectionPercent: {percent}}}}}}}
"""


def service(name: str = "a", address: str = "10.0.0.1") -> str:
    return SERVICE.format(name=name, address=address)


def rule(name: str = "a", percent: int = 50) -> str:
    return RULE.format(name=name, percent=percent)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@attrs.define(eq=False)
class Rig:
    """Feeds and the pipeline they fill."""

    pipeline: ConfigPipeline
    feeds: Feeds
    changed: asyncio.Event

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return once a condition on the configuration holds; it is looked at whenever one is applied."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    @property
    def addresses(self) -> list[str]:
        clusters = self.pipeline.snapshot.clusters.values()
        return sorted(endpoint.address for cluster in clusters for endpoint in cluster.endpoints)

    @property
    def source(self):
        [status] = self.pipeline.status().sources
        return status


@contextlib.asynccontextmanager
async def feeding(url: str, *, options=None, mode=FeedMode.SPEC, start_timeout_ms: int = 30_000):
    """Feed a pipeline from one server; the first configuration need not have come yet."""
    changed = asyncio.Event()
    pipeline = ConfigPipeline(NodeConfig(), apply=lambda _snapshot: changed.set())
    feeds = Feeds(
        [Source.parse(url)],
        pipeline,
        options=options or ConnectionOptions(),
        mode=mode,
        node_id="me",
        random=SeededRandom(1),
    )
    try:
        await feeds.start(start_timeout_ms)
        yield Rig(pipeline, feeds, changed)
    finally:
        await feeds.close()


@contextlib.asynccontextmanager
async def serving(address: str = "127.0.0.1:0", *, options=None, mode=FeedMode.SPEC, **texts: str):
    """Serve texts as a source does its files."""
    server = SourceServer(options or ConnectionOptions(), mode=mode, random=SeededRandom(1))
    put(server, **texts)
    try:
        yield server, await server.start(address)
    finally:
        await server.close()


def put(server: SourceServer, **texts: str) -> None:
    server.update("test", {name: read_resources(text, name) for name, text in texts.items()})


@contextlib.asynccontextmanager
async def scripted(script: Callable[[Stream], object], address: str = "127.0.0.1:0"):
    """Serve every protocol by a script."""

    async def handle(stream: Stream, _peer: str) -> None:
        await script(stream)

    server = Server(dict.fromkeys((MCP_SOURCE_PATH, XDS_PATH, XDS_DELTA_PATH), handle), ConnectionOptions())
    try:
        yield await server.start(address)
    finally:
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Return once a condition holds that no configuration announces, such as the state of a connection."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - a foreign library's state
            await asyncio.sleep(0.01)


class Pipe:
    """A TCP forwarder that can stop forwarding without closing: a half open connection."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Pipe":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._tasks.add(asyncio.ensure_future(self._copy(source, target)))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self.flowing.wait()
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
