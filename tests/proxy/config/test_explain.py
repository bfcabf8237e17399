import pytest

from outlier import EnvoyRelease
from proxy.config.explain import explain
from proxy.config.explain_setting import OriginKind
from proxy.config.issue import Report
from proxy.config.mesh_config import MeshConfig, read_mesh_config
from proxy.config.releases import IstioRelease
from proxy.config.service_clusters import ConversionContext
from proxy.config.static_config import static_config

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop}
spec:
  hosts: [shop.default.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1, labels: {v: '1'}}, {address: 10.0.0.2}, {address: 10.0.0.3}]
"""
RULE = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop}
spec:
  host: shop
  trafficPolicy:
"""


def explained(policy, *, release="current", envoy=EnvoyRelease.V1_40, mesh=None, subset=""):
    text = RULE + "".join(f"    {line}\n" for line in policy.splitlines())
    context = ConversionContext(release=IstioRelease.parse(release), mesh=mesh or MeshConfig())
    config = static_config({"service.yaml": SERVICE, "rule.yaml": text}, context)
    assert not any(contents.errors for contents in config.contents.values())
    return next(cluster for cluster in explain(config, envoy) if cluster.config.subset == subset)


def setting(cluster, name):
    return next(setting for setting in cluster.settings if setting.envoy_name == name)


def test_a_field_of_the_rule_is_named_with_its_place():
    interval = setting(explained("outlierDetection:\n  interval: 5s"), "outlier_detection.interval")

    assert interval.value_text == "5s"
    assert interval.origin.kind is OriginKind.RULE
    assert str(interval.origin) == "trafficPolicy.outlierDetection.interval (rule.yaml:8)"


def test_an_enforcing_share_comes_from_the_count_that_switches_it():
    cluster = explained("outlierDetection:\n  consecutive5xxErrors: 0")

    enforcing = setting(cluster, "outlier_detection.enforcing_consecutive_5xx")

    assert (enforcing.value, enforcing.origin.field) == (0, "trafficPolicy.outlierDetection.consecutive5xxErrors")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("outlier_detection.consecutive_5xx", "5", OriginKind.ENVOY),
        ("outlier_detection.enforcing_success_rate", "0", OriginKind.ISTIO),
        ("outlier_detection.max_ejection_time", "5m", OriginKind.ENVOY),
        ("connect_timeout", "10s", OriginKind.ISTIO),
        ("idle_timeout", "1h", OriginKind.ENVOY),
        ("lb_policy", "LEAST_REQUEST", OriginKind.ISTIO),
        ("circuit_breakers.max_retries", "4294967295", OriginKind.ISTIO),
        ("healthy_panic_threshold", "0", OriginKind.RULE),
        ("type", "EDS", OriginKind.RULE),
    ],
)
def test_what_the_rule_does_not_say_has_another_origin(name, value, kind):
    found = setting(explained("outlierDetection: {}"), name)

    assert (found.value_text, found.origin.kind) == (value, kind)


def test_a_zero_that_is_not_sent_is_told():
    cluster = explained("outlierDetection:\n  maxEjectionPercent: 0")

    found = setting(cluster, "outlier_detection.max_ejection_percent")

    assert found.value == 10
    assert str(found.origin) == (
        "Envoy's default: trafficPolicy.outlierDetection.maxEjectionPercent = 0 is not sent (rule.yaml:8)"
    )
    assert cluster.notes == (
        "of 3 endpoints, 10 % lets none ever go under Envoy 1.40",
        "under Envoy 1.8 and 1.27 it lets 1 go: since 1.28 the next ejection must fit as well",
    )


@pytest.mark.parametrize(
    ("percent", "counts"), [(33, (0, 1, 1)), (34, (1, 2, 2)), (66, (1, 2, 2)), (67, (2, 3, 3)), (100, (3, 3, 3))]
)
def test_notes_count_what_a_cap_lets_go_of_three_endpoints(percent, counts):
    for release, count in zip(reversed(EnvoyRelease), counts, strict=True):
        cluster = explained(f"outlierDetection:\n  maxEjectionPercent: {percent}", envoy=release)

        assert cluster.notes[0].startswith(f"of 3 endpoints, {percent} % lets {count or 'none ever'} go")


def test_a_port_entry_is_named_as_the_place():
    cluster = explained("portLevelSettings:\n- port: {number: 80}\n  loadBalancer: {simple: RANDOM}")

    assert setting(cluster, "lb_policy").origin.field == "trafficPolicy.portLevelSettings[0].loadBalancer.simple"
    assert setting(cluster, "outlier_detection").value == "off"


def test_the_meaning_depends_on_the_release():
    cluster = explained("outlierDetection:\n  consecutiveErrors: 3", release="1.0.0")

    found = setting(cluster, "outlier_detection.consecutive_5xx")

    assert (found.value, found.origin.field) == (3, "trafficPolicy.outlierDetection.consecutiveErrors")
    assert setting(cluster, "healthy_panic_threshold").value == 50


def test_a_block_of_the_mesh_is_named_as_such():
    mesh = read_mesh_config({"defaultTrafficPolicy": {"outlierDetection": {"interval": "7s"}}}, Report())
    cluster = explained("loadBalancer: {simple: RANDOM}", mesh=mesh)

    assert setting(cluster, "outlier_detection.interval").origin.kind is OriginKind.MESH


def test_settings_of_detectors_that_never_eject_are_inert():
    cluster = explained("outlierDetection: {}")

    assert setting(cluster, "outlier_detection.success_rate_stdev_factor").inert
    assert setting(cluster, "outlier_detection.consecutive_local_origin_failure").inert
    assert not setting(cluster, "outlier_detection.consecutive_5xx").inert


@pytest.mark.parametrize(
    ("mesh", "name", "value", "because"),
    [
        ({"connectTimeout": "3s"}, "connect_timeout", "3s", "connectTimeout"),
        ({"tcpKeepalive": {"probes": 3}}, "tcp_keepalive", "on", "tcpKeepalive"),
        ({"tcpKeepalive": {"probes": 3}}, "tcp_keepalive.keepalive_probes", "3", "tcpKeepalive.probes"),
        (
            {"localityLbSetting": {"distribute": [{"from": "*", "to": {"eu/*": 100}}]}},
            "locality_weighted",
            "true",
            "localityLbSetting",
        ),
    ],
    ids=["connect-timeout", "keepalive", "keepalive-probes", "locality"],
)
def test_a_field_of_the_mesh_is_named_as_such(mesh, name, value, because):
    found = setting(explained("outlierDetection: {}", mesh=read_mesh_config(mesh, Report())), name)

    assert (found.value_text, found.origin.kind, found.origin.text) == (value, OriginKind.MESH, because)


def test_a_keepalive_without_fields_is_still_one():
    cluster = explained("connectionPool: {tcp: {tcpKeepalive: {}}}")

    assert setting(cluster, "tcp_keepalive").origin.field == "trafficPolicy.connectionPool.tcp.tcpKeepalive"


def test_parts_of_a_budget_have_origins_of_their_own():
    cluster = explained("retryBudget: {percent: 25}")

    budget = {
        name: setting(cluster, f"circuit_breakers.retry_budget.{name}")
        for name in ("budget_percent", "min_retry_concurrency")
    }

    assert {name: part.value for name, part in budget.items()} == {"budget_percent": 25, "min_retry_concurrency": 3}
    assert budget["budget_percent"].origin.field == "trafficPolicy.retryBudget.percent"
    assert budget["min_retry_concurrency"].origin.kind is OriginKind.ISTIO


def test_what_the_sidecar_does_not_do_is_said():
    found = setting(explained("tls: {mode: ISTIO_MUTUAL}"), "tls.mode")

    assert not found.applied
    assert found.origin.text.endswith("not applied by the sidecar")


def test_of_a_list_each_resource_has_its_own_place():
    items = "\n".join(
        f"- {first}\n" + "\n".join(f"  {line}" for line in rest)
        for first, *rest in (SERVICE.splitlines(), (RULE + "    loadBalancer: {simple: RANDOM}").splitlines())
    )
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}\n"
    (cluster,) = explain(static_config({"list.yaml": text}, ConversionContext()))

    assert (cluster.service.line, [rule.line for rule in cluster.rules]) == (4, [12])
    assert setting(cluster, "lb_policy").origin.line == 18
