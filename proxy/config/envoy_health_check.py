"""A health check as Envoy 1.40 takes it: proto JSON of `envoy.config.core.v3.HealthCheck`, defaults left out."""

from collections.abc import Iterable
from typing import Any

import attrs

from proxy.config.envoy_cluster import envoy_duration, typed
from proxy.config.health_check import CheckMethod, HealthCheck, HttpHealthCheck, TcpHealthCheck

_FILE_SINK = "envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink"
_SPECIAL = frozenset({"check", "event_log_path", "ignore_new_hosts_until_first_hc"})


def add_health_check(cluster: dict[str, Any], health_check: HealthCheck) -> None:
    """Give a `Cluster` message its health check."""
    cluster["health_checks"] = [_health_check(health_check)]
    cluster["ignore_health_on_host_removal"] = True  # a host that leaves the configuration leaves at once
    if health_check.ignore_new_hosts_until_first_hc:
        cluster["common_lb_config"]["ignore_new_hosts_until_first_hc"] = True


def _health_check(health_check: HealthCheck) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for field in attrs.fields(HealthCheck):
        value = getattr(health_check, field.name)
        if field.name not in _SPECIAL and value != field.default:
            name = field.name.removesuffix("_ms")
            message[name] = envoy_duration(value) if field.name.endswith("_ms") else value
    if health_check.event_log_path is not None:
        sink = typed(_FILE_SINK, event_log_path=str(health_check.event_log_path))
        message["event_logger"] = [{"name": "envoy.health_check.event_sinks.file", "typed_config": sink}]
    check = health_check.check
    if isinstance(check, HttpHealthCheck):
        message["http_health_check"] = _http(check)
    else:
        message["tcp_health_check"] = _tcp(check)
    return message


def _http(check: HttpHealthCheck) -> dict[str, Any]:
    message: dict[str, Any] = {"path": check.path}
    if check.host:
        message["host"] = check.host
    if check.method is not CheckMethod.GET:
        message["method"] = check.method.value
    if check.expected_statuses:
        message["expected_statuses"] = _ranges(check.expected_statuses)
    if check.retriable_statuses:
        message["retriable_statuses"] = _ranges(check.retriable_statuses)
    if check.request_headers_to_add:
        message["request_headers_to_add"] = [
            # A percent sign begins a command in Envoy's header values.
            {"header": {"key": name, "value": value.replace("%", "%%")}}
            for name, value in check.request_headers_to_add
        ]
    return message


def _tcp(check: TcpHealthCheck) -> dict[str, Any]:
    message: dict[str, Any] = {}
    if check.send:
        message["send"] = {"text": b"".join(check.send).hex()}
    if check.receive:
        message["receive"] = [{"text": block.hex()} for block in check.receive]
    return message


def _ranges(statuses: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    """Return Envoy's ranges, which leave out their ends."""
    return [{"start": first, "end": last + 1} for first, last in statuses]
