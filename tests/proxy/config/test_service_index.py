import pytest

from proxy.config.cluster_config import HealthStatus, Locality
from proxy.config.node import NodeConfig
from proxy.config.service_index import ServiceIndex
from tests.proxy.config.resources import resource, service, workload

HOST = "a.default.svc.cluster.local"
PROBED = {"proxy.istio.io/health-checks-enabled": "true"}


@pytest.fixture
def index():
    return ServiceIndex(NodeConfig())


def addresses(index, host=HOST, port=0):
    found = index.service(host)
    return [endpoint.address for endpoint in found.endpoints(found.ports[port])]


def test_endpoint_ports_come_from_the_endpoint_then_the_target_then_the_service_port(index):
    index.update_service(
        None,
        service(
            "a",
            endpoints=[{"address": "10.0.0.1", "ports": {"http": 8080}}, {"address": "10.0.0.2"}],
            ports={"http": 80},
        ),
    )
    index.update_service(
        None,
        resource(
            "ServiceEntry",
            "b",
            "{hosts: [b.example], resolution: STATIC, ports: [{name: http, number: 80, targetPort: 9090}],"
            " endpoints: [{address: '::1'}]}",
        ),
    )

    assert addresses(index) == ["10.0.0.1:8080", "10.0.0.2:80"]
    assert addresses(index, "b.example") == ["[::1]:9090"]


def test_a_unix_socket_has_no_port(index):
    index.update_service(None, service("a", "unix:///run/a.sock"))

    assert addresses(index) == ["unix:///run/a.sock"]


@pytest.mark.parametrize("resolution", ["DNS", "DNS_ROUND_ROBIN"])
def test_a_dns_service_without_endpoints_is_looked_up_itself(index, resolution):
    index.update_service(None, service("a", host="shop.example", resolution=resolution, endpoints=[]))

    assert addresses(index, "shop.example") == ["shop.example:80"]


def test_weight_locality_and_labels(index):
    labelled = {"address": "10.0.0.2", "labels": {"istio-locality": "r.y"}}
    endpoint = {"address": "10.0.0.1", "weight": 3, "locality": "r/z/s", "labels": {"app": "x"}, "network": "n"}
    index.update_service(None, service("a", endpoints=[endpoint, labelled]))

    found = index.service(HOST)
    first, second = found.endpoints(found.ports[0])

    assert (first.weight, first.locality) == (3, Locality("r", "z", "s"))
    assert first.labels == {
        "app": "x",
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": "z",
        "topology.istio.io/subzone": "s",
        "topology.istio.io/network": "n",
    }
    assert (second.weight, second.locality) == (1, Locality("r", "y"))


def test_entries_of_one_namespace_join_and_others_do_not(index):
    index.update_service(None, service("a", "10.0.0.1", created_ms=1))
    index.update_service(None, service("a2", "10.0.0.2", host=HOST, ports={"http": 80, "web": 81}, created_ms=2))
    index.update_service(None, service("a3", "10.0.0.3", host=HOST, namespace="other"))

    assert addresses(index) == ["10.0.0.1:80", "10.0.0.2:80"]
    assert [port.number for port in index.service(HOST).ports] == [80, 81]


def test_the_own_namespace_comes_before_an_older_entry_elsewhere(index):
    index.update_service(None, service("x", "10.0.0.1", host="shop.example", namespace="other", created_ms=1))
    index.update_service(None, service("y", "10.0.0.2", host="shop.example", created_ms=2))

    assert addresses(index, "shop.example") == ["10.0.0.2:80"]


@pytest.mark.parametrize(
    ("export_to", "visible"),
    [([], True), (["*"], True), (["default"], True), (["other"], False), (["."], False), (["~"], False)],
)
def test_only_exported_services_of_other_namespaces_are_seen(index, export_to, visible):
    index.update_service(None, service("a", "10.0.0.1", host="shop.example", namespace="shop", exportTo=export_to))

    assert (index.service("shop.example") is not None) is visible


def test_a_selector_gathers_workloads_of_its_namespace(index):
    index.update_service(None, service("a", workloadSelector={"labels": {"app": "a"}}, endpoints=[]))

    touched = index.update_workload(None, workload("w1", "{address: 10.0.0.1, labels: {app: a}}"))
    index.update_workload(None, workload("w2", "{address: 10.0.0.2, labels: {app: b}}"))
    index.update_workload(None, workload("w3", "{address: 10.0.0.3, labels: {app: a}}", "other"))
    index.update_workload(None, workload("w4", "{address: 10.0.0.4}", labels={"app": "a"}))

    assert touched == [HOST]
    assert addresses(index) == ["10.0.0.1:80", "10.0.0.4:80"]


def test_a_workload_that_stops_matching_leaves(index):
    index.update_service(None, service("a", workloadSelector={"labels": {"app": "a"}}, endpoints=[]))
    old = workload("w", "{address: 10.0.0.1, labels: {app: a}}")
    index.update_workload(None, old)

    touched = index.update_workload(old, workload("w", "{address: 10.0.0.1, labels: {app: b}}"))

    assert touched == [HOST]
    assert addresses(index) == []


@pytest.mark.parametrize(
    ("annotations", "conditions", "status"),
    [
        ({}, {}, HealthStatus.UNKNOWN),
        (PROBED, {}, HealthStatus.UNHEALTHY),
        (PROBED, {"Healthy": "False"}, HealthStatus.UNHEALTHY),
        (PROBED, {"Healthy": "True"}, HealthStatus.UNKNOWN),
    ],
)
def test_a_probed_workload_is_healthy_only_when_its_status_says_so(index, annotations, conditions, status):
    index.update_service(None, service("a", workloadSelector={"labels": {"app": "a"}}, endpoints=[]))
    body = "{address: 10.0.0.1, labels: {app: a}}"
    index.update_workload(None, workload("w", body, annotations=annotations, conditions=conditions))

    found = index.service(HOST)

    assert [endpoint.health_status for endpoint in found.endpoints(found.ports[0])] == [status]
