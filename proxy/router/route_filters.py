"""What a route does to a request and its response besides forwarding it.

Faults, CORS, replies of its own, header operations, rewrites and mirrors.
In the order of Istio's filters: delay, abort, preflight, redirect or direct response; then, with the cluster known,
header operations and rewrites. Most routes have none of this, and their exchanges no `RouteFilters`.
"""

from typing import TYPE_CHECKING

from proxy.codec.headers import HeaderList, remove_headers
from proxy.codec.http1_response import ResponseHead
from proxy.response_flags import ResponseFlag
from proxy.router.cors import PREFLIGHT_DETAILS
from proxy.router.fault import DELAY_FLAG, draw_abort, draw_delay_ms
from proxy.router.grpc_reply import grpc_reply_headers
from proxy.router.local_reply import LocalReply
from proxy.router.mirror import is_mirrored, mirrored_head
from proxy.router.route import ReadyRoute
from proxy.router.router import Router
from proxy.router.weighted_clusters import ClusterChoice

if TYPE_CHECKING:
    from proxy.router.exchange import Exchange


class RouteFilters:
    """The filters of one exchange. `flags` go to the access log whatever becomes of the request."""

    __slots__ = (
        "_allowed_origin",
        "_choice",
        "_delay_ms",
        "_exchange",
        "_mirrors",
        "_random_value",
        "_route",
        "_router",
        "flags",
    )

    def __init__(self, route: ReadyRoute, router: Router, exchange: "Exchange") -> None:
        self._route = route
        self._router = router
        self._exchange = exchange
        self._choice: ClusterChoice | None = None
        self._allowed_origin: bytes | None = None
        self._delay_ms: int | None = None  # the fault's delay, while it lasts
        self._mirrors: list[Exchange] = []
        self._random_value = router.random.random()
        self.flags: tuple[ResponseFlag, ...] = ()

    def start(self) -> None:
        """Delay the request if its fault says so, then go on."""
        fault = self._route.fault
        delay_ms = draw_delay_ms(fault, self._router.random) if fault is not None else 0
        if not delay_ms:
            self._go_on()
            return
        self.flags = (DELAY_FLAG,)
        self._delay_ms = delay_ms
        self._router.deadlines.set(self._on_delay_end, delay_ms)

    def cancel(self) -> None:
        """The exchange has ended; a copy that is not complete is nobody's any more."""
        for copy in self._mirrors:
            if not copy.request_complete:
                copy.on_client_gone()
        if self._delay_ms is not None:
            self._router.deadlines.clear(self._on_delay_end, self._delay_ms)
            self._delay_ms = None

    def edit_request(self) -> None:
        """Change the request's head for the cluster that was chosen."""
        head = self._exchange.head
        if self._choice is not None and self._choice.request_edits is not None:
            self._choice.request_edits.apply_to_request(head, self._exchange)
        if self._route.rewrite is not None:
            self._route.rewrite(head)

    def start_mirrors(self) -> None:
        """Send copies of the request's head; a copy for a cluster that is not there is dropped."""
        exchange = self._exchange
        for mirror in self._route.mirrors:
            if mirror.cluster in self._router.clusters and is_mirrored(mirror, self._random_value):
                own_address = exchange.encoder.local_address.rpartition(":")[0].encode("latin-1")
                copy = exchange.copy(mirrored_head(exchange.head, exchange.head.headers, own_address))
                self._mirrors.append(copy)
                copy.forward(self._route.for_mirrors, mirror.cluster)

    def mirror_data(self, data: bytes) -> None:
        """Send copies of a piece of the request's body."""
        for mirror in self._mirrors:
            mirror.on_request_data(data)

    def mirror_read_end(self) -> None:
        """No more of it has arrived yet."""
        for mirror in self._mirrors:
            mirror.on_request_read_end()

    def mirror_end(self, trailers: HeaderList) -> None:
        """The request is complete."""
        for mirror in self._mirrors:
            mirror.on_request_end(trailers)

    def on_response(self, head: ResponseHead) -> None:
        """Finish the head of the host's response."""
        self.edit_response(head)
        self.allow_origin(head)

    def edit_response(self, head: ResponseHead) -> None:
        """Apply the route's header operations to a response, the host's or our own."""
        edits = self._route.direct_edits if self._choice is None else self._choice.response_edits
        if edits is not None:
            edits.apply_to_response(head, self._exchange)

    def allow_origin(self, head: ResponseHead) -> None:
        """Let the page that asked read the response, if it may; behind everything else."""
        if self._route.cors is not None and self._allowed_origin is not None:
            self._route.cors.apply_to_response(head, self._allowed_origin)

    def _on_delay_end(self) -> None:
        if self._delay_ms is not None:
            self._delay_ms = None
            self._go_on()

    def _go_on(self) -> None:
        """Abort, answer, or forward."""
        route = self._route
        exchange = self._exchange
        if route.clusters is not None:
            self._choice = route.clusters.only or route.clusters.choose(self._random_value)
            exchange.cluster = self._router.clusters.get(self._choice.cluster)  # for the log, whatever comes of it
        if route.fault is not None and route.abort is not None and draw_abort(route.fault, self._router.random):
            exchange.reply(route.abort.reply, grpc_status=route.abort.grpc_status)
            return
        if route.cors is not None:
            self._allowed_origin = route.cors.allowed_origin(exchange.head)
            preflight = route.cors.preflight_reply(exchange.head, self._allowed_origin)
            if preflight is not None:
                exchange.reply_head(preflight, PREFLIGHT_DETAILS)
                return
        if route.direct_reply is not None:
            reply, location = route.direct_reply
            first = [(b"location", location(exchange.head))] if location is not None else []
            exchange.reply(reply, first)
        elif self._choice is not None:
            exchange.forward(route, self._choice.cluster)


def local_reply_head(
    reply: LocalReply, exchange: "Exchange", filters: RouteFilters | None, first: HeaderList, grpc_status: int | None
) -> ResponseHead:
    """Return the head of a reply of ours, as the client of `exchange` understands it.

    The route's header operations come before the lines of length and type, and may replace those.

    Args:
        reply: The reply.
        exchange: Whose.
        filters: The route's.
        first: Lines before all others.
        grpc_status: For a gRPC client; None derives it from the reply's status.
    """
    is_grpc = exchange.is_grpc
    if is_grpc:
        grpc_lines = grpc_reply_headers(reply.status, reply.body, grpc_status=grpc_status)
        head = ResponseHead(200, reply.overload_headers() + grpc_lines, 0)
    else:
        head = reply.head(head_request=exchange.head.method == b"HEAD")
    if filters is not None or first:
        own, head.headers = head.headers, first
        if filters is not None:
            filters.edit_response(head)
        if is_grpc:
            remove_headers(head.headers, {b"content-type"})  # a gRPC client would take any other for no gRPC at all
        names = {name for name, _ in head.headers}
        head.headers += [line for line in own if line[0] not in names]
    if filters is not None:
        filters.allow_origin(head)
    return head
