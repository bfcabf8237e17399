"""What a host's second opinion wants to hear of attempts; who gives it is `proxy.cluster.shadow`."""

from typing import TYPE_CHECKING, Protocol

from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead

if TYPE_CHECKING:
    from proxy.upstream.host import Host


class HostShadow(Protocol):
    """Told of an attempt, after the host's monitor, what that was told."""

    def connected(self, host: "Host") -> None:
        """A connection is ready."""

    def responded(self, host: "Host", request: RequestHead, head: ResponseHead) -> None:
        """The response head is there."""

    def reset(self, host: "Host") -> None:
        """The attempt failed below HTTP."""

    def timed_out(self, host: "Host", *, responding: bool) -> None:
        """Its time is over."""

    def overflowed(self, host: "Host") -> None:
        """A circuit breaker refused it."""
