"""Warnings: when each begins and ends, and who is told."""

import pytest
from structlog.testing import capture_logs

from outlier import OutlierDetection
from proxy.admin.watch import WATCH, Watch
from proxy.config.cluster_config import LbPolicy, LoadBalancerConfig
from proxy.upstream.host import HealthFlag


@pytest.fixture
def watch(sidecar):
    return Watch(sidecar.context())


def concerns(watch):
    watch.look()
    return [warning.concern.value for warning in watch.warnings]


def detection(**fields):
    return OutlierDetection(**{"interval_ms": 1_000, "max_ejection_percent": 100, "consecutive_5xx": 1} | fields)


def test_ten_intervals_without_a_report(sidecar, watch):
    sidecar.add_cluster(detection=detection())
    watch.look()
    sidecar.time.advance(9_999)
    assert concerns(watch) == []
    sidecar.time.advance(1)

    assert concerns(watch) == ["no reports"]


def test_a_report_ends_the_silence(sidecar, watch):
    cluster = sidecar.add_cluster(detection=detection())
    watch.look()
    sidecar.time.advance(10_000)
    watch.look()
    cluster.hosts[0].rq_total += 1

    assert concerns(watch) == []


@pytest.mark.parametrize(("percent", "found"), [(33, ["cannot eject"]), (34, [])])
def test_cap_that_never_lets_one_of_three_go(sidecar, watch, percent, found):
    sidecar.add_cluster(hosts=3, detection=detection(max_ejection_percent=percent))

    assert concerns(watch) == found


def test_panic_that_reaches_an_ejected_host(sidecar, watch):
    balancer = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, healthy_panic_threshold=50.0)
    cluster = sidecar.add_cluster(hosts=3, detection=detection(), load_balancer=balancer)
    for host in cluster.hosts[:2]:
        host.monitor.put_http_response_code(500)
        host.set_flag(HealthFlag.FAILED_OUTLIER_CHECK)
        cluster.priority_set.refresh_health(0)

    watch.look()
    (warning,) = watch.warnings
    assert warning.message == "panic: requests go to ejected hosts as well (127.0.0.1:10000, 127.0.0.1:10001)"


def test_beginning_and_end_are_told_once(sidecar, watch):
    cluster = sidecar.add_cluster(hosts=3, detection=detection(max_ejection_percent=10))
    with capture_logs() as logs:
        for _ in range(3):
            watch.look()
        del sidecar.clusters[cluster.name]
        for _ in range(3):
            watch.look()

    assert [line["event"] for line in logs] == ["outlier.warning_began", "outlier.warning_ended"]
    assert [(event.kind, event.data["state"]) for event in sidecar.events.since(0)] == [
        ("warning", "began"),
        ("warning", "ended"),
    ]


async def test_warnings_are_listed(sidecar, admin):
    sidecar.add_cluster("a", hosts=3, detection=detection(max_ejection_percent=10))
    admin.app[WATCH].look()

    assert await (await admin.get("/warnings")).json() == [
        {
            "cluster_name": "a",
            "type": "cannot eject",
            "message": "max_ejection_percent 10 never lets one of 3 hosts go: one would be 33.33 %",
        }
    ]
