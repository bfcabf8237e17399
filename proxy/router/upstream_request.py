"""One attempt of a request on one host.

Waits for a stream, sends what the exchange has, hears the response and charges the host for what happened: its
counters and its outlier monitor. Whether the client sees it is the exchange's to decide. Ports `UpstreamRequest` and
the reporting of `Filter` (Envoy, source/common/router/{upstream_request,router}.cc).
"""

from typing import TYPE_CHECKING

from outlier import grpc_to_http_status
from outlier.reporting import report_connected, report_overflow, report_reset, report_timeout
from proxy.cluster.cluster import Cluster
from proxy.codec.grpc_headers import grpc_status
from proxy.codec.headers import HeaderList
from proxy.codec.http1_response import ResponseHead
from proxy.deadlines import Deadlines
from proxy.router.local_reply import PER_TRY_TIMEOUT
from proxy.router.route import ReadyRoute
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.stream import RequestEncoder, ResetReason

if TYPE_CHECKING:
    from proxy.router.exchange import Exchange

_EJECTED = int(HealthFlag.FAILED_OUTLIER_CHECK)


class UpstreamRequest:
    """A `PoolClient` for one exchange; `encoder` is set while a stream is held."""

    __slots__ = (
        "_cluster",
        "_deadlines",
        "_exchange",
        "_per_try_timeout_ms",
        "_status_due",
        "_waiting",
        "encoder",
        "host",
    )

    repeated = False  # whether another attempt was made in its place while it goes on

    def __init__(self, exchange: "Exchange", cluster: Cluster, host: Host, deadlines: Deadlines) -> None:
        self._exchange = exchange
        self._cluster = cluster
        self._deadlines = deadlines
        self._per_try_timeout_ms = 0  # the timeout that is set; 0 when none is
        self._status_due = False  # a gRPC response has begun, and its end says whether it is a success
        self._waiting = True
        self.host = host
        self.encoder: RequestEncoder | None = None

    @property
    def authority(self) -> bytes:
        """The request's host."""
        return self._exchange.head.authority

    @property
    def http2(self) -> bool:
        """Whether the client speaks HTTP/2."""
        return self._exchange.head.http2

    def start(self) -> None:
        """Ask the host's pool for a stream."""
        host = self.host
        if host.health_flags & _EJECTED or self._exchange.in_panic:
            self._exchange.in_panic = host.health_flags & _EJECTED != 0
        pool = host.pool
        assert pool is not None, "a host that can be chosen has a pool"
        pool.new_stream(self)

    def start_per_try_timeout(self, route: ReadyRoute) -> None:
        """Give the attempt its own time, from now on; the request is complete and on its way."""
        if route.per_try_timeout_ms and self.encoder is not None:
            self._per_try_timeout_ms = route.per_try_timeout_ms
            self._deadlines.set(self._on_per_try_timeout, route.per_try_timeout_ms)

    def cancel(self) -> None:
        """Give the attempt up; nobody is charged."""
        self._clear_per_try_timeout()
        if self.encoder is not None:
            encoder, self.encoder = self.encoder, None
            encoder.reset()
        elif self._waiting:
            self._waiting = False
            pool = self.host.pool
            assert pool is not None
            pool.cancel(self)

    def time_out(self, *, responding: bool) -> None:
        """Give the attempt up because its time is over; a host that had the request and owes the head is charged."""
        if self.encoder is not None:
            self.host.rq_timeout += 1
            if not responding:
                self._count_lost()
            self._charge_timeout(responding=responding)
        self.cancel()

    # PoolClient

    def on_pool_ready(self, encoder: RequestEncoder) -> None:
        """Send the request."""
        self._waiting = False
        self.encoder = encoder
        report_connected(self.host.monitor)
        if self.host.shadow is not None:
            self.host.shadow.connected(self.host)
        self._exchange.on_upstream_ready(encoder)

    def on_pool_failure(self, reason: ResetReason, detail: str) -> None:
        """No stream; an overflow of our own limits is not the host's fault."""
        self._waiting = False
        if reason is ResetReason.OVERFLOW:
            report_overflow(self.host.monitor)
            if self.host.shadow is not None:
                self.host.shadow.overflowed(self.host)
        else:
            self._charge_reset()
        self._exchange.on_upstream_reset(reason, detail)

    # ResponseDecoder

    def on_response_headers(self, head: ResponseHead) -> None:
        """Charge the host by the status and pass the head on."""
        status = head.status
        if status < 200 and status != 101:
            self._exchange.on_upstream_interim(head)
            return
        self._clear_per_try_timeout()
        host = self.host
        self._cluster.report_response(host, self._exchange.head, head)
        if host.shadow is not None:
            host.shadow.responded(host, self._exchange.head, head)
        if head.end_stream:
            self.encoder = None
        if not self._exchange.on_upstream_headers(head) or status >= 500:
            host.rq_error += 1  # what is tried again has failed, whatever its status
        elif not self._exchange.is_grpc:
            host.rq_success += 1
        elif head.end_stream:
            self._count_grpc_status(head.headers)
        else:
            self._status_due = True

    def on_response_data(self, data: bytes) -> None:
        """Pass a piece of body on."""
        self._exchange.encoder.encode_data(data)

    def on_response_read_end(self) -> None:
        """Let the client have what has arrived."""
        self._exchange.encoder.flush()

    def on_response_end(self, trailers: HeaderList) -> None:
        """The host has done its part."""
        self.encoder = None
        if self._status_due:
            self._count_grpc_status(trailers)
        self._exchange.on_upstream_end(trailers)

    def on_response_reset(self, reason: ResetReason, detail: str) -> None:
        """Charge the host, after a reported status as well: Envoy counts both."""
        self.encoder = None
        self._clear_per_try_timeout()
        self._charge_reset()
        self._exchange.on_upstream_reset(reason, detail)

    def on_request_writable(self, *, writable: bool) -> None:
        """Stop or go on reading the client's body."""
        self._exchange.on_upstream_writable(writable=writable)

    def _on_per_try_timeout(self) -> None:
        if not self._per_try_timeout_ms:
            return  # ended in the same sweep
        self._cluster.stats.upstream_rq_per_try_timeout += 1
        self.time_out(responding=False)
        self._exchange.on_per_try_timeout(PER_TRY_TIMEOUT)

    def _charge_timeout(self, *, responding: bool) -> None:
        report_timeout(self.host.monitor, responding=responding)
        if self.host.shadow is not None:
            self.host.shadow.timed_out(self.host, responding=responding)

    def _clear_per_try_timeout(self) -> None:
        if self._per_try_timeout_ms:
            self._deadlines.clear(self._on_per_try_timeout, self._per_try_timeout_ms)
            self._per_try_timeout_ms = 0

    def _count_grpc_status(self, headers: HeaderList) -> None:
        """Count a gRPC response on its host by what stands in its head or its trailers; without a status it failed."""
        status = grpc_status(headers)
        if status is None or grpc_to_http_status(status) >= 500:
            self.host.rq_error += 1
        else:
            self.host.rq_success += 1

    def _count_lost(self) -> None:
        """Count an attempt that came to nothing on its host, unless its head has been counted already."""
        if not self._exchange.status or self._status_due:
            self.host.rq_error += 1

    def _charge_reset(self) -> None:
        self._count_lost()
        report_reset(self.host.monitor)
        if self.host.shadow is not None:
            self.host.shadow.reset(self.host)
