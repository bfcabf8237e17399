"""What a retry policy makes of an attempt: rows of Envoy's recorded matrix, and the arithmetic around them."""

import pytest

from outlier import ListedRandom, SeededRandom
from proxy.config.cluster_config import CircuitBreakers
from proxy.config.route_config import RetryPolicy
from proxy.router.retry_state import Decision, RetryRules, RetryState
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.stream import ResetReason
from tests.proxy.router.heads import response_head

CONNECT = (ResetReason.CONNECTION_FAILURE, ResetReason.CONNECTION_TIMEOUT)
AFTER_SEND = (ResetReason.CONNECTION_TERMINATION, ResetReason.REMOTE_RESET, ResetReason.PROTOCOL_ERROR)
STATUSES = (200, 400, 404, 409, 429, 499, 500, 501, 502, 503, 504, 505, 599)


def rules(retry_on: str, **fields) -> RetryRules:
    return RetryRules(RetryPolicy(**{"num_retries": 1, "retry_on": retry_on, **fields}))


# word: statuses, resets after sending, failed connects, per-try timeouts
MATRIX = {
    "5xx": ({500, 501, 502, 503, 504, 505, 599}, True, True, True),
    "gateway-error": ({502, 503, 504}, True, True, True),
    "reset": (set(), True, True, True),
    "connect-failure": (set(), False, True, False),
    "refused-stream": (set(), False, False, False),
    "reset-before-request": (set(), False, True, False),
    "retriable-4xx": ({409}, False, False, False),
    "retriable-status-codes": ({404, 429}, False, False, False),
    "envoy-ratelimited": (set(), False, False, False),
    "": (set(), False, False, False),
}


@pytest.mark.parametrize("word", MATRIX)
def test_row_of_the_matrix(word):
    statuses, after_send, connect, timeout = MATRIX[word]
    subject = rules(word, retriable_status_codes=(404, 429))

    assert {status for status in STATUSES if subject.retries_response(response_head(status=status))} == statuses
    assert [subject.retries_reset(reason) for reason in AFTER_SEND] == [after_send] * 3
    assert [subject.retries_reset(reason) for reason in CONNECT] == [connect] * 2
    assert subject.retries_timeout() is timeout


@pytest.mark.parametrize("word", MATRIX)
def test_refused_stream_is_tried_again_by_its_own_word_and_those_of_all_resets(word):
    retried = rules(word).retries_reset(ResetReason.REMOTE_REFUSED_STREAM_RESET)

    assert retried is (word in {"5xx", "gateway-error", "reset", "refused-stream"})


@pytest.mark.parametrize("word", MATRIX)
def test_overflow_is_never_tried_again(word):
    assert not rules(word).retries_reset(ResetReason.OVERFLOW)


@pytest.mark.parametrize("retry_on", ["5xx,retriable-4xx", ",5xx , retriable-4xx", "retriable-4xx,5xx,"])
def test_words_add_up_and_blanks_do_not_matter(retry_on):
    """Istio's own list starts with a comma."""
    subject = rules(retry_on)

    assert [subject.retries_response(response_head(status=status)) for status in (409, 503)] == [True, True]


@pytest.mark.parametrize(
    ("retry_on", "retried"), [("5xx", False), ("5xx,envoy-ratelimited", True), ("envoy-ratelimited", True)]
)
@pytest.mark.parametrize("status", [200, 503])
def test_ratelimited_responses_are_tried_again_only_when_asked_for(retry_on, retried, status):
    head = response_head("x-envoy-ratelimited: true", status=status)

    assert rules(retry_on).retries_response(head) is retried


def test_overloaded_responses_are_tried_again():
    assert rules("5xx").retries_response(response_head("x-envoy-overloaded: true", status=503))


class TestState:
    def state(self, num_retries=2, random=None, resources=None, stats=None, **fields):
        policy = rules("5xx", num_retries=num_retries, **fields)
        resources = resources or ResourceManager(CircuitBreakers())
        return RetryState(policy, resources, stats or ClusterStats(), random or SeededRandom(1))

    def test_so_many_tries_and_no_more(self):
        subject = self.state(num_retries=2)

        decisions = [subject.decide(retriable=True) for _ in range(3)]

        assert decisions == [Decision.RETRY, Decision.RETRY, Decision.LIMIT_EXCEEDED]

    def test_none_at_all_when_the_policy_says_0(self):
        """facts: "num_retries: 0 means 0 (one attempt, and URX is set when the policy would have retried)"."""
        assert self.state(num_retries=0).decide(retriable=True) is Decision.LIMIT_EXCEEDED

    def test_what_is_not_retriable_uses_no_try(self):
        subject = self.state(num_retries=1)

        assert subject.decide(retriable=False) is Decision.NO
        assert subject.decide(retriable=True) is Decision.RETRY

    def test_a_retry_occupies_its_resource_until_the_next_decision(self):
        resources = ResourceManager(CircuitBreakers(max_retries=1))
        first, second = self.state(resources=resources), self.state(resources=resources)

        assert first.decide(retriable=True) is Decision.RETRY
        assert second.decide(retriable=True) is Decision.OVERFLOW
        first.decide(retriable=False)
        assert resources.retries == 0

    def test_release_is_once(self):
        resources = ResourceManager(CircuitBreakers())
        subject = self.state(resources=resources)
        subject.decide(retriable=True)
        subject.release()
        subject.release()

        assert resources.retries == 0

    def test_tries_are_counted_before_the_breaker(self):
        """facts: "would retry? -> tries left? (decrement) -> breaker -> go"."""
        resources = ResourceManager(CircuitBreakers(max_retries=0))
        subject = self.state(num_retries=1, resources=resources)

        assert [subject.decide(retriable=True) for _ in range(2)] == [Decision.OVERFLOW, Decision.LIMIT_EXCEEDED]

    def test_counters(self):
        stats = ClusterStats()
        subject = self.state(num_retries=1, stats=stats)
        subject.decide(retriable=True)
        subject.decide(retriable=True)
        other = self.state(stats=stats)
        other.decide(retriable=True)
        other.decide(retriable=False)

        assert (stats.upstream_rq_retry, stats.upstream_rq_retry_success) == (2, 1)
        assert (stats.upstream_rq_retry_limit_exceeded, stats.upstream_rq_retry_overflow) == (1, 0)

    @pytest.mark.parametrize(
        ("fields", "bounds"),
        [
            ({}, [25, 50, 100, 200, 250, 250]),
            ({"base_interval_ms": 100}, [100, 200, 400, 800, 1_000, 1_000]),
            ({"base_interval_ms": 1}, [1, 2, 4, 8, 10, 10]),
        ],
        ids=["default", "100", "1"],
    )
    def test_back_off_is_below_a_bound_that_doubles_up_to_ten_times_the_base(self, fields, bounds):
        """facts: uniform integer ms in [0, min(base*2^(k-1), max)), base 25, max 10*base."""
        for offset in (0, -1):
            subject = self.state(num_retries=6, random=ListedRandom([bound + offset for bound in bounds]), **fields)
            waits = []
            for _ in bounds:
                subject.decide(retriable=True)
                waits.append(subject.backoff_ms())
            assert waits == [0 if offset == 0 else bound - 1 for bound in bounds]
