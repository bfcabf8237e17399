"""What a pool needs of a connection, whatever it speaks."""

from typing import Protocol

from proxy.upstream.stream import RequestEncoder, ResponseDecoder


class PooledConnection(Protocol):
    """An open connection of a pool.

    `draining` takes no further request. `idle_since` is the loop's time of its last request's end, `max_duration_ms`
    the limit that a deadline is set for, 0 when none is.
    """

    draining: bool
    idle_since: float
    max_duration_ms: int

    def attach(self, decoder: ResponseDecoder) -> RequestEncoder:
        """Give a request its stream."""

    def close(self) -> None:
        """Close a connection that carries no request."""

    def terminate(self) -> None:
        """Close at once; requests on it are reset."""

    def on_max_duration(self) -> None:
        """The connection is as old as it may become."""
