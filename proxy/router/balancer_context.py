"""One pick of a host, as the balancer sees it: the request's hash, the hosts and priorities it has tried."""

from collections.abc import Sequence

from proxy.codec.headers import get_header
from proxy.codec.http1_request import RequestHead
from proxy.load_balancer import PreviousPriorities
from proxy.router.retry_state import RetryState
from proxy.router.route import ReadyRoute
from proxy.router.router import ResponseEncoder
from proxy.upstream.host import Host


class RequestView:
    """What hash policies read of a request."""

    __slots__ = ("_encoder", "_head")

    def __init__(self, head: RequestHead, encoder: ResponseEncoder) -> None:
        self._head = head
        self._encoder = encoder

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """The header lines."""
        return self._head.headers

    @property
    def path(self) -> bytes:
        """The target with its query."""
        return self._head.path

    @property
    def source_ip(self) -> str | None:
        """The client as `x-forwarded-for` names it last, since nobody here is asked to distrust it; else the peer."""
        forwarded = get_header(self._head.headers, b"x-forwarded-for")
        if forwarded:
            return forwarded.rpartition(b",")[2].strip().decode("latin-1")
        address = self._encoder.remote_address
        return address.rpartition(":")[0].strip("[]") or None

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`."""
        return self._encoder.remote_address

    @property
    def local_address(self) -> str:
        """Where the client has connected to."""
        return self._encoder.local_address


def make_context(
    route: ReadyRoute, head: RequestHead, encoder: ResponseEncoder
) -> "tuple[BalancerContext, tuple[bytes, ...]]":
    """Return what the balancer needs beyond chance, and the cookies that hashing made for the response."""
    if route.hash_policies is None:
        return BalancerContext(None), ()
    evaluated = route.hash_policies.evaluate(RequestView(head, encoder))
    return BalancerContext(evaluated.hash), evaluated.set_cookies


class BalancerContext:
    """A `LoadBalancerContext` of one request, for all its attempts.

    It has no `destination`: a client of an explicit proxy has connected to the proxy and to nowhere else. Nothing that
    the request says can stand for it, or a client could have the sidecar connect to any place; Envoy reads
    `x-envoy-original-dst-host` only when it is told `use_http_header`, which Istio does not say.
    """

    __slots__ = ("hash", "retry")

    destination: str | None = None

    def __init__(self, request_hash: int | None) -> None:
        self.hash = request_hash
        self.retry: RetryState | None = None  # set by the first failure

    @property
    def host_selection_retry_count(self) -> int:
        """How often a host that was tried may be drawn again before it is taken after all."""
        retry = self.retry
        if retry is None or not retry.tried or not retry.rules.policy.previous_hosts:
            return 0
        return retry.rules.policy.host_selection_retry_max_attempts

    @property
    def retry_priority(self) -> PreviousPriorities | None:
        """The priorities tried, if the policy looks at them."""
        return self.retry.priorities if self.retry is not None else None

    def should_select_another_host(self, host: Host) -> bool:
        """Whether an attempt has gone to this host."""
        return self.retry is not None and host in self.retry.tried
