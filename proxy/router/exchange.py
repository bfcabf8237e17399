"""One downstream request, from its head to the last byte of its response.

Finds the route, lets the cluster choose a host, sends the request there, and passes the response back or replies
itself. Both sides are seams (`ResponseEncoder`, `upstream.stream`): no socket, no wire format, no task, no await.
Ports the router filter (Envoy, source/common/router/router.cc).
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from proxy.cluster.cluster import Cluster
from proxy.codec.headers import HeaderList, replace_header
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.config.route_config import RouteAction, VirtualHost
from proxy.deadlines import Deadlines
from proxy.response_flags import ResponseFlag
from proxy.router.local_reply import (
    NO_CLUSTER,
    NO_HEALTHY_UPSTREAM,
    NO_ROUTE,
    RESET_FLAGS,
    ROUTE_TIMEOUT,
    LocalReply,
    reset_details,
    upstream_reset,
)
from proxy.router.upstream_request import UpstreamRequest
from proxy.upstream.connection import SERVICE_TIME
from proxy.upstream.host import Host
from proxy.upstream.stream import RequestEncoder, ResetReason

# Body that waits for a connection; above it the client is not read.
BUFFER_HIGH_WATER_BYTES = 256 * 1024


class ResponseEncoder(Protocol):
    """Sends one response to the client."""

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
    """What all exchanges of a sidecar share; `clusters` is live, by name."""

    __slots__ = ("clusters", "deadlines", "loop", "no_cluster", "no_route")

    def __init__(
        self, clusters: Mapping[str, Cluster], *, deadlines: Deadlines, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.clusters = clusters
        self.deadlines = deadlines
        self.loop = loop
        self.no_route = 0
        self.no_cluster = 0


class Exchange:
    """One request and its response.

    Attributes for the access log: `status` is 0 until a response head was sent, `flags` and `details` say why the
    exchange ended as it did,
    `attempts` counts picks of a host, `host` is the last one picked, `cluster` is None without a route.
    """

    __slots__ = (
        "_body",
        "_body_bytes",
        "_request_complete_at",
        "_request_ended",
        "_request_paused",
        "_route",
        "_router",
        "_trailers",
        "_upstream",
        "attempts",
        "cluster",
        "details",
        "encoder",
        "flags",
        "head",
        "host",
        "status",
    )

    def __init__(self, router: Router, encoder: ResponseEncoder, head: RequestHead) -> None:
        self._router = router
        self.encoder = encoder
        self.head = head
        self.cluster: Cluster | None = None
        self.host: Host | None = None
        self.status = 0
        self.flags: tuple[ResponseFlag, ...] = ()
        self.details = ""
        self.attempts = 0
        self._route: RouteAction | None = None
        self._upstream: UpstreamRequest | None = None
        self._request_ended = head.end_stream
        self._request_complete_at = 0.0
        self._request_paused = False
        self._body: list[bytes] = []  # received before there was a connection to send it on
        self._body_bytes = 0
        self._trailers: HeaderList = []

    # From the client

    def start(self, virtual_host: VirtualHost | None) -> None:
        """Route the request and start its first attempt, or reply at once."""
        router = self._router
        if virtual_host is None or self.head.method == b"CONNECT":
            router.no_route += 1
            self._reply(NO_ROUTE)
            return
        route = virtual_host.routes[0].action
        cluster = router.clusters.get(route.cluster)
        if cluster is None:
            router.no_cluster += 1
            self._reply(NO_CLUSTER)
            return
        self._route = route
        self.cluster = cluster
        if self._request_ended:
            self._on_request_complete(route)
        self.attempts = 1
        host = cluster.load_balancer.choose_host(None)
        if host is None:
            cluster.stats.upstream_cx_none_healthy += 1
            self._reply(NO_HEALTHY_UPSTREAM)
            return
        self.host = host
        upstream = self._upstream = UpstreamRequest(self, cluster, host)
        upstream.start()

    def refuse(self, reply: LocalReply) -> None:
        """Answer what cannot be served; if the response has begun, cut it off."""
        if self._upstream is not None:
            self._upstream.cancel()
            self._upstream = None
        if not self.status:
            self._reply(reply)
            return
        self.details = reply.details
        self.flags = () if reply.flag is None else (reply.flag,)
        self._end()
        self.encoder.reset()

    def on_request_data(self, data: bytes) -> None:
        """Take a piece of the request's body."""
        upstream = self._upstream
        if upstream is None:
            return  # answered already
        if upstream.encoder is not None:
            upstream.encoder.encode_data(data)
            return
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > BUFFER_HIGH_WATER_BYTES and not self._request_paused:
            self._request_paused = True
            self.encoder.pause_request()

    def on_request_end(self, trailers: HeaderList) -> None:
        """The request is complete."""
        self._request_ended = True
        self._trailers = trailers
        upstream = self._upstream
        if upstream is None or self._route is None:
            return
        self._on_request_complete(self._route)
        if upstream.encoder is not None:
            upstream.encoder.encode_end(trailers)

    def on_request_read_end(self) -> None:
        """No more of the request has arrived yet: send what there is."""
        if self._upstream is not None and self._upstream.encoder is not None:
            self._upstream.encoder.flush()

    def on_client_gone(self) -> None:
        """Nobody waits any more: stop the attempt, charge nobody."""
        if self._upstream is not None:
            self._upstream.cancel()
            self._upstream = None
        self.flags = (*self.flags, ResponseFlag.DOWNSTREAM_CONNECTION_TERMINATION)
        self.details = "downstream_remote_disconnect"
        self._end()

    def on_response_writable(self, *, writable: bool) -> None:
        """The client takes no more of the response (or takes it again)."""
        if self._upstream is None or self._upstream.encoder is None:
            return
        if writable:
            self._upstream.encoder.resume_reading()
        else:
            self._upstream.encoder.pause_reading()

    # From the attempt

    def on_upstream_ready(self, encoder: RequestEncoder) -> None:
        """Send the request as far as it is here."""
        head = self.head
        route = self._route
        assert route is not None
        headers = head.headers
        if route.timeout_ms:
            headers = [*headers, (b"x-envoy-expected-rq-timeout-ms", b"%d" % (route.timeout_ms - self._elapsed_ms()))]
        end_stream = self._request_ended and not self._body and not self._trailers
        encoder.encode_headers(head, headers, end_stream=end_stream)
        if end_stream:
            return
        body, self._body = self._body, []
        for data in body:
            encoder.encode_data(data)
        if self._request_ended:
            encoder.encode_end(self._trailers)
        elif body:
            encoder.flush()
        if self._request_paused:
            self._request_paused = False
            self.encoder.resume_request()

    def on_upstream_writable(self, *, writable: bool) -> None:
        """The host takes no more of the request (or takes it again)."""
        if writable:
            self.encoder.resume_request()
        else:
            self.encoder.pause_request()

    def on_upstream_interim(self, head: ResponseHead) -> None:
        """Pass an interim head on; `100 Continue` was sent when it was asked for."""
        if head.status != 100 and not self.status:
            self.encoder.encode_interim(head)

    def on_upstream_headers(self, head: ResponseHead) -> None:
        """Answer the client with the host's response."""
        cluster = self.cluster
        assert cluster is not None
        status = self.status = head.status
        self.details = "via_upstream"
        stats = cluster.stats
        responses = stats.responses
        responses[status] = responses.get(status, 0) + 1
        elapsed_ms = self._elapsed_ms()
        if head.marks & SERVICE_TIME:
            replace_header(head.headers, b"x-envoy-upstream-service-time", b"%d" % elapsed_ms)
        else:
            head.headers.append((b"x-envoy-upstream-service-time", b"%d" % elapsed_ms))
        self.encoder.encode_headers(head)
        if head.end_stream:
            self._finish()

    def on_upstream_end(self, trailers: HeaderList) -> None:
        """The host's response is complete."""
        self.encoder.encode_end(trailers)
        self._finish()

    def on_upstream_reset(self, reason: ResetReason, detail: str) -> None:
        """The attempt is lost: reply, or cut the response off where it stands."""
        self._upstream = None
        if not self.status:
            self._reply(upstream_reset(reason, transport_failure=detail))
            return
        self.flags = (RESET_FLAGS[reason],)
        self.details = reset_details("upstream_reset_after_response_started", reason)
        self._end()
        self.encoder.reset()

    # Own

    def _on_request_complete(self, route: RouteAction) -> None:
        """Start the route's timeout: it covers attempts and the response's body, but not the client's sending."""
        self._request_complete_at = self._router.loop.time()
        if route.timeout_ms:
            self._router.deadlines.set(self._on_route_timeout, route.timeout_ms)

    def _elapsed_ms(self) -> int:
        """Time since the request was complete; 0 before that."""
        return int((self._router.loop.time() - self._request_complete_at) * 1000) if self._request_ended else 0

    def _on_route_timeout(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is None:
            return  # ended in the same sweep
        assert self.cluster is not None
        self.cluster.stats.upstream_rq_timeout += 1
        upstream.time_out(responding=self.status != 0)
        if not self.status:
            self._reply(ROUTE_TIMEOUT)
            return
        self.flags = (ResponseFlag.UPSTREAM_REQUEST_TIMEOUT,)
        self.details = ROUTE_TIMEOUT.details
        self._end()
        self.encoder.reset()

    def _reply(self, reply: LocalReply) -> None:
        """Answer the client ourselves."""
        self.status = reply.status
        self.flags = () if reply.flag is None else (reply.flag,)
        self.details = reply.details
        if self.cluster is not None:
            responses = self.cluster.stats.responses
            responses[reply.status] = responses.get(reply.status, 0) + 1
        headers: HeaderList = [(b"x-envoy-overloaded", b"true")] if reply.overloaded else []
        head = ResponseHead(reply.status, headers, 0)
        body = reply.body
        if body:
            head.content_length = len(body)
            headers += ((b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain"))
            head.end_stream = self.head.method == b"HEAD"
        self._end()
        self.encoder.encode_headers(head)
        if not head.end_stream:
            self.encoder.encode_data(body)
            self.encoder.encode_end([])

    def _finish(self) -> None:
        """A response of the host has gone out whole."""
        self._upstream = None
        cluster = self.cluster
        assert cluster is not None
        if self._request_ended:
            cluster.stats.request_time_ms.record(self._elapsed_ms())
        self._end()

    def _end(self) -> None:
        route = self._route
        if route is not None and route.timeout_ms:
            self._router.deadlines.clear(self._on_route_timeout, route.timeout_ms)
