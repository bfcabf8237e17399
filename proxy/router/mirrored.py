"""Sends copies of a request to mirrors and drops the answers.

A mirror is an exchange whose client listens to nothing: it is balanced, counted and judged like any other.
"""

from typing import TYPE_CHECKING

from proxy.codec.headers import HeaderList
from proxy.codec.http1_response import ResponseHead

if TYPE_CHECKING:
    from proxy.router.exchange import Exchange


class DeafClient:
    """The `ResponseEncoder` of a mirrored request."""

    exchange: "Exchange | None" = None
    remote_address = ""
    local_address = ""

    def encode_interim(self, head: ResponseHead) -> None:
        """Drop it."""

    def encode_headers(self, head: ResponseHead) -> None:
        """Drop it."""

    def encode_data(self, data: bytes) -> None:
        """Drop it."""

    def encode_end(self, trailers: HeaderList) -> None:
        """Drop it."""

    def flush(self) -> None:
        """Nothing is ever written."""

    def reset(self) -> None:
        """Nobody notices."""

    def pause_request(self) -> None:
        """Give the copy up: the client of the original is not slowed down for it, nor is it collected in memory."""
        if self.exchange is not None and not self.exchange.request_complete:
            if self.exchange.cluster is not None:
                self.exchange.cluster.stats.retry_or_shadow_abandoned += 1
            self.exchange.on_client_gone()

    def resume_request(self) -> None:
        """Nothing was paused."""
