"""Keeps one source of configuration connected: dials, asks, answers, and dials again for ever.

What is said on the stream is a `Session`'s business, and it lives on when the stream does not: state, versions and
configuration are kept. Strictly sequential, as the reference sink: read one message, take it over, answer it.
"""

import asyncio
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

    @property
    def complete(self) -> bool:
        """Whether each collection has come over the current stream."""
        ...

    def open(self) -> Iterable[bytes]:
        """Return what to send first on a new stream."""
        ...

    async def receive(self, data: bytes) -> Iterable[bytes]:
        """Take over a message; return what to send. Raises StreamError for one that must end the stream."""
        ...


@attrs.frozen(kw_only=True)
class FeedStatus:
    """One source's connection, as of now.

    `connected` is false also while a stream is open that is not known to work, since the one before it could not be
    spoken on. `since_ms` (wall clock) is when the stream came up, or when the last one that worked was lost.
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
        self._unspeakable = False  # the last stream ended by what was said on it, not by a lost connection
        self._worked = False

    def status(self) -> FeedStatus:
        """Return how the connection stands."""
        return FeedStatus(
            connected=self._stream is not None and not self._error,
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
        """Serve the source until cancelled; a lost connection is made again. `close` must follow."""
        while True:
            if self._stream is not None:
                await self._serve(self._stream)
            await self._sleep_ms(self._backoff.next_ms())
            await self._open()

    async def close(self) -> None:
        """End the stream, once `run` has been cancelled."""
        if self._stream is not None:
            await self._stream.wait_closed()
            self._stream = None

    async def _open(self) -> bool:
        try:
            self._stream = await self._dial()
        except StreamError as exc:
            if str(exc) != self._error:  # said once for each cause, however many attempts it takes
                log.warning("source.not_reached", source=self.source, error=str(exc))
            self._error = str(exc)
            return False
        self._reconnections += 1
        if not self._unspeakable:
            self._error = ""
            self._since_ms = self._system_ms()
        return True

    def _on_message(self) -> None:
        """Note that something came that makes sense.

        After a stream that could not be spoken on that is not enough: one collection may be fine and the next one too
        large, again and again. Then all of them must come before the source counts as working.
        """
        if self._worked or (self._unspeakable and not self._session.complete):
            return
        self._worked = True
        self._unspeakable = False
        self._backoff.reset()
        if self._error:
            self._error = ""
            self._since_ms = self._system_ms()
        log.info("source.connected", source=self.source)

    async def _serve(self, stream: Stream) -> None:
        error = "the source ended the stream"
        spoken = True
        self._worked = False
        try:
            await speak(self._session, stream, self._on_message)
        except StreamError as exc:
            error = str(exc)
            spoken = exc.status.code in {Code.UNAVAILABLE, Code.CANCELLED}
        finally:
            self._stream = None
            await stream.wait_closed()
        if not self._error:
            self._since_ms = self._system_ms()
        if error != self._error:  # said once for each cause
            log.warning("source.disconnected", source=self.source, error=error)
        self._error = error
        self._unspeakable = not spoken


async def speak(session: Session, stream: Stream, on_message: Callable[[], None] = lambda: None) -> None:
    """Speak on a stream until the peer ends it; `on_message` is called for each message that makes sense.

    Raises:
        StreamError: It fails, or the peer says what cannot be answered.
    """
    for data in session.open():
        await stream.send(data)
    while (received := await stream.receive()) is not None:
        replies = await session.receive(received)
        on_message()
        for reply in replies:
            await stream.send(reply)


def refused(message: str) -> StreamError:
    """Return the error for a message that no rule of the protocol can answer."""
    return StreamError(Code.INVALID_ARGUMENT, message)
