"""An attempt that is kept when its time is up: hedging, for the routes that ask for it.

Its timeout is told to the host's monitor when it is over, once; its response, should it still come, as well. Ports
`Filter::onSoftPerTryTimeout` (Envoy, source/common/router/router.cc).
"""

from typing import TYPE_CHECKING

from proxy.cluster.cluster import Cluster
from proxy.codec.http1_response import ResponseHead
from proxy.deadlines import Deadlines
from proxy.router.idle_attempt import IdleWatchedRequest
from proxy.upstream.host import Host
from proxy.upstream.stream import RequestEncoder, ResetReason

if TYPE_CHECKING:
    from proxy.router.exchange import Exchange


class HedgedRequest(IdleWatchedRequest):
    """An `UpstreamRequest` beside which others may be under way."""

    __slots__ = ("_late", "repeated")

    def __init__(self, exchange: "Exchange", cluster: Cluster, host: Host, deadlines: Deadlines) -> None:
        super().__init__(exchange, cluster, host, deadlines)
        self._late = False
        self.repeated = False

    def on_pool_ready(self, encoder: RequestEncoder) -> None:
        """Send the request."""
        self._exchange.hear(self)
        super().on_pool_ready(encoder)

    def on_pool_failure(self, reason: ResetReason, detail: str) -> None:
        """No stream."""
        self._exchange.hear(self)
        super().on_pool_failure(reason, detail)

    def on_response_headers(self, head: ResponseHead) -> None:
        """Charge the host and pass the head on."""
        self._exchange.hear(self)
        super().on_response_headers(head)

    def on_response_reset(self, reason: ResetReason, detail: str) -> None:
        """Charge the host."""
        self._exchange.hear(self)
        super().on_response_reset(reason, detail)

    def _charge_timeout(self, *, responding: bool) -> None:
        if not self._late:
            super()._charge_timeout(responding=responding)

    def _on_per_try_timeout(self) -> None:
        if self._per_try_timeout_ms:
            self._per_try_timeout_ms = 0
            self._be_late()

    def _on_idle_timeout(self) -> None:
        if self._idle_timeout_ms:
            self._idle_timeout_ms = 0
            self._be_late()

    def _be_late(self) -> None:
        if self._late:
            return
        self._charge_timeout(responding=False)
        self._late = True
        self._exchange.hear(self)
        self.repeated = self._exchange.on_late()
