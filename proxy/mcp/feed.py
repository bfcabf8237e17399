"""Keeps one source of configuration connected: dials, asks, answers, and dials again for ever.

What is said on the stream is a `Session`'s business, and it lives on when the stream does not: state, versions and
configuration are kept. Strictly sequential, as the reference sink: read one message, take it over, answer it.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import attrs
import structlog

from proxy.errors import ProxyError
from proxy.mcp.backoff import Backoff
from proxy.mcp.messages import Code
from proxy.mcp.stream import Dial, Stream, StreamError

log = structlog.get_logger()


class SourceUnreachableError(ProxyError):
    """Raised when a source cannot be reached within the time that a start has for it.

    Attributes:
        source: Its URL.
        reason: Why the last attempt failed.
    """

    def __init__(self, source: str, timeout_ms: int, reason: str) -> None:
        super().__init__(f"{source}: not reached within {timeout_ms} ms: {reason}")
        self.source = source
        self.reason = reason


class Session(Protocol):
    """A protocol spoken on the streams to one source, one after the other."""

    def open(self) -> Iterable[bytes]:
        """Return what to send first on a new stream."""
        ...

    async def receive(self, data: bytes) -> Iterable[bytes]:
        """Take over a message; return what to send. Raises StreamError for one that must end the stream."""
        ...


@attrs.frozen(kw_only=True)
class FeedStatus:
    """One source's connection, as of now.

    `since_ms` (wall clock) is when it came up, or, when `connected` is false, when it was lost or first not reached.
    """

    connected: bool
    since_ms: int
    reconnections: int
    error: str


class Feed:
    """The connection to one source.

    Args:
        source: Its URL, for the log.
        dial: Opens a stream to it.
        session: What is said.
        backoff: Waits between attempts.
        sleep_ms: Waits.
        system_ms: Wall clock, for the status.
    """

    def __init__(
        self,
        source: str,
        dial: Dial,
        session: Session,
        backoff: Backoff,
        *,
        sleep_ms: Callable[[int], Awaitable[None]] = lambda wait_ms: asyncio.sleep(wait_ms / 1000),
        system_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.source = source
        self._dial = dial
        self._session = session
        self._backoff = backoff
        self._sleep_ms = sleep_ms
        self._system_ms = system_ms
        self._stream: Stream | None = None
        self._since_ms = system_ms()
        self._reconnections = 0
        self._error = ""

    def status(self) -> FeedStatus:
        """Return how the connection stands."""
        return FeedStatus(
            connected=self._stream is not None,
            since_ms=self._since_ms,
            reconnections=self._reconnections,
            error=self._error,
        )

    async def connect(self, timeout_ms: int) -> None:
        """Return once the source is reached.

        Args:
            timeout_ms: How long to try; 0 is for ever.

        Raises:
            SourceUnreachableError: The time is over.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
                while not await self._open():
                    await self._sleep_ms(self._backoff.next_ms())
        except TimeoutError:
            raise SourceUnreachableError(self.source, timeout_ms, self._error or "no answer") from None

    async def run(self) -> None:
        """Serve the source until cancelled; a lost connection is made again."""
        try:
            while True:
                if self._stream is not None:
                    await self._serve(self._stream)
                await self._sleep_ms(self._backoff.next_ms())
                await self._open()
        finally:
            if self._stream is not None:
                self._stream.cancel()

    async def _open(self) -> bool:
        try:
            self._stream = await self._dial()
        except StreamError as exc:
            if str(exc) != self._error:  # said once for each cause, however many attempts it takes
                log.warning("source.not_reached", source=self.source, error=str(exc))
            self._error = str(exc)
            return False
        self._since_ms = self._system_ms()
        self._reconnections += 1
        return True

    def _on_first_message(self) -> None:
        """What accepts a stream need not be able to speak on it; only now is that certain."""
        self._backoff.reset()
        self._error = ""
        log.info("source.connected", source=self.source)

    async def _serve(self, stream: Stream) -> None:
        error = "the source ended the stream"
        try:
            await speak(self._session, stream, self._on_first_message)
        except StreamError as exc:
            error = str(exc)
        finally:
            with contextlib.suppress(StreamError):
                stream.cancel()
            self._stream = None
            self._since_ms = self._system_ms()
        if error != self._error:
            log.warning("source.disconnected", source=self.source, error=error)
        self._error = error


async def speak(session: Session, stream: Stream, on_first_message: Callable[[], None] = lambda: None) -> None:
    """Speak on a stream until the peer ends it.

    Raises:
        StreamError: It fails, or the peer says what cannot be answered.
    """
    for data in session.open():
        await stream.send(data)
    first = True
    while (received := await stream.receive()) is not None:
        if first:
            first = False
            on_first_message()
        for reply in await session.receive(received):
            await stream.send(reply)


def refused(message: str) -> StreamError:
    """Return the error for a message that no rule of the protocol can answer."""
    return StreamError(Code.INVALID_ARGUMENT, message)
