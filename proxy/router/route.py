"""Routes made ready: what a request needs is looked up or computed once per configuration, not once per request."""

from collections.abc import Callable

import attrs

from proxy.codec.grpc_headers import GRPC_TIMEOUT, format_grpc_timeout, parse_grpc_timeout
from proxy.codec.headers import get_header, replace_header
from proxy.codec.http1_request import RequestHead
from proxy.config.route_config import Route, RouteAction, VirtualHost
from proxy.load_balancer.hash_policy import HashPolicies
from proxy.router.cors import compile_cors
from proxy.router.fault import compile_abort
from proxy.router.header_operations import compile_operations
from proxy.router.redirect import compile_direct_reply
from proxy.router.retry_state import RetryRules
from proxy.router.rewrite import compile_rewrite
from proxy.router.route_match import compile_match
from proxy.router.weighted_clusters import WeightedClusters


class ReadyRoute:
    """One route; parts that it has not are None, timeouts that it has not are 0.

    `for_mirrors` is what a copy of a request gets: the timeout and the hash, one attempt. `only_cluster` is the
    cluster of a route that does nothing but forward to it: no draw among clusters, no filter. `watches_attempts` says
    that its attempts are more than an `UpstreamRequest`.
    """

    __slots__ = (
        "abort",
        "clusters",
        "config",
        "cors",
        "direct_edits",
        "direct_reply",
        "fault",
        "for_mirrors",
        "hash_policies",
        "hedges",
        "matches",
        "mirrors",
        "only_cluster",
        "per_try_idle_timeout_ms",
        "per_try_timeout_ms",
        "retry_rules",
        "rewrite",
        "timeout_ms",
        "watches_attempts",
    )

    def __init__(self, config: Route) -> None:
        action = config.action
        retry = action.retry
        self.config = config
        self.matches: Callable[[RequestHead], bool] | None = compile_match(config.match)
        self.timeout_ms = action.timeout_ms
        self.per_try_timeout_ms = 0 if retry is None else retry.per_try_timeout_ms or 0
        self.per_try_idle_timeout_ms = 0 if retry is None else retry.per_try_idle_timeout_ms or 0
        self.hedges = action.hedge_on_per_try_timeout
        self.watches_attempts = self.hedges or bool(self.per_try_idle_timeout_ms)
        self.retry_rules = None if retry is None else RetryRules(retry)
        self.hash_policies = HashPolicies(action.hash_policy) if action.hash_policy else None
        self.fault = config.fault
        self.abort = None if config.fault is None else compile_abort(config.fault)
        self.cors = compile_cors(action.cors)
        self.direct_reply = compile_direct_reply(config)
        self.direct_edits = compile_operations(config.response_headers) if self.direct_reply is not None else None
        self.rewrite = compile_rewrite(config.match.path, action)
        self.mirrors = action.mirrors
        self.clusters = None if self.direct_reply is not None else WeightedClusters(config)
        self.only_cluster = self._only_cluster()
        self.for_mirrors = self if not action.mirrors else ReadyRoute(_for_mirrors(action))

    def grpc_timeout_ms(self, head: RequestHead) -> int:
        """Return how long a gRPC request may take, 0 for any time: what its client says within the route's timeout.

        Istio gives each route its timeout as `max_grpc_timeout` too. Ports `FilterUtility::finalTimeout`.
        """
        if not head.marks & GRPC_TIMEOUT:
            return self.timeout_ms
        own_ms = parse_grpc_timeout(get_header(head.headers, b"grpc-timeout") or b"")
        if not own_ms:
            return self.timeout_ms
        return min(own_ms, self.timeout_ms) if self.timeout_ms else own_ms

    def tell_expected_timeout(
        self, head: RequestHead, timeout_ms: int, elapsed_ms: int | None = None, *, is_grpc: bool
    ) -> None:
        """Let the host know how long it has at most.

        Args:
            head: What it is told in.
            timeout_ms: The request's timeout, 0 for none.
            elapsed_ms: How much of that has elapsed; for a retry only.
            is_grpc: Whether to say it in gRPC's own words too.
        """
        if not timeout_ms and not self.per_try_timeout_ms:
            return
        expected_ms = max(timeout_ms - (elapsed_ms or 0), 1) if timeout_ms else self.per_try_timeout_ms
        if self.per_try_timeout_ms:
            expected_ms = min(expected_ms, self.per_try_timeout_ms)
        line = (b"x-envoy-expected-rq-timeout-ms", b"%d" % expected_ms)
        if elapsed_ms is None:
            head.headers.append(line)  # a client's own was dropped
        else:
            replace_header(head.headers, *line)
        if is_grpc:
            replace_header(head.headers, b"grpc-timeout", format_grpc_timeout(expected_ms))

    def _only_cluster(self) -> str | None:
        filters = (self.fault, self.cors, self.direct_reply, self.rewrite, self.mirrors or None)
        only = self.clusters.only if self.clusters is not None else None
        if only is None or only.request_edits or only.response_edits or any(each is not None for each in filters):
            return None
        return only.cluster


def _for_mirrors(action: RouteAction) -> Route:
    kept = RouteAction(cluster=action.cluster, timeout_ms=action.timeout_ms, hash_policy=action.hash_policy)
    return Route(action=attrs.evolve(kept, weighted_clusters=action.weighted_clusters))


class ReadyVirtualHost:
    """The routes of one virtual host, in order."""

    __slots__ = ("config", "routes")

    def __init__(self, config: VirtualHost) -> None:
        self.config = config
        self.routes = tuple(map(ReadyRoute, config.routes))

    def select(self, head: RequestHead) -> ReadyRoute | None:
        """Return the first route that matches, or None."""
        for route in self.routes:
            if route.matches is None or route.matches(head):
                return route
        return None
