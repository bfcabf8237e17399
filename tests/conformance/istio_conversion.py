"""Conversion vectors: what Istio sends for a policy, and what an Envoy then applies."""

import math
from collections.abc import Mapping
from typing import Any

from proxy.config.cluster_builder import SentCluster, cluster_name, convert_policy
from proxy.config.cluster_config import UINT32_MAX, ClusterType
from proxy.config.destination_rule import OutlierDetection, TrafficPolicy
from proxy.config.durations import NS_PER_MS, parse_duration_ns
from proxy.config.issue import Report
from proxy.config.outlier_conversion import OutlierConversion, convert_outlier_detection
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.traffic_policy import effective_policy
from tests.conformance.runner import Mismatch

_ENVOY_PANIC = 50.0


def read(message: Any, value: Any) -> Any:
    """Return the message that a vector's input states, None for null; an input that cannot be read fails the case."""
    if value is None:
        return None
    report = Report()
    result = message.read(value, (), report)
    if report.issues:
        raise Mismatch("readable input", [str(issue) for issue in report])
    return result


def to_ms(text: str) -> int:
    """Return the milliseconds of a vector's duration."""
    return parse_duration_ns(text) // NS_PER_MS


def expect(expected: object, actual: object, where: str) -> None:
    """Fail the case when two values differ; percentages compare as numbers."""
    same = expected == actual
    if isinstance(expected, float | int) and isinstance(actual, float | int):
        same = math.isclose(expected, actual)
    if not same:
        raise Mismatch(expected, actual, where)


def run_outlier(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Compare what is sent, and what an Envoy makes of it."""
    flags = {"forces_unhealthy": False, "supports_unhealthy": True} | case.get("flags", {})
    _check_outlier(case, convert_outlier_detection(read(OutlierDetection, case["in"]), CURRENT, **flags))


def run_outlier_history(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """The same under another release."""
    release = IstioRelease.parse(case["era"])
    _check_outlier(case, convert_outlier_detection(read(OutlierDetection, case["in"]), release))


def _sent_fields(expected: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if expected is None:
        return None
    return {
        f"{name}_ms" if isinstance(value, str) else name: to_ms(value) if isinstance(value, str) else value
        for name, value in expected.items()
    }


def _check_outlier(case: Mapping[str, Any], sent: OutlierConversion) -> None:
    out = case["out"]
    expect(_sent_fields(out["outlier_detection"]), sent.fields, "outlier_detection")
    if "panic" in out or case["out"]["outlier_detection"] is not None:
        expect(out.get("panic"), sent.panic, "panic")
    codes = out.get("error_codes", {"exact": []})
    expect(tuple(int(code) for code in codes["exact"]), sent.error_codes, "error_codes")
    if codes["exact"]:
        expect(codes["form"], "single" if len(sent.error_codes) == 1 else "or", "error_codes.form")
    effective = dict(case.get("effective", {}))
    detection = sent.detection()
    if "detection" in effective:
        expect(effective.pop("detection"), detection is not None, "effective.detection")
    if "panic" in effective:
        expect(effective.pop("panic"), _ENVOY_PANIC if sent.panic is None else sent.panic, "effective.panic")
    for name, value in (_sent_fields(effective) or {}).items():
        expect(value, getattr(detection, name), f"effective.{name}")


def run_cluster(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Compare the listed fields of the cluster, and the absence of others."""
    service = {"type": "EDS", "protocol": "HTTP"} | case.get("service", {})
    policy = effective_policy(read(TrafficPolicy, case["in"]), None, None, read(TrafficPolicy, case.get("mesh")))
    sent = convert_policy(
        policy.policy if policy is not None else None, ClusterType[service["type"]], protocol=service["protocol"]
    )
    view = _cluster_view(sent)
    if "host" in case:
        view["name"] = cluster_name(case["host"], case["port"], case.get("subset", ""))
    _compare(case["out"], view, "")
    for path in case.get("absent", ()):
        value: Any = view
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        expect(None, value, f"absent {path}")


def _compare(expected: Mapping[str, Any], actual: Mapping[str, Any], where: str) -> None:
    for name, value in expected.items():
        found = actual.get(name)
        path = f"{where}.{name}".lstrip(".")
        if isinstance(value, Mapping):
            if not isinstance(found, Mapping):
                raise Mismatch(value, found, path)
            _compare(value, found, path)
        else:
            is_duration = isinstance(value, str) and isinstance(found, int) and not isinstance(found, bool)
            expect(to_ms(value) if is_duration else value, found, path)


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _cluster_view(sent: SentCluster) -> dict[str, Any]:
    """Return what is sent under the vectors' short names, durations in milliseconds."""
    cluster, balancer = sent.cluster, sent.load_balancer
    limits: dict[str, Any] = dict.fromkeys(
        ("max_connections", "max_pending_requests", "max_requests", "max_retries"), UINT32_MAX
    )
    limits |= sent.circuit_breakers
    if sent.retry_budget is not None:
        budget = dict(sent.retry_budget)
        if "budget_interval_ms" in budget:
            budget["budget_interval"] = budget.pop("budget_interval_ms")
        limits["retry_budget"] = budget
    http = {
        name.removesuffix("_ms"): cluster[name]
        for name in ("idle_timeout_ms", "max_requests_per_connection", "max_connection_duration_ms")
        if name in cluster
    }
    keepalive, http2 = cluster.get("tcp_keepalive"), cluster.get("h2_upstream")
    slow_start = None
    if sent.slow_start is not None:
        slow_start = {name.removeprefix("window_ms") or "window": value for name, value in sent.slow_start.items()}
    outlier = sent.outlier.fields
    ring, maglev = balancer.get("ring_hash_minimum_size"), balancer.get("maglev_table_size")
    lb_config = slow_start or ring or maglev
    return _given(
        type=sent.type.value,
        lb_policy=balancer["policy"].value,
        connect_timeout=cluster["connect_timeout_ms"],
        limits=limits,
        http=http,
        tcp_keepalive=keepalive
        and _given(probes=keepalive.probes, time=keepalive.time_s, interval=keepalive.interval_s),
        http2=http2
        and _given(
            max_concurrent_streams=http2.max_concurrent_streams,
            keepalive_interval=http2.keepalive_interval_ms,
            keepalive_timeout=http2.keepalive_timeout_ms,
        ),
        ring_hash=ring and {"minimum_ring_size": ring},
        maglev=maglev and {"table_size": maglev},
        lb_config=lb_config,
        slow_start=slow_start,
        outlier_detection=outlier,
        locality_weighted=sent.locality_weighted or None,
    )
