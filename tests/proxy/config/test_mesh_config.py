from proxy.config.issue import Report
from proxy.config.mesh_config import read_mesh_config
from proxy.config.node import NodeConfig
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from tests.proxy.config.resources import routes, rule, service

CLUSTER = "outbound|80||a.default.svc.cluster.local"


def build(mesh, *resources, **node):
    report = Report()
    context = ConversionContext(mesh=read_mesh_config(mesh, report), node=NodeConfig(**node))
    assert report.issues == []
    builder = SnapshotBuilder(context)
    builder.update([(None, resource) for resource in resources])
    return builder.snapshot


def test_times_of_the_mesh_are_defaults_of_rules():
    mesh = {"connectTimeout": "3s", "dnsRefreshRate": "5s", "tcpKeepalive": {"probes": 2, "time": "60s"}}
    policy = "{host: b, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1s, tcpKeepalive: {probes: 4}}}}}"
    clusters = build(mesh, service("a", "10.0.0.1"), service("b", "10.0.0.1"), rule("b", policy)).clusters
    default, own = clusters[CLUSTER], clusters[CLUSTER.replace("||a", "||b")]

    assert (default.connect_timeout_ms, default.dns_refresh_ms, default.tcp_keepalive.probes) == (3000, 5000, 2)
    assert (own.connect_timeout_ms, own.tcp_keepalive.probes, own.tcp_keepalive.time_s) == (1000, 4, 60)


def test_retries_of_the_mesh_hold_for_routes_without_any():
    mesh = {"defaultHttpRetryPolicy": {"attempts": 0}}
    body = "{hosts: [b], http: [{retries: {attempts: 4}, route: [{destination: {host: a}}]}]}"
    snapshot = build(mesh, service("a", "10.0.0.1"), service("b", "10.0.0.1"), routes("b", body))

    retries = {host.service_host[0]: host.routes[0].action.retry for host in snapshot.routes.virtual_hosts}

    assert retries["a"] is None
    assert retries["b"].num_retries == 4


def test_exports_of_the_mesh_hold_for_resources_without_any():
    mesh = {"defaultServiceExportTo": ["."]}

    assert build(mesh, service("a", "10.0.0.1")).clusters.keys() == {CLUSTER}
    assert build(mesh, service("a", "10.0.0.1"), namespace="other").clusters == {}


def test_http2_of_the_mesh_reaches_ports_declared_http():
    snapshot = build({"h2UpgradePolicy": "UPGRADE"}, service("a", "10.0.0.1"))

    assert snapshot.clusters[CLUSTER].h2_upstream is not None


def test_a_wrong_default_is_reported():
    report = Report()

    read_mesh_config({"connectTimeout": 10, "conectTimeout": "1s"}, report)

    assert [issue.path for issue in report] == [("connectTimeout",), ("conectTimeout",)]
