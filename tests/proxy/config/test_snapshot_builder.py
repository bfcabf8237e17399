from hypothesis import given
from hypothesis import strategies as st

from proxy.config.cluster_config import HealthStatus, LbPolicy, Locality
from proxy.config.destination_rule import LocalityLbSetting, TrafficPolicy
from proxy.config.destination_rule import OutlierDetection as Block
from proxy.config.mesh_config import MeshConfig
from proxy.config.node import NodeConfig
from proxy.config.releases import IstioRelease
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from tests.proxy.config.resources import resource, routes, rule, service, workload

CLUSTER = "outbound|80||a.default.svc.cluster.local"


def build(*resources, **context):
    builder = SnapshotBuilder(ConversionContext(**context))
    builder.update([(None, resource) for resource in resources])
    return builder


def domains(snapshot):
    return {domain: host.name for host in reversed(snapshot.routes.virtual_hosts) for domain in host.domains}


def test_a_service_without_rules_gets_a_cluster_and_a_virtual_host_for_each_port():
    snapshot = build(service("a", "10.0.0.1", ports={"http": 80, "web": 8080})).snapshot

    assert list(snapshot.clusters) == [CLUSTER, "outbound|8080||a.default.svc.cluster.local"]
    assert [host.routes[0].action.cluster for host in snapshot.routes.virtual_hosts] == list(snapshot.clusters)
    assert snapshot.clusters[CLUSTER].outlier_detection is None


def test_names_without_port_mean_port_80():
    found = domains(build(service("a", ports={"web": 8080, "http": 80})).snapshot)

    assert found["a"] == found["a.default.svc"] == found["a:80"] == "a.default.svc.cluster.local:80"
    assert found["a.default:8080"] == "a.default.svc.cluster.local:8080"


def test_names_without_port_mean_the_first_port_when_there_is_no_80():
    found = domains(build(service("a", ports={"web": 8080, "admin": 9090})).snapshot)

    assert found["a"] == "a.default.svc.cluster.local:8080"


def test_short_names_stop_at_the_namespace():
    found = domains(build(service("a", namespace="shop")).snapshot)

    assert "a" not in found
    assert {"a.shop", "a.shop.svc", "a.shop.svc.cluster.local:80"} <= found.keys()


def test_a_port_that_is_not_http_has_a_cluster_but_no_virtual_host():
    ports = [{"name": "tcp", "number": 5432, "protocol": "TCP"}, {"name": "any", "number": 80}]
    database = resource("ServiceEntry", "db", {"hosts": ["db.example"], "resolution": "STATIC", "ports": ports[:1]})
    sniffed = resource("ServiceEntry", "x", {"hosts": ["x.example"], "resolution": "STATIC", "ports": ports[1:]})
    snapshot = build(database, sniffed).snapshot

    assert list(snapshot.clusters) == ["outbound|5432||db.example", "outbound|80||x.example"]
    assert [host.name for host in snapshot.routes.virtual_hosts] == ["x.example:80"]


def test_a_rule_changes_only_the_clusters_of_its_host():
    builder = build(service("a", "10.0.0.1"), service("b", "10.0.0.1"))
    before = builder.snapshot

    after = builder.update([(None, rule("a", "{host: a, trafficPolicy: {outlierDetection: {}}}"))])

    assert after.changed == {CLUSTER}
    assert after.clusters[CLUSTER].outlier_detection is not None
    assert all(after.clusters[name] is before.clusters[name] for name in before.clusters if name != CLUSTER)
    assert after.routes is before.routes


def test_a_change_that_makes_no_difference_gives_the_same_snapshot():
    builder = build(service("a", "10.0.0.1"))
    before = builder.snapshot

    assert builder.update([(None, rule("x", {"host": "nobody"}))]) is before


def test_unchanged_endpoints_are_the_same_objects():
    old = service("a", "10.0.0.1", "10.0.0.2")
    builder = build(old)
    before = builder.snapshot.clusters[CLUSTER].endpoints

    after = builder.update([(old, service("a", "10.0.0.2", "10.0.0.3"))]).clusters[CLUSTER].endpoints

    assert after[0] is before[1]
    assert [endpoint.address for endpoint in after] == ["10.0.0.2:80", "10.0.0.3:80"]


def test_a_removed_service_takes_its_clusters_and_virtual_hosts_along():
    old = service("a", "10.0.0.1")
    builder = build(old, service("b", "10.0.0.1"))

    after = builder.update([(old, None)])

    assert list(after.clusters) == ["outbound|80||b.default.svc.cluster.local"]
    assert after.changed == {CLUSTER}
    assert len(after.routes.virtual_hosts) == 1


def test_a_subset_takes_the_endpoints_with_its_labels():
    endpoints = [{"address": "10.0.0.1", "labels": {"version": "v1"}}, {"address": "10.0.0.2"}]
    snapshot = build(
        service("a", endpoints=endpoints),
        rule("a", "{host: a, subsets: [{name: v1, labels: {version: v1}}, {name: all}]}"),
    ).snapshot

    def addresses(subset):
        return [e.address for e in snapshot.clusters[CLUSTER.replace("||", f"|{subset}|")].endpoints]

    assert addresses("v1") == ["10.0.0.1:80"]
    assert addresses("all") == ["10.0.0.1:80", "10.0.0.2:80"]


def test_a_subset_of_a_dns_service_without_endpoints_is_left_out():
    dns = service("a", host="a.example", resolution="DNS", endpoints=[{"address": "one.example"}])
    snapshot = build(dns, rule("a", "{host: a.example, subsets: [{name: v1, labels: {version: v1}}]}")).snapshot

    assert list(snapshot.clusters) == ["outbound|80||a.example"]


def test_passthrough_has_no_endpoints():
    snapshot = build(
        service("a", "10.0.0.1"), rule("a", "{host: a, trafficPolicy: {loadBalancer: {simple: PASSTHROUGH}}}")
    ).snapshot

    assert snapshot.clusters[CLUSTER].endpoints == ()
    assert snapshot.clusters[CLUSTER].load_balancer.policy is LbPolicy.CLUSTER_PROVIDED


def test_outlier_detection_ranks_endpoints_by_locality():
    endpoints = [{"address": "10.0.0.1", "locality": "west/b"}, {"address": "10.0.0.2", "locality": "west/a"}]
    resources = (service("a", endpoints=endpoints), rule("a", "{host: a, trafficPolicy: {outlierDetection: {}}}"))
    node = NodeConfig(locality=Locality("west", "a"))

    def priorities(**context):
        return [e.priority for e in build(*resources, node=node, **context).snapshot.clusters[CLUSTER].endpoints]

    assert priorities() == [1, 0]
    assert priorities(mesh=MeshConfig(locality_lb_setting=LocalityLbSetting(enabled=False))) == [0, 0]


def test_outlier_detection_from_the_mesh_does_not_rank_endpoints():
    """Istio computes endpoints without the mesh's default policy."""
    endpoints = [{"address": "10.0.0.1", "locality": "west/b"}, {"address": "10.0.0.2", "locality": "west/a"}]
    mesh = MeshConfig(default_traffic_policy=TrafficPolicy(outlier_detection=Block()))
    node = NodeConfig(locality=Locality("west", "a"))

    cluster = build(service("a", endpoints=endpoints), node=node, mesh=mesh).snapshot.clusters[CLUSTER]

    assert cluster.outlier_detection is not None
    assert [endpoint.priority for endpoint in cluster.endpoints] == [0, 0]


def test_distribute_gives_localities_weights_and_empties_the_rest():
    localities = ("west/a", "west/b", "east/a")
    endpoints = [{"address": f"10.0.0.{n}", "locality": text} for n, text in enumerate(localities, 1)]
    policy = """\
host: a
trafficPolicy:
  loadBalancer:
    localityLbSetting: {distribute: [{from: west/*, to: {west/a: 80, west/b: 20}}]}
"""
    node = NodeConfig(locality=Locality("west", "a"))

    cluster = build(service("a", endpoints=endpoints), rule("a", policy), node=node).snapshot.clusters[CLUSTER]

    assert [endpoint.address for endpoint in cluster.endpoints] == ["10.0.0.1:80", "10.0.0.2:80"]
    assert cluster.load_balancer.locality_weighted
    assert cluster.load_balancer.locality_weights == {(0, Locality("west", "a")): 80, (0, Locality("west", "b")): 20}


def test_unhealthy_workloads_are_withheld_when_a_share_of_healthy_ones_is_asked_for():
    resources = (
        service("a", workloadSelector={"labels": {"app": "a"}}, endpoints=[]),
        workload(
            "w",
            "{address: 10.0.0.1, labels: {app: a}}",
            annotations={"proxy.istio.io/health-checks-enabled": "true"},
        ),
    )

    def endpoints(percent, release="current"):
        policy = rule("a", {"host": "a", "trafficPolicy": {"outlierDetection": {"minHealthPercent": percent}}})
        builder = build(*resources, policy, release=IstioRelease.parse(release))
        return [endpoint.health_status for endpoint in builder.snapshot.clusters[CLUSTER].endpoints]

    assert endpoints(0) == [HealthStatus.UNHEALTHY]
    assert endpoints(1) == []
    assert endpoints(0, "1.1") == []


def test_routes_follow_the_hash_of_their_destination():
    builder = build(
        service("a", "10.0.0.1"),
        service("b", "10.0.0.1"),
        routes("a", "{hosts: [a], http: [{route: [{destination: {host: b}}]}]}"),
    )
    hashed = rule("b", "{host: b, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user}}}}")

    snapshot = builder.update([(None, hashed)])

    policies = {host.service_host[0]: host.routes[0].action.hash_policy for host in snapshot.routes.virtual_hosts}
    assert [policy.name for policy in policies["a"]] == ["x-user"]
    assert [policy.name for policy in policies["b"]] == ["x-user"]


def test_a_virtual_service_for_no_service_is_a_virtual_host_on_port_80():
    snapshot = build(
        service("a", "10.0.0.1"), routes("v", "{hosts: [shop.example], http: [{route: [{destination: {host: a}}]}]}")
    ).snapshot

    assert domains(snapshot)["shop.example"] == domains(snapshot)["shop.example:80"] == "shop.example:80"


def test_a_service_takes_over_from_a_wildcard_virtual_service_and_gives_back():
    wildcard = routes("v", "{hosts: ['*.example'], http: [{name: v, route: [{destination: {host: a}}]}]}")
    builder = build(service("a", "10.0.0.1"), wildcard)
    shop = service("shop", "10.0.0.1", host="shop.example")

    before = domains(builder.snapshot)
    during = builder.update([(None, shop)])
    after = domains(builder.update([(shop, None)]))

    assert before["*.example"] == after["*.example"] == "*.example:80"
    assert "*.example" not in domains(during)
    assert [host.routes[0].name for host in during.routes.virtual_hosts if host.service_host == "shop.example"] == ["v"]


def test_the_oldest_virtual_service_of_a_host_wins():
    def named(name, created_ms):
        body = f"{{hosts: [a], http: [{{name: {name}, route: [{{destination: {{host: a}}}}]}}]}}"
        return routes(name, body, created_ms=created_ms)

    snapshot = build(service("a", "10.0.0.1"), named("new", 2), named("old", 1)).snapshot

    assert snapshot.routes.virtual_hosts[0].routes[0].name == "old"


POOL = [
    service("a", "10.0.0.1", "10.0.0.2"),
    service("a", "10.0.0.2", ports={"http": 80, "web": 81}),
    service("b", "10.0.0.1"),
    service("b", host="b.example", resolution="DNS", endpoints=[]),
    service("s", workloadSelector={"labels": {"app": "a"}}, endpoints=[]),
    workload("w", "{address: 10.0.0.1, labels: {app: a}}"),
    workload("w", "{address: 10.0.0.1, labels: {app: b}}"),
    rule("a", "{host: a, trafficPolicy: {outlierDetection: {}}}"),
    rule("a", "{host: b, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}"),
    rule("all", "{host: '*.cluster.local', trafficPolicy: {outlierDetection: {interval: 1s}}}"),
    routes("a", "{hosts: [a], http: [{route: [{destination: {host: b}}]}]}"),
    routes("root", "{hosts: [b], http: [{match: [{uri: {prefix: /a}}], delegate: {name: leaf}}]}"),
    routes("leaf", "{http: [{route: [{destination: {host: a}}]}]}"),
    routes("leaf", "{http: [{route: [{destination: {host: s}}]}], exportTo: [x]}"),
    routes("a", "{hosts: ['*.example', s], http: [{route: [{destination: {host: a}}]}]}"),
]  # fmt: skip


@given(st.lists(st.lists(st.tuples(st.sampled_from(POOL), st.booleans()), max_size=4), max_size=8))
def test_changes_one_by_one_come_to_the_same_as_all_at_once(steps):
    """Invariant: the snapshot depends on the resources in force, not on how they came."""
    builder = build()
    current = {}
    for step in steps:
        changes = {drawn.key: drawn if present else None for drawn, present in step}
        builder.update([(current.get(key), new) for key, new in changes.items() if current.get(key) != new])
        current |= changes

    whole = build(*filter(None, current.values())).snapshot

    assert dict(builder.snapshot.clusters) == dict(whole.clusters)
    assert builder.snapshot.routes == whole.routes
