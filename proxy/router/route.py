"""Routes made ready: what a request needs is looked up or computed once per configuration, not once per request."""

from collections.abc import Callable

from proxy.codec.http1_request import RequestHead
from proxy.config.route_config import Route, VirtualHost
from proxy.load_balancer.hash_policy import HashPolicies
from proxy.router.retry_state import RetryRules
from proxy.router.route_match import compile_match


class ReadyRoute:
    """One route. `hash_policies` and `retry_rules` are None where it has none; timeouts of 0 mean none."""

    __slots__ = ("cluster", "config", "hash_policies", "matches", "per_try_timeout_ms", "retry_rules", "timeout_ms")

    def __init__(self, config: Route) -> None:
        action = config.action
        self.config = config
        self.matches: Callable[[RequestHead], bool] | None = compile_match(config.match)
        self.cluster = action.cluster
        self.timeout_ms = action.timeout_ms
        self.per_try_timeout_ms = action.retry.per_try_timeout_ms or 0 if action.retry is not None else 0
        self.hash_policies = HashPolicies(action.hash_policy) if action.hash_policy else None
        self.retry_rules = RetryRules(action.retry) if action.retry is not None else None


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
