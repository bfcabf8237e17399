"""Serves resources over MCP and MCP over xDS, as the source of any number of sinks.

Each stream has a pure state machine that says what to send (`source_streams`). A change makes every stream wait in the
push queue; as many are pushed to at a time as Istio's throttle allows.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

import attrs
import structlog

from outlier import RandomGenerator
from proxy.config.feed_mode import FeedMode
from proxy.config.issue import Issue, Severity
from proxy.config.resource import Contents
from proxy.config.source_options import ConnectionOptions
from proxy.mcp.backoff import EXPONENTIAL, Backoff
from proxy.mcp.journal import JournalEntry
from proxy.mcp.messages import Code, StreamRefusedError
from proxy.mcp.rate_limit import RateLimit
from proxy.mcp.served import ServedCollections
from proxy.mcp.stream import Stream, StreamError
from proxy.mcp.transport import (
    MCP_SINK_PATH,
    MCP_SOURCE_PATH,
    XDS_DELTA_PATH,
    XDS_PATH,
    Server,
    dial,
)
from proxy.mcp.wire import WireError
from proxy.mcp.xds_server import XdsContent, XdsServerStats
from proxy.push.metrics import QUEUE_BOUNDS_S, plain_metric
from proxy.push.queue import PushQueue, Shutdown, push_throttle
from proxy.push.request import PushRequest
from proxy.push.source_content import SourceContent
from proxy.push.source_streams import DeltaMachine, Machine, McpMachine, SourceStats, XdsMachine
from proxy.stats import Histogram, Metric, MetricKind

log = structlog.get_logger()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _Connection:
    """One stream: what a machine says is sent in order, whoever asked it."""

    def __init__(self, machine: Machine, stream: Stream, peer: str) -> None:
        self.peer = peer
        self.protocol = machine.protocol
        self.journal = machine.journal
        self._machine = machine
        self._stream = stream
        self._lock = asyncio.Lock()

    async def serve(self) -> None:
        """Answer requests until the peer ends the stream.

        Raises:
            StreamError: The stream failed.
            StreamRefusedError: A request must end it.
        """
        await self._send(self._machine.opened)
        while (data := await self._stream.receive()) is not None:
            request = data
            try:
                await self._send(lambda: self._machine.receive(request))  # noqa: B023 - called before the next request
            except WireError as exc:
                raise StreamRefusedError(Code.INVALID_ARGUMENT, str(exc)) from exc

    async def push(self) -> None:
        """Send what changed and is not waiting for an answer."""
        with contextlib.suppress(StreamError):  # the reader of the stream sees its end too
            await self._send(self._machine.publish)

    async def _send(self, decide: Callable[[], Iterable[bytes]]) -> None:
        async with self._lock:
            for data in decide():
                await self._stream.send(data)


class SourceServer:
    """A source of configuration.

    Args:
        options: How streams are carried.
        mode: Whose reading of the protocols.
        random: Chance for the waits between attempts to dial a sink.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        *,
        mode: FeedMode,
        random: RandomGenerator,
    ) -> None:
        self.content = SourceContent()
        self._stats = SourceStats()
        self._xds_stats = XdsServerStats()
        self._queue_time = Histogram()
        self._convergence_time = Histogram()
        self._options = options
        self._mode = mode
        self._random = random
        self._xds_content: XdsContent = ServedCollections(self.content.snapshots, mode)
        self._connections: dict[_Connection, None] = {}
        self._queue: PushQueue[_Connection] = PushQueue()
        self._slots = asyncio.Semaphore(push_throttle())
        self._work = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams_limit = RateLimit(_now_ms())
        self._server = Server(
            {
                MCP_SOURCE_PATH: self._serve_mcp,
                XDS_PATH: self._serve_xds,
                XDS_DELTA_PATH: self._serve_delta,
            },
            options,
        )

    def serve_xds(self, content: XdsContent) -> None:
        """Serve something else than the collections over xDS, to streams that open from now on."""
        self._xds_content = content

    def metrics(self) -> Iterator[Metric]:
        """Yield Istio's metrics of an MCP source and of an xDS server."""
        clients = Counter(connection.protocol for connection in self._connections)
        for protocol in ("mcp", "xds", "xds-delta"):
            tags = (("protocol", protocol),)
            yield attrs.evolve(plain_metric("mcp_source_clients_total", clients[protocol], tags), kind=MetricKind.GAUGE)
        for collection, count in self._stats.acks.items():
            yield plain_metric("mcp_source_request_acks_total", count, (("collection", collection),))
        for (collection, code), count in self._stats.nacks.items():
            refused = (("collection", collection), ("code", str(code)))
            yield plain_metric("mcp_source_request_nacks_total", count, refused)
        for type_url, count in self._xds_stats.pilot_xds_pushes.items():
            yield plain_metric("pilot_xds_pushes", count, (("type", type_url),))
        for type_url, count in self._xds_stats.pilot_xds_expired_nonce.items():
            yield plain_metric("pilot_xds_expired_nonce", count, (("type", type_url),))
        for (type_url, code), count in self._xds_stats.pilot_total_xds_rejects.items():
            yield plain_metric("pilot_total_xds_rejects", count, (("type", type_url), ("err", str(code))))
        for name, histogram in (
            ("pilot_proxy_queue_time", self._queue_time),
            ("pilot_proxy_convergence_time", self._convergence_time),
        ):
            yield plain_metric(name, histogram, bounds_s=QUEUE_BOUNDS_S)

    def journal(self) -> dict[str, list[JournalEntry]]:
        """Return the last requests of each stream, by the peer's address."""
        return {connection.peer: list(connection.journal.entries()) for connection in self._connections}

    async def start(self, address: str) -> str:
        """Listen; return the address with the port it really has.

        Raises:
            ListenError: The address cannot be listened on.
            TlsFileError: A file of the TLS options cannot be read.
        """
        self._spawn(self._push())
        return await self._server.start(address)

    def dial_sink(self, address: str) -> None:
        """Keep a stream to a sink that listens itself."""
        self._spawn(self._keep_dialling(address))

    async def close(self) -> None:
        """End every stream and stop."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop()

    def update(self, source: str, parts: Mapping[str, Contents], removed: Iterable[str] = ()) -> None:
        """Take over parts that changed, and push to every stream that is concerned."""
        started_ms = _now_ms()
        changed = self.content.update(parts, removed)
        for issue in _errors(parts):
            log.warning("source.resource_rejected", source=source, resource=issue.resource, error=str(issue))
        if changed:
            self.publish(PushRequest(start_ms=started_ms, configs=frozenset(changed)))

    def publish(self, request: PushRequest) -> None:
        """Let every stream look what it has to send."""
        for connection in self._connections:
            self._queue.enqueue(connection, request)
        self._work.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _push(self) -> None:
        while True:
            await self._slots.acquire()
            while (turn := self._queue.dequeue()) is None:
                self._work.clear()
                await self._work.wait()
            assert not isinstance(turn, Shutdown)
            connection, request = turn
            self._queue_time.record(_now_ms() - request.start_ms)
            self._spawn(self._push_to(connection, request))

    async def _push_to(self, connection: _Connection, request: PushRequest) -> None:
        try:
            await connection.push()
            self._convergence_time.record(_now_ms() - request.start_ms)
        finally:
            self._queue.mark_done(connection)
            self._slots.release()
            self._work.set()

    async def _serve_mcp(self, stream: Stream, peer: str) -> None:
        await self._serve(McpMachine(self.content.snapshots, self._mode, self._stats, dialled=False), stream, peer)

    async def _serve_xds(self, stream: Stream, peer: str) -> None:
        await self._serve(XdsMachine(self._xds_content, self._xds_stats, self._stats), stream, peer)

    async def _serve_delta(self, stream: Stream, peer: str) -> None:
        await self._serve(DeltaMachine(self._xds_content, self._xds_stats, self._stats), stream, peer)

    async def _serve(self, machine: Machine, stream: Stream, peer: str) -> None:
        wait_ms = self._streams_limit.reserve(_now_ms())
        if wait_ms:
            await asyncio.sleep(wait_ms / 1000)
        connection = _Connection(machine, stream, peer)
        self._connections[connection] = None
        log.info("source.sink_connected", peer=peer, protocol=machine.protocol)
        try:
            await connection.serve()
        except StreamRefusedError as exc:
            log.warning("source.stream_refused", peer=peer, error=str(exc))
            raise
        finally:
            del self._connections[connection]
            log.info("source.sink_disconnected", peer=peer, protocol=machine.protocol)

    async def _keep_dialling(self, address: str) -> None:
        backoff = Backoff(EXPONENTIAL, self._random)
        error = ""
        while True:
            try:
                stream = await dial(address, MCP_SINK_PATH, self._options)
                backoff.reset()
                error = ""
                machine = McpMachine(self.content.snapshots, self._mode, self._stats, dialled=True)
                try:
                    await self._serve(machine, stream, address)
                finally:
                    await stream.wait_closed()
            except (StreamError, StreamRefusedError) as exc:
                if str(exc) != error:  # said once for each cause
                    log.warning("source.sink_not_reached", peer=address, error=str(exc))
                error = str(exc)
            await asyncio.sleep(backoff.next_ms() / 1000)


def _errors(parts: Mapping[str, Contents]) -> list[Issue]:
    return [issue for contents in parts.values() for issue in contents.issues if issue.severity is Severity.ERROR]
