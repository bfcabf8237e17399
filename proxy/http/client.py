"""What the listener and the access log know of a client, whichever protocol it speaks."""

from typing import Protocol


class ClientConnection(Protocol):
    """A connection that a listener has accepted."""

    def close_when_idle(self) -> None:
        """Drain: close now, or once what is under way is done."""

    def abort(self) -> None:
        """Close at once."""


class ClientRequest(Protocol):
    """The client's side of one exchange, as it is logged."""

    bytes_received: int
    bytes_sent: int

    @property
    def protocol(self) -> str:
        """`HTTP/1.1` or `HTTP/2`."""

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`; empty for a unix socket."""

    @property
    def duration_ms(self) -> int:
        """Time since the request's head."""
