"""New configurations while requests run, on real sockets: what a host that stays keeps (CASES, MCP-08)."""

import attrs
import pytest

from outlier import OutlierDetection
from proxy.config.cluster_config import CircuitBreakers, Endpoint, LbPolicy, LoadBalancerConfig
from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import GatedUpstream
from tests.proxy.http.sidecar import GET, Sidecar, cluster_config, until, virtual_host

DETECTION = OutlierDetection(consecutive_5xx=2, max_ejection_percent=100)


async def eject(sidecar: Sidecar, upstream: FaultyUpstream) -> None:
    """Let `upstream` fail until it is out; then it would answer again."""
    upstream.set(status=500)
    client = await sidecar.client()
    (host,) = [host for host in sidecar.cluster.hosts if host.address == upstream.address]
    for _ in range(4 * len(sidecar.cluster.hosts)):
        await client.get()
        if host.monitor.num_ejections:
            break
    assert host.monitor.num_ejections == 1
    upstream.set(status=200)


@pytest.mark.slow
async def test_churn_keeps_ejection_connections_and_counters():
    """The same rule a hundred times, then endpoints reordered, then an unrelated field changed."""
    async with (
        FaultyUpstream() as bad,
        FaultyUpstream(body=b"x") as good,
        Sidecar(bad, good, outlier_detection=DETECTION) as sidecar,
    ):
        await eject(sidecar, bad)
        hosts = {host.address: host for host in sidecar.cluster.hosts}
        client = await sidecar.client()
        await client.get()
        total, connections = hosts[good.address].rq_total, good.connection_count

        for _ in range(100):
            sidecar.apply(cluster_config([bad, good], outlier_detection=DETECTION))
        sidecar.apply(cluster_config([good, bad], outlier_detection=DETECTION))
        sidecar.apply(cluster_config([good, bad], outlier_detection=DETECTION, connect_timeout_ms=1_234))
        responses = [await client.get() for _ in range(4)]

        assert [response.body for response in responses] == [b"x"] * 4
        assert {host.address: host for host in sidecar.cluster.hosts} == hosts
        assert hosts[bad.address].monitor.ejected
        assert sidecar.stat("outlier_detection.ejections_active") == 1
        assert hosts[good.address].rq_total == total + 4
        assert good.connection_count == connections


async def test_a_host_that_leaves_and_returns_starts_fresh():
    async with (
        FaultyUpstream() as bad,
        FaultyUpstream() as good,
        Sidecar(bad, good, outlier_detection=DETECTION) as sidecar,
    ):
        await eject(sidecar, bad)
        before = sidecar.cluster.hosts[0]
        sidecar.apply(cluster_config([good], outlier_detection=DETECTION))
        assert sidecar.stat("outlier_detection.ejections_active") == 0
        sidecar.apply(cluster_config([bad, good], outlier_detection=DETECTION))
        after = sidecar.cluster.hosts[0]

        assert (after.address, after is before) == (before.address, False)
        assert (after.monitor.ejected, after.monitor.num_ejections, after.rq_total) == (False, 0, 0)
        assert sidecar.stat("outlier_detection.ejections_active") == 0


async def test_hosts_come_and_go_at_once():
    async with FaultyUpstream(body=b"a") as a, FaultyUpstream(body=b"b") as b, Sidecar(a) as sidecar:
        client = await sidecar.client()
        assert (await client.get()).body == b"a"
        sidecar.apply(cluster_config([b]))

        assert (await client.get()).body == b"b"
        await until(lambda: a.open_connections == 0)


@pytest.mark.parametrize("change", ["same", "reordered", "host removed", "cluster removed", "settings"])
async def test_a_request_under_way_survives(change):
    async with (
        GatedUpstream(b"slow") as upstream,
        FaultyUpstream() as other,
        Sidecar(slow := upstream.address) as sidecar,
    ):
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: upstream.paths)
        match change:
            case "same":
                sidecar.apply(cluster_config([slow]))
            case "reordered":
                sidecar.apply(cluster_config([other, slow]))
            case "host removed":
                sidecar.apply(cluster_config([other]))
            case "cluster removed":
                sidecar.apply()
            case "settings":
                sidecar.apply(
                    cluster_config(
                        [slow],
                        outlier_detection=DETECTION,
                        load_balancer=LoadBalancerConfig(policy=LbPolicy.LEAST_REQUEST),
                        circuit_breakers=CircuitBreakers(max_requests=0),
                    )
                )

        upstream.release()

        assert (await client.response()).body == b"slow"


async def test_new_limits_of_connections_hold_for_hosts_that_stay():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        await client.get()
        sidecar.apply(cluster_config([upstream], max_requests_per_connection=1))
        for _ in range(3):
            await client.get()

        assert [request.connection for request in upstream.requests] == [1, 1, 2, 3]


async def test_a_removed_cluster_drains():
    async with GatedUpstream(held="/slow") as upstream, Sidecar(upstream.address) as sidecar:
        idle, busy = await sidecar.client(), await sidecar.client()
        busy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: upstream.paths)
        await idle.get()
        cluster = sidecar.cluster
        sidecar.apply()
        assert cluster.stats.upstream_cx_active == 1
        upstream.release()

        assert (await busy.response()).body == b"late"
        await until(lambda: upstream.open_connections == 0)
        assert (await idle.get()).status == 503
        assert sidecar.log[-1]["response_flags"] == "NC"


async def test_a_cluster_that_returns_is_a_new_one():
    async with FaultyUpstream() as bad, Sidecar(bad, outlier_detection=DETECTION) as sidecar:
        await eject(sidecar, bad)
        before = sidecar.cluster
        sidecar.apply()
        sidecar.apply(cluster_config([bad], outlier_detection=DETECTION))

        assert sidecar.cluster is not before
        assert not sidecar.cluster.hosts[0].monitor.ejected
        assert (await (await sidecar.client()).get()).status == 200


async def test_the_same_object_is_not_looked_at():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        config = sidecar.cluster.config
        sidecar.apply(config)
        sidecar.apply(attrs.evolve(config))

        assert sidecar.cluster.config is config
        assert sidecar.stats_store.value("cluster_manager.cluster_modified") == 0


async def test_manager_counts_what_came_changed_and_went():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        sidecar.apply(cluster_config([upstream], connect_timeout_ms=1), cluster_config([], name="other"))
        sidecar.apply(cluster_config([upstream], connect_timeout_ms=1))
        values = {
            name: sidecar.stats_store.value(f"cluster_manager.{name}")
            for name in ("cluster_added", "cluster_modified", "cluster_removed", "active_clusters")
        }

        assert values == {"cluster_added": 2, "cluster_modified": 1, "cluster_removed": 1, "active_clusters": 1}


async def test_new_routes_hold_from_the_next_request_on():
    async with GatedUpstream(b"a") as a, FaultyUpstream(body=b"b") as b, Sidecar(a.address) as sidecar:
        sidecar.apply(cluster_config([a.address]), cluster_config([b], name="b"))
        client = await sidecar.client()
        client.send(GET)
        await until(lambda: a.paths)
        sidecar.set_routes(virtual_host("*", cluster="b"))
        a.release()

        assert [(await client.response()).body, (await client.get()).body] == [b"a", b"b"]


async def test_the_same_address_twice_is_one_host_the_first():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        (host,) = sidecar.cluster.hosts
        endpoints = tuple(Endpoint(address=upstream.address, weight=weight) for weight in (3, 5))
        sidecar.apply(attrs.evolve(sidecar.cluster.config, endpoints=endpoints))

        assert sidecar.cluster.hosts == (host,)
        assert host.weight == 3


async def test_an_ejected_host_gets_no_request_until_it_returns():
    detection = attrs.evolve(DETECTION, interval_ms=20, base_ejection_time_ms=30, max_ejection_time_ms=1_000)
    async with (
        FaultyUpstream() as bad,
        FaultyUpstream() as good,
        Sidecar(bad, good, outlier_detection=detection) as sidecar,
    ):
        await eject(sidecar, bad)
        monitor = sidecar.cluster.hosts[0].monitor
        client = await sidecar.client()
        while monitor.ejected:
            count = bad.request_count
            await client.get()
            assert bad.request_count == count or not monitor.ejected
        count = bad.request_count
        for _ in range(2):
            await client.get()

        assert bad.request_count == count + 1
        assert [event.action.name for event in sidecar.events] == ["EJECT", "UNEJECT"]
