"""Reports from users of Istio and Envoy about rules that did not do what they said, each with what is right.

The numbers are those of the upstream issues.
"""

import pytest

from outlier import OutlierDetection
from proxy.config.advice import advise
from proxy.config.cluster_config import ClusterType, Locality
from proxy.config.node import NodeConfig
from proxy.config.releases import IstioRelease
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.config.static_config import static_config
from tests.proxy.config.resources import rule, service


def clusters(spec, *, endpoints=None, ports=None, release="current", locality=""):
    """Return the clusters of service `a` by port and subset, under one rule."""
    context = ConversionContext(node=NodeConfig(locality=Locality.parse(locality)), release=IstioRelease.parse(release))
    builder = SnapshotBuilder(context)
    endpoints = endpoints or [{"address": "10.0.0.1"}, {"address": "10.0.0.2"}]
    resources = [service("a", endpoints=endpoints, ports=ports), rule("a", {"host": "a"} | spec)]
    builder.update([(None, resource) for resource in resources])
    return {(cluster.port, cluster.subset): cluster for cluster in builder.snapshot.clusters.values()}


def detection(block, **arguments):
    return clusters({"trafficPolicy": {"outlierDetection": block}}, **arguments)[80, ""].outlier_detection


@pytest.mark.parametrize(
    ("release", "consecutive_5xx", "enforcing_5xx", "gateway", "enforcing_gateway"),
    [
        ("1.0.0", 1, 100, 5, 0),
        ("1.1", 5, 0, 1, 100),
        ("current", 5, 100, 5, 0),
    ],
)
def test_legacy_consecutive_errors(release, consecutive_5xx, enforcing_5xx, gateway, enforcing_gateway):
    """istio/istio#8846, #12349: three meanings in three releases."""
    found = detection({"consecutiveErrors": 1, "interval": "1s"}, release=release)

    assert (found.consecutive_5xx, found.enforcing_consecutive_5xx) == (consecutive_5xx, enforcing_5xx)
    assert (found.consecutive_gateway_failure, found.enforcing_consecutive_gateway_failure) == (
        gateway,
        enforcing_gateway,
    )


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ({}, {}),
        ({"consecutive5xxErrors": 0}, {"consecutive_5xx": 0, "enforcing_consecutive_5xx": 0}),
        ({"consecutive5xxErrors": 1}, {"consecutive_5xx": 1}),
        ({"consecutiveGatewayErrors": 0}, {"consecutive_gateway_failure": 0}),
        (
            {"consecutiveGatewayErrors": 1},
            {"consecutive_gateway_failure": 1, "enforcing_consecutive_gateway_failure": 100},
        ),
        ({"maxEjectionPercent": 0}, {}),
        ({"maxEjectionPercent": 1}, {"max_ejection_percent": 1}),
        ({"minHealthPercent": 0}, {}),
    ],
)
def test_zero_is_not_unset(block, fields):
    """istio/istio#24076."""
    assert detection(block) == OutlierDetection(enforcing_success_rate=0, **fields)


def test_panic_is_off_by_default():
    """istio/istio#20135, #13682, #25883: people expect panic to keep something alive."""

    def threshold(policy, release="1.20.0"):
        found = clusters({"trafficPolicy": policy}, release=release)[80, ""]
        return found.load_balancer.healthy_panic_threshold

    assert threshold({"outlierDetection": {}}) == 0
    assert threshold({"outlierDetection": {"minHealthPercent": 50}}) == 50
    assert threshold({"loadBalancer": {"simple": "RANDOM"}}) is None


def test_a_split_without_count_ejects_after_five_local_failures():
    """istio/istio#32645: 0 does not switch it off."""
    for block in ({}, {"consecutiveLocalOriginFailures": 0}):
        found = detection({"splitExternalLocalOriginErrors": True} | block)

        assert (found.consecutive_local_origin_failure, found.enforcing_consecutive_local_origin_failure) == (5, 100)


def test_a_port_entry_inherits_nothing():
    """istio/istio.io#17176, istio/istio#58297."""
    policy = {
        "outlierDetection": {"consecutive5xxErrors": 1},
        "portLevelSettings": [{"port": {"number": 80}, "loadBalancer": {"simple": "RANDOM"}}],
    }
    found = clusters({"trafficPolicy": policy}, ports={"http": 80, "web": 81})

    assert found[80, ""].outlier_detection is None
    assert found[81, ""].outlier_detection.consecutive_5xx == 1


def test_a_subset_block_loses_the_thresholds_of_the_rule():
    """istio/istio#39602, #34508."""
    subset = {"name": "v1", "trafficPolicy": {"outlierDetection": {"interval": "1s"}}}
    found = clusters(
        {"trafficPolicy": {"outlierDetection": {"consecutive5xxErrors": 1}}, "subsets": [subset, {"name": "v2"}]}
    )

    assert (found[80, "v1"].outlier_detection.consecutive_5xx, found[80, "v1"].outlier_detection.interval_ms) == (
        5,
        1000,
    )
    assert found[80, "v2"].outlier_detection.consecutive_5xx == 1


@pytest.mark.parametrize(
    ("policy", "priorities"),
    [
        ({"loadBalancer": {"simple": "RANDOM"}}, [0, 0]),
        ({"outlierDetection": {}}, [0, 1]),
        ({"outlierDetection": {}, "loadBalancer": {"localityLbSetting": {"enabled": False}}}, [0, 0]),
    ],
)
def test_locality_failover_is_coupled_to_outlier_detection(policy, priorities):
    """istio/istio#12961, #48084, #40506."""
    endpoints = [{"address": "10.0.0.1", "locality": "w/a"}, {"address": "10.0.0.2", "locality": "w/b"}]
    found = clusters({"trafficPolicy": policy}, endpoints=endpoints, locality="w/a")[80, ""]

    assert [endpoint.priority for endpoint in found.endpoints] == priorities


def test_distribute_never_fails_over():
    """istio/istio#59879: all traffic to one locality, whether it is alive or not."""
    endpoints = [{"address": "10.0.0.1", "locality": "w/a"}, {"address": "10.0.0.2", "locality": "w/b"}]
    setting = {"distribute": [{"from": "w/*", "to": {"w/b": 100}}]}
    policy = {"outlierDetection": {}, "loadBalancer": {"localityLbSetting": setting}}
    found = clusters({"trafficPolicy": policy}, endpoints=endpoints, locality="w/a")[80, ""]

    assert [(endpoint.address, endpoint.priority) for endpoint in found.endpoints] == [("10.0.0.2:80", 0)]


@pytest.mark.parametrize(
    ("text", "ms"), [("3m", 180_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("100ms", 100), ("10m", 600_000)]
)
def test_durations_as_people_write_them(text, ms):
    """istio/istio#8846, #13682, #57010."""
    found = detection({"interval": text, "baseEjectionTime": text})

    assert (found.interval_ms, found.base_ejection_time_ms) == (ms, ms)
    assert found.max_ejection_time_ms == max(300_000, ms)


def test_one_name_may_be_one_host():
    """aws/aws-app-mesh-roadmap#273: a logical DNS name is one host whatever it resolves to, a strict one is not."""
    text = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec: {hosts: [a.example], resolution: %s, ports: [{number: 80, name: http, protocol: HTTP}]}
"""

    def found(resolution):
        config = static_config({"a.yaml": text % resolution}, ConversionContext())
        (cluster,) = config.builder.snapshot.clusters.values()
        return cluster.type, [issue.rule for issue in advise(config)]

    assert found("DNS") == (ClusterType.STRICT_DNS, [])
    kind, warnings = found("DNS_ROUND_ROBIN")
    assert kind is ClusterType.LOGICAL_DNS
    assert "is one host to outlier detection" in warnings[0]
