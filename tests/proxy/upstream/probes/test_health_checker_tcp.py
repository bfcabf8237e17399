"""TCP checks on real sockets: connecting is enough, unless something is to come back."""

import asyncio

import pytest

from proxy.config.cluster_config import Endpoint
from proxy.config.health_check import TcpHealthCheck
from proxy.testing import FaultyUpstream
from proxy.upstream.health_checker_probe import CheckResult
from proxy.upstream.health_checker_session import Failure
from proxy.upstream.health_checker_tcp import TcpProbe, matches
from proxy.upstream.host import Host
from tests.proxy.http.sidecar import WAIT_S

PASS = CheckResult()
RESET = CheckResult(Failure.NETWORK)
# Faulty upstreams speak HTTP, so that is what is sent and expected.
ASK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
TALK = {"send": (ASK,), "receive": (b"HTTP/1.1 200", b"\r\n\r\n")}


class Subject:
    def __init__(self, address, *, reuse_connection=True, **fields):
        self.results = asyncio.Queue()
        self.probe = TcpProbe(
            Host(Endpoint(address=address)),
            TcpHealthCheck(**fields),
            reuse_connection=reuse_connection,
            loop=asyncio.get_running_loop(),
            report=self.results.put_nowait,
        )

    async def result(self):
        async with asyncio.timeout(WAIT_S):
            return await self.results.get()

    async def check(self):
        self.probe.start()
        return await self.result()


@pytest.mark.parametrize(
    ("blocks", "data", "expected"),
    [
        ([b"abc"], b"abc", True),
        ([b"abc"], b"ab", False),
        ([b"a", b"b"], b"a--b", True),
        ([b"a", b"b"], b"ba", False),
        ([b"aa", b"a"], b"aa", False),
        ([b"aa", b"a"], b"aaa", True),
        ([], b"", True),
    ],
)
def test_blocks_come_in_order_and_without_overlap(blocks, data, expected):
    assert matches(blocks, data) is expected


async def test_an_open_connection_is_enough_and_is_closed():
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address)

        assert [await subject.check() for _ in range(2)] == [PASS, PASS]
        assert subject.results.empty()
        assert (upstream.connection_count, upstream.request_count) == (2, 0)


async def test_without_receive_nothing_is_sent():
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address, send=(ASK,))

        assert await subject.check() == PASS
        assert upstream.request_count == 0


async def test_a_refused_connection_is_a_failure():
    async with FaultyUpstream() as upstream:
        await upstream.refuse()

        assert await Subject(upstream.address).check() == RESET


@pytest.mark.parametrize(("reuse_connection", "connections"), [(True, 1), (False, 2)])
async def test_the_right_answer_passes(reuse_connection, connections):
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address, reuse_connection=reuse_connection, **TALK)

        assert [await subject.check() for _ in range(2)] == [PASS, PASS]
        assert (upstream.connection_count, upstream.request_count) == (connections, 2)
        subject.probe.abandon()


async def test_an_answer_may_come_in_pieces():
    async with FaultyUpstream(body="abcdef", body_delay_ms=1, piece_bytes=2) as upstream:
        subject = Subject(upstream.address, send=(ASK,), receive=(b"bc", b"ef"))

        assert await subject.check() == PASS
        subject.probe.abandon()


async def test_a_wrong_answer_is_no_result_until_the_connection_ends():
    async with FaultyUpstream(status=503) as upstream:
        subject = Subject(upstream.address, **TALK)
        subject.probe.start()
        await upstream.wait_requests(1)
        assert subject.results.empty()
        upstream.drop_connections()

        assert await subject.result() == RESET


async def test_a_connection_that_the_host_closes_between_two_checks_is_a_failure():
    async with FaultyUpstream() as upstream:
        subject = Subject(upstream.address, **TALK)
        assert await subject.check() == PASS
        upstream.drop_connections()

        assert await subject.result() == RESET
        assert await subject.check() == PASS
        subject.probe.abandon()


async def test_an_abandoned_check_reports_nothing_more():
    async with FaultyUpstream(fault="hang") as upstream:
        subject = Subject(upstream.address, **TALK)
        subject.probe.start()
        await upstream.wait_requests(1)
        subject.probe.abandon()
        upstream.set(status=200)

        assert await subject.check() == PASS
        assert subject.results.empty()
        subject.probe.abandon()
