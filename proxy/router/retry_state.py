"""Whether an attempt is made again, and after how long.

`RetryRules` is a route's policy made ready; `RetryState` is one request's use of it. Neither sends anything.
Ports `RetryStateImpl` (Envoy, source/common/router/retry_state_impl.cc).
"""

import enum
from collections.abc import Iterable

from outlier import RandomGenerator
from proxy.codec.grpc_headers import grpc_status
from proxy.codec.http1_response import ResponseHead
from proxy.config.route_config import RetryPolicy
from proxy.load_balancer import PreviousPriorities
from proxy.upstream.connection import GRPC_STATUS, RATE_LIMITED
from proxy.upstream.host import Host
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.stream import ResetReason

_DEFAULT_BASE_INTERVAL_MS = 25
_MAX_INTERVAL_FACTOR = 10

_GATEWAY_ERRORS = frozenset((502, 503, 504))
_GRPC_WORDS = {"cancelled": 1, "deadline-exceeded": 4, "resource-exhausted": 8, "internal": 13, "unavailable": 14}
_CONNECT_FAILURES = (ResetReason.CONNECTION_FAILURE, ResetReason.CONNECTION_TIMEOUT)


class Decision(enum.Enum):
    """What becomes of an attempt that did not go well."""

    NO = "not retriable"
    RETRY = "made again"
    LIMIT_EXCEEDED = "no tries left"
    OVERFLOW = "too many retries in the cluster"


class RetryRules:
    """A retry policy, its words read once for all requests of the route."""

    __slots__ = (
        "_connect_failures",
        "_gateway_errors",
        "_grpc_statuses",
        "_only_ratelimited",
        "_refused_streams",
        "_resets",
        "_server_errors",
        "_statuses",
        "_timeouts",
        "policy",
        "words",
    )

    def __init__(self, policy: RetryPolicy) -> None:
        words = {word.strip() for word in policy.retry_on.split(",")} - {""}
        self.policy = policy
        self.words = frozenset(words)
        self._server_errors = "5xx" in words
        self._gateway_errors = "gateway-error" in words
        self._only_ratelimited = "envoy-ratelimited" in words
        self._resets = bool(words & {"5xx", "gateway-error", "reset"})
        self._timeouts = self._resets
        self._refused_streams = self._resets or "refused-stream" in words
        # No byte of the request was sent, so "before the request" holds as well.
        self._connect_failures = self._resets or bool(words & {"connect-failure", "reset-before-request"})
        self._statuses = frozenset(_retriable_statuses(policy, words))
        self._grpc_statuses = frozenset(status for word, status in _GRPC_WORDS.items() if word in words)

    def retries_response(self, head: ResponseHead) -> bool:
        """Whether a response is to be tried again."""
        status = head.status
        if head.marks & RATE_LIMITED:
            return self._only_ratelimited
        if status >= 500 and (self._server_errors or (self._gateway_errors and status in _GATEWAY_ERRORS)):
            return True
        if status in self._statuses:
            return True
        # A status in trailers comes too late: the response is on its way to the client.
        told = bool(self._grpc_statuses and head.marks & GRPC_STATUS)
        return told and grpc_status(head.headers) in self._grpc_statuses

    def retries_reset(self, reason: ResetReason) -> bool:
        """Whether an attempt that was reset before response headers is to be tried again."""
        if reason is ResetReason.OVERFLOW:
            return False
        if reason is ResetReason.REMOTE_REFUSED_STREAM_RESET:
            return self._refused_streams
        return self._connect_failures if reason in _CONNECT_FAILURES else self._resets

    def retries_timeout(self) -> bool:
        """Whether an attempt whose own time was up is to be tried again."""
        return self._timeouts


class RetryState:
    """The tries of one request; also what its balancer has to know of the hosts tried."""

    __slots__ = ("_holding", "_left", "_random", "_resources", "_retries", "_stats", "priorities", "rules", "tried")

    def __init__(
        self, rules: RetryRules, resources: ResourceManager, stats: ClusterStats, random: RandomGenerator
    ) -> None:
        policy = rules.policy
        self.rules = rules
        self._left = policy.num_retries
        self._retries = 0
        self._holding = False
        self._resources = resources
        self._stats = stats
        self._random = random
        self.tried: set[Host] = set()
        frequency = policy.previous_priorities_update_frequency
        self.priorities = PreviousPriorities(frequency) if frequency is not None else None

    def on_host_attempted(self, host: Host) -> None:
        """Note that an attempt goes to `host`."""
        self.tried.add(host)
        if self.priorities is not None:
            self.priorities.on_host_attempted(host)

    def decide(self, *, retriable: bool) -> Decision:
        """Return what becomes of an attempt; a retry holds its place among the cluster's until the next call."""
        if retriable and self._left == 0:
            # The retry before is not given up by that: one that was late may succeed yet.
            self._stats.upstream_rq_retry_limit_exceeded += 1
            return Decision.LIMIT_EXCEEDED
        if self._holding and not retriable:
            self._stats.upstream_rq_retry_success += 1
        self.release()
        if not retriable:
            return Decision.NO
        self._left -= 1
        if not self._resources.can_retry():
            self._stats.upstream_rq_retry_overflow += 1
            return Decision.OVERFLOW
        self._resources.retries += 1
        self._holding = True
        self._retries += 1
        self._stats.upstream_rq_retry += 1
        self._stats.upstream_rq_retry_backoff_exponential += 1
        return Decision.RETRY

    def release(self) -> None:
        """Give the place among the cluster's retries back."""
        if self._holding:
            self._holding = False
            self._resources.retries -= 1

    def backoff_ms(self) -> int:
        """Return how long to wait before the retry decided on: random, below a bound that doubles each time."""
        base = self.rules.policy.base_interval_ms or _DEFAULT_BASE_INTERVAL_MS
        bound = min(base << (self._retries - 1), base * _MAX_INTERVAL_FACTOR)
        return int(self._random.random() % bound)


def _retriable_statuses(policy: RetryPolicy, words: set[str]) -> Iterable[int]:
    if "retriable-4xx" in words:
        yield 409
    if "retriable-status-codes" in words:
        yield from policy.retriable_status_codes
