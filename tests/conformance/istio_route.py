"""Route vectors: validation and conversion of one http route."""

from collections.abc import Mapping
from typing import Any

from proxy.config.destination_rule import ConsistentHash
from proxy.config.issue import Report, Severity, format_path
from proxy.config.mesh_config import MeshConfig
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.route_builder import RouteBuilder
from proxy.config.route_config import Fault, RetryPolicy, Route
from proxy.config.service_clusters import ConversionContext
from proxy.config.service_entry import Resolution, ServicePort
from proxy.config.service_index import Service
from proxy.config.validate_http_route import check_http_route
from proxy.config.virtual_service import HttpRetry, HttpRoute
from proxy.config.virtual_service_index import OwnedRoute
from tests.conformance.istio_conversion import expect, read, to_ms

_DEFAULT_RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
_PER_MILLION = 1_000_000


def run_route(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Validate the route, or build it and compare what is listed."""
    block = read(HttpRoute, case["in"])
    out = case["out"]
    if "invalid" in out or "valid" in out:
        report = Report()
        check_http_route(block, (), report)
        errors = sorted({format_path(issue.path) for issue in report if issue.severity is Severity.ERROR})
        expect([out["invalid"]] if "invalid" in out else [], errors, "errors")
        return
    _check_route(out, _build(case, block))


def _build(case: Mapping[str, Any], block: HttpRoute) -> Route:
    services = {
        f"{name}.default.svc.cluster.local": Service(
            host=f"{name}.default.svc.cluster.local",
            namespace="default",
            ports=tuple(ServicePort(number=port, name=f"http-{port}", protocol="HTTP") for port in ports),
            resolution=Resolution.STATIC,
            instances=(),
            resources=(),
        )
        for name, ports in case.get("services", {}).items()
    }
    context = ConversionContext(
        mesh=MeshConfig(default_http_retry_policy=read(HttpRetry, case.get("mesh"))),
        release=IstioRelease.parse(case["era"]) if "era" in case else CURRENT,
    )
    settings = ConsistentHash(http_header_name="x-user") if case.get("hash") else None
    builder = RouteBuilder(context, services.get, lambda _host, _port, _subset: settings, lambda _resource: ())
    return builder.route(OwnedRoute(block, "default", hedged=False), None, case.get("listener_port", 80))


def _destination(cluster: str) -> str:
    return cluster.split("|")[3].split(".")[0]


def _check_route(out: Mapping[str, Any], route: Route) -> None:
    action = route.action
    if "timeout" in out:
        expect(to_ms(out["timeout"]), action.timeout_ms, "timeout")
    if "cluster" in out:
        expect(out["cluster"], _destination(action.cluster), "cluster")
    if "cluster_port" in out:
        expect(out["cluster_port"], int(action.cluster.split("|")[1]), "cluster_port")
    if "weighted" in out:
        weights = {_destination(entry.cluster): entry.weight for entry in action.weighted_clusters}
        expect(out["weighted"], weights, "weighted")
    if "mirror_percent" in out:
        share = action.mirrors[0].per_million / 10_000 if action.mirrors else None
        expect(out["mirror_percent"], share, "mirror_percent")
    if "abort" in out:
        _check_abort(out["abort"], route.fault or Fault())
    if "retry" in out:
        _check_retry(out["retry"], action.retry)


def _check_abort(expected: Mapping[str, Any], fault: Fault) -> None:
    expect(expected["http_status"], fault.abort_http_status, "abort.http_status")
    per_million = expected.get("per_million", expected.get("percent", 0) * _PER_MILLION // 100)
    expect(per_million, fault.abort_per_million, "abort share")


def _check_retry(expected: Mapping[str, Any] | None, policy: RetryPolicy | None) -> None:
    if expected is None or policy is None:
        expect(expected, policy, "retry")
        return
    retry_on = _DEFAULT_RETRY_ON if expected["retry_on"] == "D" else expected["retry_on"]
    expect(expected["num_retries"], policy.num_retries, "num_retries")
    expect(retry_on, policy.retry_on, "retry_on")
    expect(tuple(expected.get("retriable_status_codes", ())), policy.retriable_status_codes, "status codes")
    per_try = expected.get("per_try_timeout")
    expect(None if per_try is None else to_ms(per_try), policy.per_try_timeout_ms, "per_try_timeout")
    base = expected.get("base_interval")
    expect(None if base is None else to_ms(base), policy.base_interval_ms, "base_interval")
    expect(expected["previous_hosts"], policy.previous_hosts, "previous_hosts")
    # 1 is Envoy's default, which is what "not sent" comes to.
    attempts = expected.get("host_selection_retry_max_attempts", 1)
    expect(attempts, policy.host_selection_retry_max_attempts, "host_selection_retry_max_attempts")
