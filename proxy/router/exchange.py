"""One downstream request, from its head to the last byte of its response, over its attempts.

Finds the route, lets the cluster choose a host, sends the request there, tries again where the route says so, and
passes the response back or replies itself. Both sides are seams (`ResponseEncoder`, `upstream.stream`): no socket, no
wire format, no task, no await. Ports the router filter (Envoy, source/common/router/router.cc).
"""

from proxy.codec.grpc_headers import is_grpc_request
from proxy.codec.headers import HeaderList
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.response_flags import ResponseFlag
from proxy.router import local_reply
from proxy.router.attempts import Attempts
from proxy.router.balancer_context import make_context
from proxy.router.local_reply import LocalReply
from proxy.router.mirrored import DeafClient
from proxy.router.request_body import BUFFER_HIGH_WATER_BYTES, REPLAY_LIMIT_BYTES, RequestBody
from proxy.router.response_headers import prepare_response
from proxy.router.route import ReadyRoute, ReadyVirtualHost
from proxy.router.route_filters import RouteFilters, local_reply_head
from proxy.router.router import ResponseEncoder, Router
from proxy.upstream.stream import RequestEncoder, ResetReason


class Exchange(Attempts):
    """One request and its response.

    Attributes for the access log, besides those of `Attempts`: `status` is 0 until a response head was sent, `flags`
    and `details` say why the exchange ended as it did.
    """

    details = ""
    _filters: RouteFilters | None = None
    _set_cookies: tuple[bytes, ...] = ()
    _request_complete_at = 0.0

    def __init__(self, router: Router, encoder: ResponseEncoder, head: RequestHead) -> None:
        self._router = router
        self.encoder = encoder
        self.head = head
        self.is_grpc = is_grpc_request(head)
        self._request_ended = head.end_stream
        self._body = None if head.end_stream else RequestBody()

    def copy(self, head: RequestHead) -> "Exchange":
        """Return an exchange whose answers go nowhere, for a mirror."""
        client = DeafClient()
        exchange = client.exchange = Exchange(self._router, client, head)
        return exchange

    @property
    def request_complete(self) -> bool:
        """Whether all of the request has been received."""
        return self._request_ended

    # From the client

    def start(self, virtual_host: ReadyVirtualHost | None) -> None:
        """Route the request and start its first attempt, or reply at once."""
        router = self._router
        head = self.head
        if head.path[:1] != b"/" and head.method != b"CONNECT":
            self.reply(local_reply.ABSOLUTE_PATH_REJECTED)  # `OPTIONS *`: nothing that a route could match
            return
        route = virtual_host.select(head) if virtual_host is not None and head.method != b"CONNECT" else None
        if route is None:
            router.no_route += 1
            self.reply(local_reply.NO_ROUTE)
            return
        if route.only_cluster is not None:
            self.forward(route, route.only_cluster)
        else:
            self._filters = RouteFilters(route, router, self)
            self._filters.start()

    def forward(self, route: ReadyRoute, cluster_name: str) -> None:
        """Start the first attempt in a cluster; what the route does before that is done."""
        router = self._router
        cluster = router.clusters.get(cluster_name)
        if cluster is None:
            router.no_cluster += 1
            self.reply(local_reply.NO_CLUSTER)
            return
        self._route = route
        self.cluster = cluster
        self._timeout_ms = route.grpc_timeout_ms(self.head) if self.is_grpc else route.timeout_ms
        if self._request_ended:
            self._on_request_complete()
        route.tell_expected_timeout(self.head, self._timeout_ms, is_grpc=self.is_grpc)
        if self._filters is not None:
            self._filters.edit_request()
            self._filters.start_mirrors()
        self._retry_rules = route.retry_rules
        if route.hash_policies is not None:
            self._context, self._set_cookies = make_context(route, self.head, self.encoder)
        self._start_attempt(cluster, route)

    def on_request_data(self, data: bytes) -> None:
        """Take a piece of the request's body."""
        if self._filters is not None:
            self._filters.mirror_data(data)
        body = self._body
        if self._ended or body is None:
            return  # answered already
        upstream = self._upstream
        encoder = upstream.encoder if upstream is not None else None
        if encoder is not None:
            encoder.encode_data(data)
            if self._retry_rules is None or self.status:
                return
        body.add(data)
        if self._retry_rules is not None and body.size > REPLAY_LIMIT_BYTES:
            self._abandon_retries(body, sent=encoder is not None)
        elif encoder is None and body.size > BUFFER_HIGH_WATER_BYTES and not self._request_paused:
            self._request_paused = True
            self.encoder.pause_request()

    def on_request_end(self, trailers: HeaderList) -> None:
        """The request is complete."""
        if self._filters is not None:
            self._filters.mirror_end(trailers)
        self._request_ended = True
        if self._body is not None:
            self._body.end(trailers)
        if self._ended or self._route is None:
            return
        self._on_request_complete()
        if self._upstream is not None and self._upstream.encoder is not None:
            self._upstream.encoder.encode_end(trailers)
            self._upstream.start_per_try_timeout(self._route)

    def on_request_read_end(self) -> None:
        """No more of the request has arrived yet: send what there is."""
        if self._filters is not None:
            self._filters.mirror_read_end()
        if self._upstream is not None and self._upstream.encoder is not None:
            self._upstream.encoder.flush()

    def on_client_gone(self, *, reset: bool = False) -> None:
        """Nobody waits any more: stop the attempt, charge nobody; `reset` if only this request was given up."""
        self._request_paused = False
        self._cancel_attempts()
        if reset:
            self.flags = (*self.flags, ResponseFlag.DOWNSTREAM_REMOTE_RESET)
            self.details = "http2.remote_reset"
        else:
            self.flags = (*self.flags, ResponseFlag.DOWNSTREAM_CONNECTION_TERMINATION)
            self.details = "downstream_remote_disconnect"
        self._end()

    def on_response_writable(self, *, writable: bool) -> None:
        """The client takes no more of the response (or takes it again)."""
        for attempt in (self._upstream, *self._others):
            if attempt is not None and attempt.encoder is not None:
                (attempt.encoder.resume_reading if writable else attempt.encoder.pause_reading)()

    def refuse(self, reply: LocalReply) -> None:
        """Answer what cannot be served; if the response has begun, cut it off."""
        self._cancel_attempts()
        if not self.status:
            self.reply(reply)
            return
        self._cut_off(reply.flag, reply.details)

    # From the attempt

    def on_upstream_ready(self, encoder: RequestEncoder) -> None:
        """Send the request as far as it is here."""
        route = self._route
        assert route is not None
        head = self.head
        if self._request_paused:
            self._resume_request()  # before this host may say that it takes no more
        encoder.encode_headers(head, head.headers, end_stream=head.end_stream)
        if self._body is not None:
            self._send_body(self._body, encoder)
        if self._request_ended and self._upstream is not None:
            self._upstream.start_per_try_timeout(route)

    def on_upstream_writable(self, *, writable: bool) -> None:
        """The host takes no more of the request (or takes it again)."""
        if writable:
            self._resume_request()
        elif not self._request_paused:
            self._request_paused = True
            self.encoder.pause_request()

    def on_upstream_interim(self, head: ResponseHead) -> None:
        """Pass an interim head on; `100 Continue` was sent when it was asked for."""
        if head.status != 100 and not self.status:
            self.encoder.encode_interim(head)

    def on_upstream_headers(self, head: ResponseHead) -> bool:
        """Answer the client with the host's response, or try again; return whether it was for the client."""
        cluster = self.cluster
        assert cluster is not None
        rules = self._retry_rules
        if rules is not None:
            retriable = rules.retries_response(head)
            if (retriable or self._retry is not None) and self._goes_on(head, retriable=retriable):
                return False
            if self._body is not None:
                self._body.discard()
        self.status = head.status
        self.details = "via_upstream"
        cluster.stats.count_response(head.status)
        prepare_response(head, self._elapsed_ms(), self._set_cookies)
        if self._filters is not None:
            self._filters.on_response(head)
        self.encoder.encode_headers(head)
        if head.end_stream:
            self._finish()
        return True

    def on_upstream_end(self, trailers: HeaderList) -> None:
        """The host's response is complete."""
        self.encoder.encode_end(trailers)
        self._finish()

    def on_upstream_reset(self, reason: ResetReason, detail: str) -> None:
        """The attempt is lost: try again, reply, or cut the response off where it stands."""
        attempt, self._upstream = self._upstream, None
        assert attempt is not None
        self._resume_request()
        if self.status:
            self._cut_off(*local_reply.reset_after_start(reason))
            return
        if reason is ResetReason.OVERFLOW:
            self.host = None  # it never got the request
        rules = self._retry_rules
        if attempt.repeated or rules is None or not self._try_again(retriable=rules.retries_reset(reason)):
            reply = local_reply.upstream_reset(reason, retried=self.attempts > 1, transport_failure=detail)
            if self._waits_for_another():
                assert self.cluster is not None
                self.cluster.stats.count_response(reply.status)
            else:
                self.reply(reply)

    def on_per_try_timeout(self, reply: LocalReply) -> None:
        """The attempt's own time is up before response headers; `reply` is the answer without another attempt."""
        self._upstream = None
        self._resume_request()
        rules = self._retry_rules
        if rules is None or not self._try_again(retriable=rules.retries_timeout()):
            self.reply(reply)

    # The request's body

    def _abandon_retries(self, body: RequestBody, *, sent: bool) -> None:
        """The body is too long to be kept for them; what a connection is to be sent first is not let go."""
        assert self.cluster is not None
        if self._retry is not None:
            self._retry.release()
        self._retry_rules = None
        self.cluster.stats.retry_or_shadow_abandoned += 1
        if sent:
            body.discard()

    def _send_body(self, body: RequestBody, encoder: RequestEncoder) -> None:
        """Send what has been received of the body so far; keep it if it may be needed again."""
        body.send(encoder, complete=self._request_ended)
        if self._retry_rules is None:
            body.discard()

    # Time

    def _on_request_complete(self) -> None:
        """Start the request's timeout: it covers attempts and the response's body, but not the client's sending."""
        self._request_complete_at = self._router.loop.time()
        if self._timeout_ms:
            self._router.deadlines.set(self._on_route_timeout, self._timeout_ms)

    def _elapsed_ms(self) -> int:
        """Time since the request was complete; 0 before that."""
        return int((self._router.loop.time() - self._request_complete_at) * 1000) if self._request_ended else 0

    def _on_route_timeout(self) -> None:
        if self._ended:
            return  # in the same sweep
        cluster = self.cluster
        assert cluster is not None
        self._set_aside()
        attempts, self._others = self._others, ()
        cluster.stats.upstream_rq_timeout += len(attempts)
        for attempt in attempts:
            attempt.time_out(responding=self.status != 0)
        for _ in attempts[1:]:  # each counts, but one client is answered
            cluster.stats.count_response(local_reply.ROUTE_TIMEOUT.status)
        if self.status:
            self._cut_off(local_reply.ROUTE_TIMEOUT.flag, local_reply.ROUTE_TIMEOUT.details)
        else:
            self.reply(local_reply.ROUTE_TIMEOUT)

    # The end

    def reply(self, reply: LocalReply, first: HeaderList | None = None, *, grpc_status: int | None = None) -> None:
        """Answer the client ourselves; `first` are lines before all others."""
        if reply.flag is not None:
            self.flags = (*self.flags, reply.flag)
        self.details = reply.details
        if self.cluster is not None and self._route is not None:  # forwarded there, not only meant to be
            self.cluster.stats.count_response(reply.status)
        head = local_reply_head(reply, self, self._filters, first or [], grpc_status)
        self.reply_head(head, reply.details, reply.body)

    def reply_head(self, head: ResponseHead, details: str, body: bytes = b"") -> None:
        """Answer the client ourselves, with this very head; `body` is sent unless the head ends the response."""
        self.status = head.status
        self.details = details
        self._end()
        self.encoder.encode_headers(head)
        if not head.end_stream:
            self.encoder.encode_data(body)
            self.encoder.encode_end([])

    def _cut_off(self, flag: ResponseFlag | None, details: str) -> None:
        """End a response in the middle."""
        self.flags = () if flag is None else (flag,)
        self.details = details
        self._end()
        self.encoder.reset()

    def _finish(self) -> None:
        """A response of the host has gone out whole."""
        self._upstream = None
        if self._request_ended and self.cluster is not None:
            self.cluster.stats.request_time_ms.record(self._elapsed_ms())
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._filters is not None:
            self._filters.cancel()
            self.flags = (*self._filters.flags, *self.flags)
        if self._timeout_ms:
            self._router.deadlines.clear(self._on_route_timeout, self._timeout_ms)
        if self._retry is not None:
            self._stop_retrying()
        if self._request_paused:
            self._resume_request()
