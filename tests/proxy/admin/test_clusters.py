"""`/clusters` against what a real Envoy 1.40 printed for the same hosts (recorded/)."""

import json
from pathlib import Path

import pytest

from outlier import EjectionThreshold, Origin, OutlierDetection, SimulatedTime
from proxy.admin.clusters import clusters_json, clusters_text
from proxy.admin.overrides import Overrides
from proxy.config.cluster_config import CircuitBreakers, ClusterType, Endpoint, HealthStatus, Locality
from proxy.event_stream import EventStream
from proxy.upstream.host import HealthFlag
from tests.proxy.admin.conftest import make_cluster

RECORDED = Path(__file__).parent / "recorded"
NO_OVERRIDES = Overrides(SimulatedTime(), EventStream(SimulatedTime()))
ENVOY_LIMITS = CircuitBreakers(max_connections=1024, max_pending_requests=1024, max_requests=1024, max_retries=3)


@pytest.fixture
def recorded_clusters():
    """The clusters and the counters that Envoy had when the files were recorded."""
    locality = Locality("us", "us-1", "x")
    a = make_cluster(
        "outbound|80||a.default.svc.cluster.local",
        [
            Endpoint(address="127.0.0.1:19911", weight=3, locality=locality),
            Endpoint(address="127.0.0.1:19912", hostname="h", locality=locality),
            Endpoint(address="127.0.0.1:19913", health_status=HealthStatus.DEGRADED, locality=locality),
            Endpoint(address="127.0.0.1:19914", health_status=HealthStatus.TIMEOUT, locality=locality),
            Endpoint(address="unix:///run/up.sock", locality=locality),
            Endpoint(address="127.0.0.1:19913", health_status=HealthStatus.DRAINING, priority=1),
            Endpoint(address="[::1]:19914", priority=1, canary=True),
        ],
        detection=OutlierDetection(),
    )
    b = make_cluster(
        "outbound|80|v1|b.default.svc.cluster.local",
        [Endpoint(address="127.0.0.1:19911")],
        type=ClusterType.EDS,
        circuit_breakers=ENVOY_LIMITS,
    )
    recorded = json.loads((RECORDED / "clusters.json").read_text())
    for cluster, status in zip((a, b), recorded["cluster_statuses"], strict=True):
        for host, host_status in zip(cluster.hosts, status["host_statuses"], strict=True):
            for stat in host_status["stats"]:
                setattr(host, stat["name"], int(stat.get("value", 0)))
    for host in (a.hosts[4], a.hosts[6]):
        host.set_flag(HealthFlag.FAILED_OUTLIER_CHECK)
    a.hosts[0].monitor.external.success_rate = 500 / 7
    a.hosts[1].monitor.external.success_rate = 100.0
    for host in a.hosts[:2]:
        host.monitor.local.success_rate = 100.0
    a.detector._thresholds[Origin.EXTERNAL] = EjectionThreshold(600 / 7, 14.0, 58.571428571428584, 2)
    a.detector._thresholds[Origin.LOCAL] = EjectionThreshold(100.0, 0.0, 100.0, 2)
    return [a, b]


def test_text_is_byte_for_byte_envoys(recorded_clusters):
    assert "".join(clusters_text(recorded_clusters, NO_OVERRIDES)) == (RECORDED / "clusters.txt").read_text()


def test_json_is_byte_for_byte_envoys(recorded_clusters):
    assert "".join(clusters_json(recorded_clusters, NO_OVERRIDES)) == (RECORDED / "clusters.json").read_text()


def test_cluster_without_detector_has_no_outlier_lines():
    cluster = make_cluster("a", [])

    assert "outlier" not in "".join(clusters_text([cluster], NO_OVERRIDES))


def test_success_rate_of_zero_is_an_empty_message():
    cluster = make_cluster("a", [Endpoint(address="127.0.0.1:1")], detection=OutlierDetection())
    cluster.hosts[0].monitor.external.success_rate = 0.0

    status = json.loads("".join(clusters_json([cluster], NO_OVERRIDES)))["cluster_statuses"][0]["host_statuses"][0]
    assert status["success_rate"] == {}
    assert "success_rate::0\n" in "".join(clusters_text([cluster], NO_OVERRIDES))


def test_every_flag_has_its_field():
    cluster = make_cluster("a", [Endpoint(address="127.0.0.1:1", health_status=HealthStatus.DEGRADED)])
    for flag in HealthFlag:
        cluster.hosts[0].set_flag(flag)

    health = json.loads("".join(clusters_json([cluster], NO_OVERRIDES)))["cluster_statuses"][0]["host_statuses"][0][
        "health_status"
    ]
    assert health == {
        "failed_active_health_check": True,
        "failed_outlier_check": True,
        "eds_health_status": "UNHEALTHY",
        "failed_active_degraded_check": True,
        "pending_dynamic_removal": True,
        "pending_active_hc": True,
        "excluded_via_immediate_hc_fail": True,
        "active_hc_timeout": True,
        "failed_degraded_outlier_detection": True,
    }


def test_strings_from_outside_cannot_break_the_json():
    cluster = make_cluster('a"\\', [Endpoint(address="127.0.0.1:1", hostname='"\n', locality=Locality('"'))])

    status = json.loads("".join(clusters_json([cluster], NO_OVERRIDES)))["cluster_statuses"][0]
    assert status["name"] == 'a"\\'
    assert status["host_statuses"][0]["hostname"] == '"\n'
    assert status["host_statuses"][0]["locality"] == {"region": '"'}


async def test_no_clusters_is_an_empty_message(admin):
    assert await (await admin.get("/clusters?format=json")).text() == "{}\n"


async def test_filter_selects_clusters_by_name(sidecar, admin):
    sidecar.add_cluster("a")
    sidecar.add_cluster("b")

    text = await (await admin.get("/clusters?filter=^b")).text()
    assert {line.partition("::")[0] for line in text.splitlines()} == {"b"}


async def test_broken_filter_is_a_bad_request(admin):
    response = await admin.get("/clusters?filter=(")

    assert (response.status, await response.text()) == (400, "Invalid re2 regex")
