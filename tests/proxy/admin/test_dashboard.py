"""The dashboard's files and the state behind it; `tests/browser` drives the page itself."""

from types import SimpleNamespace

import pytest

from outlier import OutlierDetection
from proxy.admin.dashboard import host_state
from proxy.config.issue import Severity
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import static_config
from proxy.demo_script import rules
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
    good.rq_total, bad.rq_total, bad.rq_error, bad.rq_timeout = 3, 4, 1, 2

    state = await (await admin.get("/dashboard/state")).json()

    (shown,) = state["clusters"]
    assert (shown["name"], shown["detects"], shown["rq_total"], shown["rq_failed"]) == (CLUSTER, True, 7, 3)
    assert [(host["address"], host["state"]) for host in shown["hosts"]] == [
        (good.address, "healthy"),
        (bad.address, "ejected"),
    ]
    assert shown["hosts"][1]["back_in_ms"] == 30_000
    assert "back_in_ms" not in shown["hosts"][0]


def source(*, stale_since_ms=None, severities=(), connected=None):
    connection = None if connected is None else SimpleNamespace(connected=connected)
    issues = [SimpleNamespace(severity=severity) for severity in severities]
    return SimpleNamespace(name="s", stale_since_ms=stale_since_ms, issues=issues, connection=connection)


@pytest.mark.parametrize(
    ("of", "refused", "unreachable"),
    [
        (source(), False, []),
        (source(stale_since_ms=5, severities=[Severity.ERROR]), True, []),
        (source(severities=[Severity.WARNING], connected=True), False, []),
        (source(stale_since_ms=5, connected=False), False, ["s"]),
    ],
    ids=["good file", "refused", "surprising", "lost server"],
)
async def test_state_tells_a_refused_configuration_from_a_lost_server(sidecar, admin, of, refused, unreachable):
    sidecar.config_status = SimpleNamespace(version="1", sources=[of])

    state = await (await admin.get("/dashboard/state")).json()
    assert (state["config_refused"], state["config_unreachable"]) == (refused, unreachable)


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


@pytest.fixture
def configured(sidecar):
    """The demo's rules as a pipeline would have built them; the cluster runs on them."""
    config = static_config({"shop.yaml": rules([10_000])}, ConversionContext(node=sidecar.bootstrap.node))
    sidecar.config_builder = config.builder
    (built,) = config.builder.snapshot.clusters.values()
    return sidecar.add_cluster(built.name, detection=built.outlier_detection)


async def test_rule_says_where_each_setting_comes_from(configured, admin):
    rule = await (await admin.get("/dashboard/rule", params={"cluster": configured.name})).json()

    settings = {setting["name"]: setting for setting in rule["settings"]}
    assert settings["outlier_detection.consecutive_5xx"]["value"] == "3"
    assert "consecutive5xxErrors" in settings["outlier_detection.consecutive_5xx"]["origin"]
    assert not settings["outlier_detection.consecutive_5xx"]["quiet"]
    assert settings["outlier_detection.success_rate_stdev_factor"] == {
        "name": "outlier_detection.success_rate_stdev_factor",
        "value": "1900",
        "origin": "Envoy's default",
        "quiet": True,
    }
    assert "50 % lets none ever go" in rule["notes"][0]


async def test_rule_shows_a_runtime_override(sidecar, configured, admin):
    sidecar.runtime.modify({"outlier_detection.base_ejection_time_ms": 9_000})

    rule = await (await admin.get("/dashboard/rule", params={"cluster": configured.name})).json()
    setting = next(setting for setting in rule["settings"] if setting["name"] == "outlier_detection.base_ejection_time")
    assert (setting["value"], setting["origin"], setting["quiet"]) == ("9s", "runtime override", False)


async def test_rule_of_an_unknown_cluster_is_not_found(configured, admin):
    assert (await admin.get("/dashboard/rule?cluster=x")).status == 404


async def test_rule_of_a_configuration_without_sources_is_not_found(sidecar, admin):
    sidecar.add_cluster("plain")

    assert (await admin.get("/dashboard/rule?cluster=plain")).status == 404
