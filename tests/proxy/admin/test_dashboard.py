"""The dashboard's files and the state behind it; `tests/browser` drives the page itself."""

import pytest

from outlier import OutlierDetection
from proxy.admin.dashboard import host_state
from proxy.upstream.host import HealthFlag

CLUSTER = "outbound|80||a.default.svc.cluster.local"


@pytest.fixture
def cluster(sidecar):
    return sidecar.add_cluster(
        CLUSTER, hosts=2, detection=OutlierDetection(consecutive_5xx=1, max_ejection_percent=100, interval_ms=1_000)
    )


async def test_page_may_load_nothing_from_elsewhere(admin):
    response = await admin.get("/")

    assert response.headers["content-type"] == "text/html; charset=UTF-8"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "://" not in await response.text()


async def test_every_file_the_page_names_is_served(admin):
    text = await (await admin.get("/")).text()
    names = {part.split('"')[0] for part in text.split("/static/")[1:]}
    assert names == {"icon.svg", "dashboard.css", "app.js"}
    for name in names:
        assert (await admin.get(f"/static/{name}")).status == 200


@pytest.mark.parametrize("name", ["nope.js", "..%2fdashboard.py", "__init__.py"])
async def test_nothing_else_is_served(admin, name):
    assert (await admin.get(f"/static/{name}")).status == 404


async def test_state_has_a_line_per_host(sidecar, admin, cluster):
    good, bad = cluster.hosts
    bad.monitor.put_http_response_code(500)
    bad.set_flag(HealthFlag.FAILED_OUTLIER_CHECK)
    cluster.priority_set.refresh_health(0)
    good.rq_total, bad.rq_total, bad.rq_error = 3, 2, 1

    state = await (await admin.get("/dashboard/state")).json()

    (shown,) = state["clusters"]
    assert (shown["name"], shown["detects"], shown["rq_total"], shown["rq_error"]) == (CLUSTER, True, 5, 1)
    assert [(host["address"], host["state"]) for host in shown["hosts"]] == [
        (good.address, "healthy"),
        (bad.address, "ejected"),
    ]
    assert shown["hosts"][1]["back_in_ms"] == 30_000
    assert "back_in_ms" not in shown["hosts"][0]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ([], "healthy"),
        ([HealthFlag.FAILED_OUTLIER_CHECK, HealthFlag.DEGRADED_EDS_HEALTH], "ejected"),
        ([HealthFlag.EDS_STATUS_DRAINING], "draining"),
        ([HealthFlag.FAILED_ACTIVE_HC], "unhealthy"),
        ([HealthFlag.DEGRADED_EDS_HEALTH], "degraded"),
    ],
)
def test_one_word_for_a_host(sidecar, cluster, flags, word):
    for flag in flags:
        cluster.hosts[0].set_flag(flag)

    assert host_state(sidecar.context(), cluster.hosts[0]) == word


async def test_rule_says_where_each_setting_comes_from(sidecar, admin, cluster):
    sidecar.runtime.modify({"outlier_detection.consecutive_gateway_failure": 9})

    settings = await (await admin.get("/dashboard/rule", params={"cluster": CLUSTER})).json()

    origins = {setting["field"]: (setting["value"], setting["origin"]) for setting in settings}
    assert origins["consecutive_5xx"] == (1, "configuration")
    assert origins["base_ejection_time_ms"] == (30_000, "Envoy's default")
    assert origins["consecutive_gateway_failure"] == (9, "runtime override")


async def test_rule_of_an_unknown_cluster_is_not_found(admin):
    assert (await admin.get("/dashboard/rule?cluster=x")).status == 404


async def test_rule_of_a_cluster_without_detection_is_empty(sidecar, admin):
    sidecar.add_cluster("plain")

    assert await (await admin.get("/dashboard/rule?cluster=plain")).json() == []
