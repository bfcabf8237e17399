"""A sink that sources dial: MCP's service `ResourceSink`.

One source at a time; a new stream replaces the old one, which may be half open.
"""

import time
from collections.abc import Callable

import structlog

from proxy.config.source_options import ConnectionOptions
from proxy.mcp.feed import FeedStatus, Session, speak
from proxy.mcp.stream import Stream, StreamError
from proxy.mcp.transport import MCP_SINK_PATH, Server

log = structlog.get_logger()


class SinkListener:
    """Listens for the source of one session.

    Args:
        source: Its URL, `mcp-listen://` and the address.
        session: What is said.
        options: How streams are carried.
        system_ms: Wall clock, for the status.
    """

    def __init__(
        self,
        source: str,
        session: Session,
        options: ConnectionOptions,
        *,
        system_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.source = source
        self._session = session
        self._system_ms = system_ms
        self._server = Server({MCP_SINK_PATH: self._serve}, options)
        self._stream: Stream | None = None
        self._since_ms = system_ms()
        self._streams = 0
        self._error = "no source has connected yet"

    def status(self) -> FeedStatus:
        """Return how the connection stands."""
        return FeedStatus(
            connected=self._stream is not None,
            since_ms=self._since_ms,
            reconnections=self._streams,
            error=self._error,
        )

    async def start(self) -> str:
        """Listen; return the address with the port it really has.

        Raises:
            ListenError: The address cannot be listened on.
        """
        address = await self._server.start(self.source.partition("://")[2])
        log.info("source.listening", source=self.source, address=address)
        return address

    async def close(self) -> None:
        """End the stream and stop listening."""
        await self._server.stop()

    async def _serve(self, stream: Stream, peer: str) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._stream = stream
        self._streams += 1
        self._since_ms = self._system_ms()
        self._error = ""
        log.info("source.connected", source=self.source, peer=peer)
        error = "the source ended the stream"
        try:
            await speak(self._session, stream)
        except StreamError as exc:
            error = str(exc)
        finally:
            if self._stream is stream:
                self._stream = None
                self._since_ms = self._system_ms()
                self._error = error
                log.warning("source.disconnected", source=self.source, peer=peer, error=error)
