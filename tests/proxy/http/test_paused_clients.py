"""A client that is not read, because its host takes no more, is read again when that host is out of the way."""

from proxy.config.route_config import RetryPolicy
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import GatedUpstream
from tests.proxy.http.sidecar import GET, Sidecar, arrived, until


def exchange_of(sidecar: Sidecar):
    (connection,) = sidecar.listener._connections
    return connection._exchange


async def test_by_an_answer_that_comes_before_the_host_has_taken_all():
    async with GatedUpstream() as upstream, Sidecar(upstream.address) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: upstream.paths)
        exchange_of(sidecar).on_upstream_writable(writable=False)
        upstream.release()
        await client.response()

        assert (await client.get()).status == 200


async def test_by_an_attempt_that_is_given_up():
    policy = RetryPolicy(num_retries=1, retry_on="5xx", base_interval_ms=1)
    async with (
        GatedUpstream(statuses={"/": 503}) as bad,
        FaultyUpstream() as good,
        Sidecar(bad.address, good, route={"retry": policy}) as sidecar,
    ):
        in_turn = iter(sidecar.cluster.hosts)
        sidecar.cluster.load_balancer.choose_host = lambda _: next(in_turn)
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
        await until(lambda: bad.paths)
        exchange_of(sidecar).on_upstream_writable(writable=False)
        bad.release()
        await arrived(good)
        client.send(b"def")

        assert (await client.response("POST")).status == 200
        assert bytes(good.requests[0].body) == b"abcdef"


async def test_pauses_and_resumes_are_counted_once_each():
    async with GatedUpstream() as upstream, Sidecar(upstream.address) as sidecar:
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: upstream.paths)
        for writable in (False, False, True, True, False):
            exchange_of(sidecar).on_upstream_writable(writable=writable)
        upstream.release()
        await client.response()

        stats = sidecar.http_stats
        assert stats.downstream_flow_control_paused_reading_total == 2
        assert stats.downstream_flow_control_resumed_reading_total == 2
