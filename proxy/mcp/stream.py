"""A two-way stream of messages to a peer, as bytes; who carries them is not known here."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from proxy.errors import ProxyError
from proxy.mcp.messages import Code, Status


class StreamError(ProxyError):
    """Raised when a stream ends with an error, or cannot be opened.

    Attributes:
        status: gRPC's code, and the peer's or the library's words.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or Code.UNKNOWN.name)
        self.status = Status(code, message)


class Stream(Protocol):
    """One stream that is open."""

    async def send(self, data: bytes) -> None:
        """Send one message; raises StreamError when the stream has ended."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, None when the peer ended the stream; raises StreamError when it failed."""
        ...

    def cancel(self) -> None:
        """End the stream at once."""
        ...

    async def wait_closed(self) -> None:
        """End the stream, and return once nothing of it is left."""
        ...


Dial = Callable[[], Awaitable[Stream]]
"""Opens a stream once the peer is reached; raises StreamError when it cannot be."""
