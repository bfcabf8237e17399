"""`/explain` and `/config/status`: the engine's words and the pipeline's findings, for people and as JSON."""

from types import SimpleNamespace

import pytest

from outlier import OutlierDetection
from proxy.config.issue import Issue, Severity
from proxy.upstream.host import HealthFlag

CLUSTER = "outbound|80||a.default.svc.cluster.local"


@pytest.fixture
def cluster(sidecar):
    cluster = sidecar.add_cluster(CLUSTER, hosts=2, detection=OutlierDetection(consecutive_5xx=3))
    cluster.hosts[0].monitor.put_http_response_code(503)
    return cluster


async def test_text_says_why_each_host_is_in(admin, cluster):
    text = await (await admin.get("/explain", params={"cluster": CLUSTER})).text()

    assert text.startswith(f"{CLUSTER}\n  priority 0: 2 of 2 hosts healthy, takes 100 % of requests; ")
    assert f"\n{cluster.hosts[0].address}  healthy\n  In: not ejected.\n" in text
    assert f"\n{cluster.hosts[1].address}  healthy\n" in text


async def test_json_has_reasons_and_exact_numbers(admin, cluster):
    host = cluster.hosts[0].address
    found = await (await admin.get("/explain", params={"cluster": CLUSTER, "host": host, "format": "json"})).json()

    (explained,) = found["hosts"]
    assert explained["address"] == host
    assert explained["reasons"][0] == "In: not ejected."
    run = next(run for run in explained["verdict"]["runs"] if run["type"] == "CONSECUTIVE_5XX")
    assert (run["run"], run["threshold"]) == (1, 3)
    assert found["load_balancer"]["policy"] == "ROUND_ROBIN"


async def test_cap_that_kept_a_host_in_is_named_with_its_numbers(sidecar, admin):
    cluster = sidecar.add_cluster(CLUSTER, hosts=3, detection=OutlierDetection(max_ejection_percent=10))
    host = cluster.hosts[0]
    for _ in range(5):
        host.monitor.put_http_response_code(500)

    text = await (await admin.get("/explain", params={"cluster": CLUSTER, "host": host.address})).text()
    assert "3 hosts" in text
    assert "cap 10 %" in text
    assert "33.3" in text


async def test_cluster_without_detection_says_so(admin, sidecar):
    sidecar.add_cluster(CLUSTER)

    text = await (await admin.get("/explain", params={"cluster": CLUSTER})).text()
    assert "  In: the cluster has no outlier detection.\n" in text


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        (HealthFlag.FAILED_ACTIVE_HC, "active health checks fail"),
        (HealthFlag.FAILED_EDS_HEALTH, "the configuration says that it is unhealthy"),
        (HealthFlag.EDS_STATUS_DRAINING, "the configuration says that it is draining"),
    ],
)
@pytest.mark.parametrize("detection", [OutlierDetection(), None], ids=["detecting", "not detecting"])
async def test_what_else_keeps_a_host_out_comes_first(admin, sidecar, flag, reason, detection):
    (host,) = sidecar.add_cluster(CLUSTER, hosts=1, detection=detection).hosts
    host.set_flag(flag)

    found = await (await admin.get("/explain", params={"cluster": CLUSTER, "format": "json"})).json()
    assert found["hosts"][0]["reasons"][0] == f"Out, though not by outlier detection: {reason}."


async def test_host_put_out_by_hand_is_not_blamed_on_the_configuration(admin, sidecar, cluster):
    sidecar.call_later = lambda delay_s, callback: SimpleNamespace(cancel=lambda: None)
    host = cluster.hosts[0].address
    await admin.post("/eject", data={"cluster": CLUSTER, "host": host, "reason": "maintenance"})

    found = await (await admin.get("/explain", params={"cluster": CLUSTER, "host": host, "format": "json"})).json()
    by_hand, verdict, *_ = found["hosts"][0]["reasons"]
    assert (by_hand.startswith("By hand: eject until "), verdict) == (True, "In: not ejected.")


@pytest.mark.parametrize(
    ("params", "status", "beginning"),
    [
        ({}, 400, "usage: /explain?cluster=<name>[&host=<ip:port>][&format=json]; known are:\n  outbound|80||a."),
        ({"cluster": "x"}, 404, "no cluster x; known are:\n  outbound|80||a."),
        ({"cluster": CLUSTER, "host": "x"}, 404, f"no host x in {CLUSTER}; known are:\n  127.0.0.1:10000"),
    ],
    ids=["no cluster", "unknown cluster", "unknown host"],
)
async def test_unknown_names_list_the_known_ones(admin, cluster, params, status, beginning):
    response = await admin.get("/explain", params=params)

    assert response.status == status
    assert (await response.text()).startswith(beginning)


async def test_config_status_names_what_was_refused(sidecar, admin):
    rejected = Issue(
        severity=Severity.ERROR,
        path=("spec", "trafficPolicy"),
        value=1,
        rule="must be a mapping",
        source="shop.yaml",
        line=7,
        resource="DestinationRule default/shop",
    )
    sidecar.config_status = SimpleNamespace(
        version="3",
        sources=[
            SimpleNamespace(
                name="files",
                resources={"istio/b": 1, "istio/a": 2},
                issues=(rejected,),
                last_update_ms=1_000,
                stale_since_ms=500,
                connection=None,
            ),
            SimpleNamespace(
                name="mcp://config:9901",
                resources={},
                issues=(),
                last_update_ms=1_000,
                stale_since_ms=2_000,
                connection=SimpleNamespace(
                    connected=False,
                    synced=True,
                    since_ms=2_000,
                    reconnections=3,
                    error="UNAVAILABLE: gone",
                    last_requests=({"collection": "istio/a", "nonce": "1", "acked": True, "error": None},),
                ),
            ),
        ],
    )

    assert await (await admin.get("/config/status")).json() == {
        "version": "3",
        "sources": [
            {
                "name": "files",
                "connection": None,
                "resources": {"istio/a": 2, "istio/b": 1},
                "last_update": "1970-01-01T00:00:01Z",
                "stale_since": "1970-01-01T00:00:00.500Z",
                "rejected": [
                    {
                        "resource": "DestinationRule default/shop",
                        "file": "shop.yaml",
                        "line": 7,
                        "message": "spec.trafficPolicy = 1; must be a mapping",
                    }
                ],
                "warnings": [],
            },
            {
                "name": "mcp://config:9901",
                "connection": {
                    "connected": False,
                    "synced": True,
                    "since": "1970-01-01T00:00:02Z",
                    "reconnections": 3,
                    "error": "UNAVAILABLE: gone",
                    "last_requests": [{"collection": "istio/a", "nonce": "1", "acked": True, "error": None}],
                },
                "resources": {},
                "last_update": "1970-01-01T00:00:01Z",
                "stale_since": "1970-01-01T00:00:02Z",
                "rejected": [],
                "warnings": [],
            },
        ],
    }


async def test_sidecar_without_sources_has_no_config_status(admin):
    assert (await admin.get("/config/status")).status == 404
