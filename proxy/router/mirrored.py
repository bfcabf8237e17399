"""Sends copies of a request to mirrors and drops the answers.

A mirror is an exchange whose client listens to nothing: it is balanced, counted and judged like any other.
"""

from proxy.codec.headers import HeaderList
from proxy.codec.http1_response import ResponseHead


class DeafClient:
    """The `ResponseEncoder` of a mirrored request."""

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
        """The client of the original is not slowed down for a copy."""

    def resume_request(self) -> None:
        """It was not slowed down."""
