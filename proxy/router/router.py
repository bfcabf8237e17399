"""What all exchanges of a sidecar share, and the seam to whatever carries a response to the client."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from outlier import RandomGenerator
from proxy.cluster.cluster import Cluster
from proxy.codec.headers import HeaderList
from proxy.codec.http1_response import ResponseHead
from proxy.deadlines import Deadlines


class ResponseEncoder(Protocol):
    """Sends one response to the client."""

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`; empty for a unix socket."""

    @property
    def local_address(self) -> str:
        """The `ip:port` that the client has connected to; empty for a unix socket."""

    def encode_interim(self, head: ResponseHead) -> None:
        """Send an interim (1xx) head."""

    def encode_headers(self, head: ResponseHead) -> None:
        """Send the head; the connection manager adds its own headers. The last call if `head.end_stream`."""

    def encode_data(self, data: bytes) -> None:
        """Send a piece of body, not empty."""

    def encode_end(self, trailers: HeaderList) -> None:
        """The response is complete."""

    def flush(self) -> None:
        """Nothing more comes for now: write what was encoded."""

    def reset(self) -> None:
        """The response cannot be completed: let the client see that it is cut off."""

    def pause_request(self) -> None:
        """Read no more of the client's body for now."""

    def resume_request(self) -> None:
        """Go on reading it."""


class Router:
    """The clusters by name (live), the clock and chance; counts requests that led nowhere."""

    __slots__ = ("clusters", "deadlines", "loop", "no_cluster", "no_route", "random")

    def __init__(
        self,
        clusters: Mapping[str, Cluster],
        *,
        deadlines: Deadlines,
        loop: asyncio.AbstractEventLoop,
        random: RandomGenerator,
    ) -> None:
        self.clusters = clusters
        self.deadlines = deadlines
        self.loop = loop
        self.random = random
        self.no_route = 0
        self.no_cluster = 0
