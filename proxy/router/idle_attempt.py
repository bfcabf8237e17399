"""An attempt that may not fall silent: the per-try idle timeout, for the routes that have one.

It runs from the end of the request on, and anew with each piece of the response. Ports
`UpstreamRequest::resetPerTryIdleTimer` and `Filter::onPerTryIdleTimeout` (Envoy, source/common/router).
"""

from typing import TYPE_CHECKING

from proxy.cluster.cluster import Cluster
from proxy.codec.headers import HeaderList
from proxy.codec.http1_response import ResponseHead
from proxy.deadlines import Deadlines
from proxy.router.local_reply import PER_TRY_IDLE_TIMEOUT
from proxy.router.route import ReadyRoute
from proxy.router.upstream_request import UpstreamRequest
from proxy.upstream.host import Host
from proxy.upstream.stream import ResetReason

if TYPE_CHECKING:
    from proxy.router.exchange import Exchange


class IdleWatchedRequest(UpstreamRequest):
    """An `UpstreamRequest` with an idle timeout."""

    __slots__ = ("_idle_timeout_ms",)

    def __init__(self, exchange: "Exchange", cluster: Cluster, host: Host, deadlines: Deadlines) -> None:
        super().__init__(exchange, cluster, host, deadlines)
        self._idle_timeout_ms = 0  # the timeout that is set; 0 when none is

    def start_per_try_timeout(self, route: ReadyRoute) -> None:
        """Give the attempt its own times, from now on."""
        super().start_per_try_timeout(route)
        if self.encoder is not None and route.per_try_idle_timeout_ms:
            self._idle_timeout_ms = route.per_try_idle_timeout_ms
            self._deadlines.set(self._on_idle_timeout, self._idle_timeout_ms)

    def cancel(self) -> None:
        """Give the attempt up; nobody is charged."""
        self._stop()
        super().cancel()

    def on_response_headers(self, head: ResponseHead) -> None:
        """Pass the head on."""
        super().on_response_headers(head)
        self._go_on()

    def on_response_data(self, data: bytes) -> None:
        """Pass a piece of body on."""
        super().on_response_data(data)
        self._go_on()

    def on_response_end(self, trailers: HeaderList) -> None:
        """The host has done its part."""
        self._stop()
        super().on_response_end(trailers)

    def on_response_reset(self, reason: ResetReason, detail: str) -> None:
        """Charge the host."""
        self._stop()
        super().on_response_reset(reason, detail)

    def _go_on(self) -> None:
        """Start the timeout anew, if it runs and the response is not over."""
        timeout_ms = self._idle_timeout_ms
        if timeout_ms:
            self._stop()
            if self.encoder is not None:
                self._idle_timeout_ms = timeout_ms
                self._deadlines.set(self._on_idle_timeout, timeout_ms)

    def _stop(self) -> None:
        if self._idle_timeout_ms:
            self._deadlines.clear(self._on_idle_timeout, self._idle_timeout_ms)
            self._idle_timeout_ms = 0

    def _on_idle_timeout(self) -> None:
        if not self._idle_timeout_ms:
            return  # ended in the same sweep
        self._cluster.stats.upstream_rq_per_try_idle_timeout += 1
        self.time_out(responding=False)
        exchange = self._exchange
        if exchange.status:
            exchange.refuse(PER_TRY_IDLE_TIMEOUT)
        else:
            exchange.on_per_try_timeout(PER_TRY_IDLE_TIMEOUT)
