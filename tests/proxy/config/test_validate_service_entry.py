import pytest

from proxy.config.issue import Report, Severity, format_path
from proxy.config.service_entry import ServiceEntry, WorkloadEntry
from proxy.config.validate_service_entry import check_service_entry, check_workload_entry

VALID = {
    "hosts": ["shop.example"],
    "resolution": "STATIC",
    "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
    "endpoints": [{"address": "10.0.0.1"}],
}
TCP = [{"number": 80, "name": "tcp", "protocol": "TCP"}]


def check(message, checker, body):
    report = Report()
    checker(message.read(body, (), report), "default", (), report)
    return {
        severity: sorted(format_path(issue.path) for issue in report if issue.severity is severity)
        for severity in Severity
    }


def service(**fields):
    found = check(ServiceEntry, check_service_entry, VALID | fields)
    return found[Severity.ERROR], found[Severity.WARNING]


def test_a_plain_service_is_fine():
    assert service() == ([], [])


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"hosts": []}, ["hosts"]),
        ({"hosts": ["*"]}, ["hosts[0]"]),
        ({"hosts": ["a_b.example"]}, ["hosts[0]"]),
        ({"endpoints": [{"address": "10.0.0.1"}], "workloadSelector": {"labels": {"a": "b"}}}, ["endpoints"]),
        ({"workloadSelector": {"labels": {"": "b"}}, "endpoints": []}, ["workloadSelector"]),
        ({"addresses": ["10.0.0.300"]}, ["addresses[0]"]),
        ({"addresses": ["10.0.0.0/8"], "resolution": "DNS"}, ["addresses[0]"]),
        ({"ports": [None]}, ["ports[0]"]),
        ({"ports": [{"number": 0, "name": "http"}]}, ["ports[0].number"]),
        ({"ports": [{"number": 65536, "name": "http"}]}, ["ports[0].number"]),
        ({"ports": [{"number": 80, "name": "http", "targetPort": 65536}]}, ["ports[0].targetPort"]),
        ({"ports": [{"number": 80, "name": "h_p"}]}, ["ports[0].name"]),
        ({"ports": [{"number": 80, "name": "a"}, {"number": 80, "name": "b"}]}, ["ports[1].number"]),
        ({"ports": [{"number": 80, "name": "a"}, {"number": 81, "name": "a"}]}, ["ports[1].name"]),
        ({"ports": [{"number": 80, "name": "a", "protocol": "QUIC"}]}, ["ports[0].protocol"]),
        ({"resolution": "NONE"}, ["endpoints"]),
        ({"endpoints": [None]}, ["endpoints[0]"]),
        ({"endpoints": [{"address": "shop.internal"}]}, ["endpoints[0].address"]),
        ({"endpoints": [{}]}, ["endpoints[0].address"]),
        ({"endpoints": [{"address": "10.0.0.1", "ports": {"web": 80}}]}, ["endpoints[0].ports.web"]),
        ({"endpoints": [{"address": "10.0.0.1", "ports": {"http": 0}}]}, ["endpoints[0].ports.http"]),
        ({"endpoints": [{"address": "unix://relative"}]}, ["endpoints[0].address"]),
        ({"endpoints": [{"address": "unix:///a", "ports": {"http": 80}}]}, ["endpoints[0].ports"]),
        ({"endpoints": [{"address": "10.0.0.1", "labels": {"a b": "c"}}]}, ["endpoints[0].labels"]),
        ({"resolution": "DNS", "hosts": ["*.example"], "endpoints": []}, ["hosts[0]"]),
        ({"resolution": "DNS", "endpoints": [{"address": "a_b"}]}, ["endpoints[0].address"]),
        ({"resolution": "DNS_ROUND_ROBIN", "endpoints": [{"address": "a"}, {"address": "b"}]}, ["endpoints"]),
        ({"resolution": "DYNAMIC_DNS", "endpoints": []}, ["hosts[0]"]),
        ({"resolution": "DYNAMIC_DNS", "hosts": ["*.a"], "ports": TCP, "endpoints": []}, ["ports[0].protocol"]),
        ({"resolution": "DYNAMIC_DNS", "hosts": ["*.a"]}, ["endpoints"]),
        ({"hosts": ["a.example", "b.example"], "ports": TCP}, ["ports[0].protocol"]),
        ({"exportTo": ["~", "a"]}, ["exportTo"]),
        ({"exportTo": ["*", "a"]}, ["exportTo"]),
        ({"exportTo": [".", "default"]}, ["exportTo"]),
    ],
)
def test_what_istio_refuses(fields, errors):
    assert service(**fields)[0] == errors


@pytest.mark.parametrize(
    "fields",
    [
        {"hosts": ["*.example"]},
        {"addresses": ["10.0.0.1", "10.0.0.0/8", "::1"]},
        {"resolution": "NONE", "endpoints": []},
        {"endpoints": [{"address": "unix:///run/a"}]},
        {"endpoints": [{"address": "unix://@abstract"}]},
        {"endpoints": [{"address": "::1"}]},
        {"resolution": "DNS", "endpoints": [{"address": "10.0.0.1"}, {"address": "shop.internal"}]},
        {"resolution": "DNS", "endpoints": []},
        {"resolution": "DYNAMIC_DNS", "hosts": ["*.example"], "endpoints": []},
        {"resolution": "NONE", "hosts": ["a.example", "b.example"], "ports": TCP, "endpoints": []},
        {"ports": [{"number": 80, "name": "http"}]},
        {"exportTo": ["~"]},
    ],
)
def test_what_istio_accepts(fields):
    assert service(**fields)[0] == []


@pytest.mark.parametrize(
    ("fields", "warnings"),
    [
        ({"hosts": ["*example.com"]}, ["hosts[0]"]),
        ({"workloadSelector": {}, "endpoints": []}, ["workloadSelector"]),
        ({"resolution": "NONE", "endpoints": [], "workloadSelector": {"labels": {"a": "b"}}}, ["workloadSelector"]),
        ({"endpoints": [{"network": "n"}]}, ["endpoints[0].address"]),
    ],
)
def test_what_istio_warns_about(fields, warnings):
    assert service(**fields) == ([], warnings)


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"address": "10.0.0.1", "ports": {"http": 80}}, []),
        ({"address": "vm.example"}, []),
        ({"address": "unix:///a"}, []),
        ({}, ["address"]),
        ({"address": "a b"}, ["address"]),
        ({"address": "10.0.0.1", "ports": {"h p": 80}}, ["ports.h p"]),
        ({"address": "10.0.0.1", "ports": {"http": 65536}}, ["ports.http"]),
    ],
)
def test_workload_entries(body, errors):
    assert check(WorkloadEntry, check_workload_entry, body)[Severity.ERROR] == errors
