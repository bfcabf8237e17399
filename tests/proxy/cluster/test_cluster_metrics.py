"""Statistics of a cluster that are more than one number of its own; expected values recorded from Envoy 1.40."""

import pytest

from proxy.cluster.cluster_metrics import cluster_metrics
from proxy.config.cluster_config import CircuitBreakers
from tests.proxy.cluster.environment import ClusterUnderTest, config

A = "10.0.0.1:80"
LIMITS = {
    "cx_open": ("max_connections", "connections"),
    "rq_open": ("max_requests", "requests"),
    "rq_pending_open": ("max_pending_requests", "pending_requests"),
    "rq_retry_open": ("max_retries", "retries"),
}


def values(subject):
    prefix = f"cluster.{subject.cluster.name}."
    return {metric.name.removeprefix(prefix): metric.value for metric in cluster_metrics(subject.cluster)}


@pytest.mark.parametrize("gauge", LIMITS)
@pytest.mark.parametrize(("count", "expected"), [(1, 0), (2, 1), (3, 1)])
def test_a_breaker_is_open_from_its_limit_on(gauge, count, expected):
    limit, resource = LIMITS[gauge]
    subject = ClusterUnderTest(config(A, circuit_breakers=CircuitBreakers(**{limit: 2})))
    setattr(subject.cluster.resources, resource, count)

    gauges = {name: values(subject)[f"circuit_breakers.default.{name}"] for name in LIMITS}

    assert gauges == dict.fromkeys(LIMITS, 0) | {gauge: expected}


@pytest.mark.parametrize("gauge", LIMITS)
def test_a_limit_of_0_that_nothing_got_past_is_not_open(gauge):
    limit, _ = LIMITS[gauge]
    subject = ClusterUnderTest(config(A, circuit_breakers=CircuitBreakers(**{limit: 0})))

    assert values(subject)[f"circuit_breakers.default.{gauge}"] == 0


def test_connections_get_past_a_limit_of_0_once_and_leave_it_open():
    subject = ClusterUnderTest(config(A, circuit_breakers=CircuitBreakers(max_connections=0)))
    subject.cluster.stats.upstream_cx_total = 1

    assert values(subject)["circuit_breakers.default.cx_open"] == 1


def test_the_high_priority_is_never_used():
    subject = ClusterUnderTest(config(A))

    assert {value for name, value in values(subject).items() if name.startswith("circuit_breakers.high.")} == {0}


def test_replies_are_counted_by_code_and_class_and_once_more_for_external_callers():
    subject = ClusterUnderTest(config(A))
    for status in (200, 201, 503, 503):
        subject.cluster.stats.count_response(status)

    found = values(subject)
    for infix in ("", "external."):
        counters = {name: found[f"{infix}upstream_rq_{name}"] for name in ("completed", "2xx", "5xx", "200", "503")}
        assert counters == {"completed": 4, "2xx": 2, "5xx": 2, "200": 1, "503": 2}


def test_responses_that_were_retried_are_counted_apart():
    subject = ClusterUnderTest(config(A))
    assert not any(name.startswith("retry.") for name in values(subject))

    subject.cluster.stats.count_retried_response(503)

    retried = {name: value for name, value in values(subject).items() if name.startswith("retry.")}
    assert retried == {"retry.upstream_rq_completed": 1, "retry.upstream_rq_5xx": 1, "retry.upstream_rq_503": 1}
