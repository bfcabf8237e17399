"""Validation vectors: the paths that Istio refuses or warns about."""

from collections.abc import Callable, Mapping
from typing import Any

from proxy.config.destination_rule import (
    ClientTls,
    ConnectionPool,
    DestinationRule,
    LoadBalancer,
    LocalityLbSetting,
    OutlierDetection,
    TrafficPolicy,
)
from proxy.config.issue import Report, Severity, format_path
from proxy.config.validate_destination_rule import (
    check_connection_pool,
    check_destination_rule,
    check_outlier_detection,
    check_traffic_policy,
)
from proxy.config.validate_load_balancer import check_load_balancer, check_locality_lb, localities_fault
from proxy.config.validate_tls import check_client_tls
from tests.conformance.runner import Mismatch

_Check = Callable[[Any, str, bool, Report], None]


def _localities(value: list[str], report: Report) -> None:
    fault = localities_fault(value)
    if fault is not None:
        report.error((fault[0],), value[fault[0]], fault[1])


_TARGETS: Mapping[str, tuple[Any, _Check]] = {
    "OutlierDetection": (OutlierDetection, lambda m, _ns, _o, r: check_outlier_detection(m, (), r)),
    "DestinationRule": (DestinationRule, lambda m, ns, _o, r: check_destination_rule(m, ns, (), r)),
    "TrafficPolicy": (TrafficPolicy, lambda m, ns, _o, r: check_traffic_policy(m, ns, (), r)),
    "ConnectionPool": (ConnectionPool, lambda m, _ns, _o, r: check_connection_pool(m, (), r)),
    "LoadBalancer": (LoadBalancer, lambda m, _ns, o, r: check_load_balancer(m, (), r, outlier=o)),
    "Locality": (LocalityLbSetting, lambda m, _ns, o, r: check_locality_lb(m, (), r, outlier=o)),
    "ClientTLS": (ClientTls, lambda m, ns, _o, r: check_client_tls(m, ns, (), r)),
}


def run_validation(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Read and check the input; compare the paths of errors and warnings, and of what only the CRD refuses."""
    report = Report()
    if case["target"] == "Localities":
        _localities(case["in"], report)
    elif case["in"] is not None:
        message, check = _TARGETS[case["target"]]
        check(message.read(case["in"], (), report), case.get("namespace", "ns"), case.get("outlier", False), report)
    found = {
        "error": _paths(report, Severity.ERROR, "istio"),
        "warn": _paths(report, Severity.WARNING, "istio"),
        "crd_error": _paths(report, Severity.ERROR, "crd"),
    }
    for outcome, paths in found.items():
        if outcome in case and paths != set(case[outcome]):
            raise Mismatch(sorted(case[outcome]), sorted(paths), outcome)


def _paths(report: Report, severity: Severity, origin: str) -> set[str]:
    return {format_path(issue.path) for issue in report if issue.severity is severity and issue.origin == origin}
