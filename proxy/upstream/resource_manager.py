"""How much of a cluster may be in use at once: its circuit breakers.

Counts connections, pending requests, requests and retries against their limits. Reaching a limit refuses the next
one; nothing trips for a time. Ports `ResourceManagerImpl` (Envoy, source/common/upstream/resource_manager_impl.h) for
the default priority.
"""

from proxy.config.cluster_config import CircuitBreakers


class ResourceManager:
    """Counts in use; `limits` may be replaced while requests run."""

    __slots__ = ("connections", "limits", "pending_requests", "requests", "retries")

    def __init__(self, limits: CircuitBreakers) -> None:
        self.limits = limits
        self.connections = 0
        self.pending_requests = 0
        self.requests = 0
        self.retries = 0

    @property
    def max_retries(self) -> int:
        """The limit of concurrent retries: a share of the requests in flight where a budget is set."""
        budget = self.limits.retry_budget
        if budget is None:
            return self.limits.max_retries
        in_flight = self.requests + self.pending_requests
        return max(budget.min_retry_concurrency, int(budget.budget_percent * in_flight / 100.0))

    def can_connect(self) -> bool:
        """Whether one more connection is within the limit."""
        return self.connections < self.limits.max_connections

    def can_wait(self) -> bool:
        """Whether one more request may wait for a connection."""
        return self.pending_requests < self.limits.max_pending_requests

    def can_retry(self) -> bool:
        """Whether one more retry may be scheduled or in flight."""
        return self.retries < self.max_retries
