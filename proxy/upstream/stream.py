"""The seam between an exchange and whatever carries it to a host.

The router sends a request through a `RequestEncoder` and hears of the response as a `ResponseDecoder`; neither knows
which protocol is in between. A pool hands out encoders and tells its client (`PoolClient`) when one is ready or
cannot be had.
"""

import enum
from typing import Protocol

from proxy.codec.headers import HeaderList
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.upstream.host import Host


class ResetReason(enum.Enum):
    """Why a stream ended before its time; the value is the text of Envoy's local reply."""

    CONNECTION_FAILURE = "remote connection failure"
    CONNECTION_TIMEOUT = "connection timeout"
    CONNECTION_TERMINATION = "connection termination"
    REMOTE_RESET = "remote reset"
    REMOTE_REFUSED_STREAM_RESET = "remote refused stream reset"
    CONNECT_ERROR = "remote error with CONNECT request"
    PROTOCOL_ERROR = "protocol error"
    OVERFLOW = "overflow"


class ResponseDecoder(Protocol):
    """Hears the response to one request: `on_response_headers` (interim heads first), data, then end or reset."""

    def on_response_headers(self, head: ResponseHead) -> None:
        """Take a head; the last one if `head.end_stream`."""

    def on_response_data(self, data: bytes) -> None:
        """Take a piece of body, never empty."""

    def on_response_read_end(self) -> None:
        """No more of the response has arrived yet."""

    def on_response_end(self, trailers: HeaderList) -> None:
        """The response is complete."""

    def on_response_reset(self, reason: ResetReason, detail: str) -> None:
        """The stream is gone; `detail` says more, for logs."""

    def on_request_writable(self, *, writable: bool) -> None:
        """The way to the host is full (or free again): stop (or go on) sending body."""


class RequestEncoder(Protocol):
    """Sends one request to a host."""

    host: Host

    def encode_headers(self, head: RequestHead, headers: HeaderList, *, end_stream: bool) -> None:
        """Send the head: the method and path of `head` with `headers`."""

    def encode_data(self, data: bytes) -> None:
        """Send a piece of body, not empty."""

    def encode_end(self, trailers: HeaderList) -> None:
        """The request is complete."""

    def flush(self) -> None:
        """Nothing more comes for now: write what was encoded."""

    def reset(self) -> None:
        """Give the request up; no further call of the decoder follows."""

    def pause_reading(self) -> None:
        """Take no more of the response for now."""

    def resume_reading(self) -> None:
        """Go on reading."""


class PoolClient(ResponseDecoder, Protocol):
    """A request that waits for its stream; `authority` is its host, as the upstream will see it."""

    @property
    def authority(self) -> bytes:
        """The request's host."""

    @property
    def http2(self) -> bool:
        """Whether the client speaks HTTP/2."""

    def on_pool_ready(self, encoder: RequestEncoder) -> None:
        """A connection to the host is there and the stream is ours."""

    def on_pool_failure(self, reason: ResetReason, detail: str) -> None:
        """None can be had; the client is out of the pool."""
