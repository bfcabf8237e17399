"""HTTP checks on real sockets: the request, what a response means, and when a connection is kept."""

import asyncio

import pytest

from proxy.config.cluster_config import Endpoint
from proxy.config.health_check import CheckMethod, HttpHealthCheck
from proxy.testing import FaultyUpstream
from proxy.upstream.health_checker_http import HttpProbe
from proxy.upstream.health_checker_probe import CheckResult
from proxy.upstream.health_checker_session import Failure
from proxy.upstream.host import Host
from tests.proxy.http.sidecar import WAIT_S, until

PASS = CheckResult(status=200)
RESET = CheckResult(Failure.NETWORK)
IMMEDIATE_FAIL = {"x-envoy-immediate-health-check-fail": "true"}


class Subject:
    def __init__(self, address, *, reuse_connection=True, **fields):
        self.results = asyncio.Queue()
        self.host = Host(Endpoint(address=address))
        self.probe = HttpProbe(
            self.host,
            HttpHealthCheck(**({"path": "/healthz"} | fields)),
            authority="cluster",
            reuse_connection=reuse_connection,
            loop=asyncio.get_running_loop(),
            report=self.results.put_nowait,
        )

    async def check(self):
        self.probe.start()
        async with asyncio.timeout(WAIT_S):
            return await self.results.get()


async def test_the_request_is_envoys():
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address)
        assert await subject.check() == PASS
        subject.probe.abandon()

        assert (
            upstream.requests[0].raw_head == b"GET /healthz HTTP/1.1\r\nhost: cluster\r\nuser-agent: Envoy/HC\r\n\r\n"
        )


async def test_method_host_and_headers_are_the_configured_ones():
    async with FaultyUpstream() as upstream:
        subject = Subject(
            upstream.address,
            path="/p?q",
            host="h.example",
            method=CheckMethod.POST,
            request_headers_to_add=(("x-probe", "1"),),
        )
        await subject.check()
        subject.probe.abandon()

        assert upstream.requests[0].raw_head == (
            b"POST /p?q HTTP/1.1\r\nhost: h.example\r\nuser-agent: Envoy/HC\r\nx-probe: 1\r\ncontent-length: 0\r\n\r\n"
        )


@pytest.mark.parametrize(
    ("reply", "fields", "expected"),
    [
        ({}, {}, PASS),
        ({"status": 204}, {}, CheckResult(Failure.ACTIVE, status=204)),
        ({"status": 204}, {"expected_statuses": ((200, 299),)}, CheckResult(status=204)),
        ({"status": 503}, {}, CheckResult(Failure.ACTIVE, status=503)),
        (
            {"status": 503},
            {"retriable_statuses": ((503, 503),)},
            CheckResult(Failure.ACTIVE, retriable=True, status=503),
        ),
        ({"headers": {"x-envoy-degraded": ""}}, {}, CheckResult(degraded=True, status=200)),
        ({"status": 503, "headers": {"x-envoy-degraded": ""}}, {}, CheckResult(Failure.ACTIVE, status=503)),
        ({"body": "x" * 100_000, "framing": "chunked"}, {}, PASS),
        ({"body": "x", "framing": "close"}, {}, PASS),
        ({"informational": (103,)}, {}, PASS),
        ({"fault": "reset"}, {}, RESET),
        ({"fault": "close"}, {}, RESET),
        ({"garbage": b"SSH-2.0\r\n\r\n"}, {}, RESET),
        ({"body": "12345", "truncate_at": 2}, {}, RESET),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_response_says_how_the_host_is(reply, fields, expected):
    async with FaultyUpstream(**reply) as upstream:
        subject = Subject(upstream.address, **fields)

        assert await subject.check() == expected
        subject.probe.abandon()


async def test_a_head_response_has_no_body_whatever_it_says():
    async with FaultyUpstream(body="12345") as upstream:
        subject = Subject(upstream.address, method=CheckMethod.HEAD)

        assert [await subject.check() for _ in range(2)] == [PASS, PASS]
        assert upstream.connection_count == 1
        subject.probe.abandon()


@pytest.mark.parametrize(
    ("status", "headers", "flags"),
    [
        (503, IMMEDIATE_FAIL, "/excluded_via_immediate_hc_fail"),
        (503, {}, "healthy"),
        (200, IMMEDIATE_FAIL, "healthy"),
    ],
)
async def test_a_failure_may_exclude_the_host(status, headers, flags):
    async with FaultyUpstream(status=status, headers=headers) as upstream:
        subject = Subject(upstream.address)
        await subject.check()
        subject.probe.abandon()

    assert subject.host.health_flags_text() == flags


@pytest.mark.parametrize(
    ("reply", "reuse_connection", "connections"),
    [({}, True, 1), ({}, False, 3), ({"headers": {"connection": "close"}}, True, 3), ({"status": 503}, True, 1)],
    ids=["kept", "not to be kept", "closed by the host", "kept after a failure"],
)
async def test_a_connection_serves_several_checks(reply, reuse_connection, connections):
    async with FaultyUpstream(**reply) as upstream:
        subject = Subject(upstream.address, reuse_connection=reuse_connection)
        for _ in range(3):
            await subject.check()

        assert upstream.connection_count == connections
        subject.probe.abandon()


async def test_a_connection_that_the_host_closes_between_two_checks_is_no_failure():
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address)
        await subject.check()
        upstream.drop_connections()
        await until(lambda: subject.probe._connection.closed)

        assert await subject.check() == PASS
        assert subject.results.empty()
        subject.probe.abandon()


async def test_a_refused_connection_is_a_failure_and_the_next_check_tries_anew():
    async with FaultyUpstream() as upstream:
        await upstream.refuse()
        subject = Subject(upstream.address)
        assert await subject.check() == RESET
        await upstream.accept()

        assert await subject.check() == PASS
        subject.probe.abandon()


async def test_an_abandoned_check_reports_nothing_more():
    async with FaultyUpstream(fault="hang") as upstream:
        subject = Subject(upstream.address)
        subject.probe.start()
        await upstream.wait_requests(1)
        subject.probe.abandon()
        upstream.set(status=200)

        assert await subject.check() == PASS
        assert subject.results.empty()
        assert upstream.connection_count == 2
        subject.probe.abandon()


async def test_a_check_may_be_abandoned_while_it_connects():
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address)
        subject.probe.start()
        subject.probe.abandon()

        assert await subject.check() == PASS
        assert upstream.request_count == 1
        subject.probe.abandon()
