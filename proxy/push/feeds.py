"""The servers that a sidecar is fed from: one feed each, started together.

A server that cannot be reached is fatal at the start only. Each owns its parts of the store, so none sees the others'.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from outlier import RandomGenerator
from proxy.config.feed_mode import FeedMode
from proxy.config.resource import Contents
from proxy.config.source_options import ConnectionOptions, Source, SourceScheme
from proxy.mcp.backoff import EXPONENTIAL, FIXED, Backoff
from proxy.mcp.feed import Feed
from proxy.mcp.sessions import McpSession, XdsSession
from proxy.mcp.sink_listener import SinkListener
from proxy.mcp.transport import MCP_SOURCE_PATH, XDS_DELTA_PATH, XDS_PATH, dial
from proxy.push.metrics import plain_metric
from proxy.push.pipeline import ConfigPipeline, ConnectionStatus
from proxy.stats import Metric

AnySession = McpSession | XdsSession[Any, Any]

_PATHS: Mapping[SourceScheme, str] = {
    SourceScheme.MCP: MCP_SOURCE_PATH,
    SourceScheme.XDS: XDS_PATH,
    SourceScheme.XDS_DELTA: XDS_DELTA_PATH,
}


class Feeds:
    """All servers of one sidecar.

    Args:
        sources: Where they are; files are not looked at.
        pipeline: Takes what they send.
        options: How they are reached.
        mode: What becomes of bad resources.
        node_id: Who asks.
        random: Chance for the waits between attempts.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        pipeline: ConfigPipeline,
        *,
        options: ConnectionOptions,
        mode: FeedMode,
        node_id: str,
        random: RandomGenerator,
    ) -> None:
        self._options = options
        self._feeds: list[Feed] = []
        self._listeners: list[SinkListener] = []
        self._sessions: list[AnySession] = []
        self._connections: list[tuple[Feed | SinkListener, AnySession]] = []
        self._tasks: list[asyncio.Task[None]] = []
        for source in sources:
            if source.scheme is SourceScheme.FILES:
                continue
            session = _session(source, pipeline, mode, node_id)
            self._sessions.append(session)
            if source.scheme is SourceScheme.MCP_LISTEN:
                listener = SinkListener(str(source), session, options)
                self._listeners.append(listener)
                self._connections.append((listener, session))
                pipeline.attach(str(source), partial(_status, listener, session))
                continue
            settings = FIXED if mode is FeedMode.PILOT and source.scheme is SourceScheme.MCP else EXPONENTIAL
            open_stream = partial(dial, source.target, _PATHS[source.scheme], options)
            feed = Feed(str(source), open_stream, session, Backoff(settings, random))
            self._feeds.append(feed)
            self._connections.append((feed, session))
            pipeline.attach(str(source), partial(_status, feed, session))

    async def start(self, timeout_ms: int) -> None:
        """Return once every server is reached, and listeners listen.

        Args:
            timeout_ms: How long servers may take; 0 is for ever.

        Raises:
            SourceUnreachableError: One is not reached in time.
            ListenError: A listener's address cannot be listened on.
        """
        for listener in self._listeners:
            await listener.start()
        await asyncio.gather(*(feed.connect(timeout_ms) for feed in self._feeds))
        self._tasks = [asyncio.create_task(feed.run()) for feed in self._feeds]

    async def wait_synced(self) -> None:
        """Return once every collection of every server has come; an empty one counts, silence does not."""
        await asyncio.gather(*(session.wait_synced() for session in self._sessions))

    def metrics(self) -> Iterator[Metric]:
        """Yield Istio's metrics of a sink, for each source."""
        for connection, session in self._connections:
            tags = (("source", connection.source),)
            yield plain_metric("mcp_sink_reconnections", connection.status().reconnections, tags)
            for collection, count in session.acks.items():
                yield plain_metric("mcp_sink_request_acks_total", count, (*tags, ("collection", collection)))
            for (collection, code), count in session.nacks.items():
                refused = (*tags, ("collection", collection), ("code", str(code)))
                yield plain_metric("mcp_sink_request_nacks_total", count, refused)

    async def close(self) -> None:
        """End every stream."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for feed in self._feeds:
            await feed.close()
        for listener in self._listeners:
            await listener.close()


def _session(source: Source, pipeline: ConfigPipeline, mode: FeedMode, node_id: str) -> AnySession:
    name = str(source)

    def update(parts: Mapping[str, Contents], removed: Iterable[str], arrived_ms: int) -> None:
        pipeline.update(name, parts, removed, arrived_ms)

    if source.scheme is SourceScheme.XDS:
        return XdsSession.sotw(name, update, mode=mode, node_id=node_id)
    if source.scheme is SourceScheme.XDS_DELTA:
        return XdsSession.delta(name, update, mode=mode, node_id=node_id)
    return McpSession(name, update, mode=mode, node_id=node_id, incremental=mode is not FeedMode.PILOT)


def _status(connection: Feed | SinkListener, session: AnySession) -> ConnectionStatus:
    status = connection.status()
    return ConnectionStatus(
        connected=status.connected,
        synced=session.synced,
        since_ms=status.since_ms,
        reconnections=status.reconnections,
        error=status.error,
        last_requests=tuple(entry.as_dict() for entry in session.journal.entries()),
    )
