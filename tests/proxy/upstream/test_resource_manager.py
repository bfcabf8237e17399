"""Circuit breakers: the next one is refused when the limit is in use, and no sooner."""

import pytest

from proxy.config.cluster_config import CircuitBreakers, RetryBudget
from proxy.upstream.resource_manager import ResourceManager

RESOURCES = {
    "connections": ("max_connections", ResourceManager.can_connect),
    "pending_requests": ("max_pending_requests", ResourceManager.can_wait),
    "retries": ("max_retries", ResourceManager.can_retry),
}


@pytest.mark.parametrize(("in_use", "allowed"), [(1, True), (2, False), (3, False)])
@pytest.mark.parametrize("resource", RESOURCES)
def test_limit_is_the_most_in_use(resource, in_use, allowed):
    limit, can = RESOURCES[resource]
    manager = ResourceManager(CircuitBreakers(**{limit: 2}))
    setattr(manager, resource, in_use)

    assert can(manager) is allowed


@pytest.mark.parametrize("resource", RESOURCES)
def test_limit_0_allows_none(resource):
    limit, can = RESOURCES[resource]

    assert can(ResourceManager(CircuitBreakers(**{limit: 0}))) is False


@pytest.mark.parametrize(("in_use", "allowed"), [(4_294_967_294, True), (4_294_967_295, False)])
def test_limit_is_istios_when_nothing_is_said(in_use, allowed):
    manager = ResourceManager(CircuitBreakers())
    manager.connections = in_use

    assert manager.can_connect() is allowed


@pytest.mark.parametrize(
    ("percent", "least", "active", "pending", "limit"),
    [
        (20.0, 3, 0, 0, 3),
        (20.0, 3, 19, 0, 3),
        (20.0, 3, 20, 0, 4),
        (20.0, 3, 15, 5, 4),
        (0.0, 0, 100, 100, 0),
        (100.0, 0, 3, 0, 3),
        (12.5, 0, 16, 0, 2),
    ],
)
def test_budget_replaces_the_limit_of_retries(percent, least, active, pending, limit):
    """facts: max(min_retry_concurrency, budget_percent of active and pending requests)."""
    budget = RetryBudget(budget_percent=percent, min_retry_concurrency=least)
    manager = ResourceManager(CircuitBreakers(max_retries=1, retry_budget=budget))
    manager.requests, manager.pending_requests = active, pending

    manager.retries = limit
    assert not manager.can_retry()
    if limit:
        manager.retries = limit - 1
        assert manager.can_retry()
