"""Requests that wait for a connection while too many are in flight: none is forgotten, no connection is lost."""

import asyncio

import pytest

from proxy.config.cluster_config import CircuitBreakers, ClusterConfig, Endpoint
from proxy.deadlines import Deadlines
from proxy.testing import FaultyUpstream
from proxy.upstream.connection_pool import ConnectionPool
from proxy.upstream.host import Host
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.stream import ResetReason
from tests.proxy.http.sidecar import until

IDLE_TIMEOUT_MS = 600_000  # a connection is not to close while a busy machine stands still


class WaitingRequest:
    """A client of the pool that notes what becomes of it."""

    def __init__(self):
        self.encoder = None
        self.failure = None

    def on_pool_ready(self, encoder):
        self.encoder = encoder

    def on_pool_failure(self, reason, detail):
        self.failure = reason

    @property
    def outcome(self):
        return self.failure or ("ready" if self.encoder is not None else None)


@pytest.fixture
def make_pool():
    pools = []

    def make(upstream, idle_timeout_ms=IDLE_TIMEOUT_MS, **limits):
        loop = asyncio.get_running_loop()
        resources = ResourceManager(CircuitBreakers(**limits))
        pool = ConnectionPool(
            Host(Endpoint(address=upstream.address)),
            ClusterConfig(name="c", service_host="c", port=80, idle_timeout_ms=idle_timeout_ms),
            resources=resources,
            stats=ClusterStats(),
            deadlines=Deadlines(loop),
            loop=loop,
        )
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


async def test_all_that_wait_for_a_connection_are_refused_when_it_comes(make_pool):
    """Envoy: `onUpstreamReady` goes through the queue; one after the other meets the limit."""
    async with FaultyUpstream() as upstream:
        pool = make_pool(upstream, max_connections=2, max_requests=1)
        first, *waiting = [WaitingRequest() for _ in range(4)]
        pool.new_stream(first)
        await until(lambda: first.outcome)
        for request in waiting:
            pool.new_stream(request)
        await until(lambda: waiting[0].outcome)

        assert first.outcome == "ready"
        assert [request.outcome for request in waiting] == [ResetReason.OVERFLOW] * 3
        assert (pool.stats.upstream_rq_active_overflow, pool.stats.upstream_rq_pending_active) == (3, 0)
        assert pool.stats.upstream_cx_active == 2
        first.encoder.reset()


async def test_a_connection_whose_request_was_refused_is_idle_from_then_on(make_pool):
    async with FaultyUpstream() as upstream:
        pool = make_pool(upstream, idle_timeout_ms=20, max_requests=0)
        request = WaitingRequest()
        pool.new_stream(request)
        await until(lambda: request.outcome)
        assert request.outcome is ResetReason.OVERFLOW

        await until(lambda: upstream.open_connections == 0)

        assert pool.stats.upstream_cx_idle_timeout == 1


async def test_an_idle_connection_is_kept_when_its_next_request_is_refused(make_pool):
    async with FaultyUpstream() as upstream:
        pool = make_pool(upstream, max_requests=0)
        for _ in range(3):
            request = WaitingRequest()
            pool.new_stream(request)
            await until(lambda request=request: request.outcome)
            assert request.outcome is ResetReason.OVERFLOW

        assert (upstream.connection_count, pool.stats.upstream_cx_active) == (1, 1)
