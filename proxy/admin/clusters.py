"""`/clusters`: every host of every cluster, its counters, flags and success rates, as Envoy 1.40 prints them.

The JSON form is written by hand, a host at a time: the standard encoder with indentation would take a second for
10,000 hosts.
Ports `ClustersHandler` (Envoy, source/server/admin/clusters_handler.cc) and the JSON of `envoy.admin.v3.Clusters`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from aiohttp import web

from proxy.admin.context import AdminContext
from proxy.admin.overrides import Override, Overrides
from proxy.admin.streaming import JSON, stream, text
from proxy.cluster.cluster import Cluster
from proxy.config.address import UNIX_PREFIX, Address
from proxy.config.cluster_config import CircuitBreakers, ClusterType, HealthStatus
from proxy.upstream.host import HealthFlag, Host

_COUNTERS = ("cx_connect_fail", "cx_total", "rq_error", "rq_success", "rq_timeout", "rq_total")
_GAUGES = ("cx_active", "rq_active", "rq_pending_active")

# Limits of the high priority cannot be configured in Istio, so they are always Envoy's defaults.
_HIGH_PRIORITY = CircuitBreakers(max_connections=1024, max_pending_requests=1024, max_requests=1024, max_retries=3)

# Fields of `HostHealthStatus` in the order of their numbers; the configured status stands third. Plain integers, since
# arithmetic with members of an enum would take most of the time.
_HEALTH_FIELDS_BEFORE_EDS = (
    (int(HealthFlag.FAILED_ACTIVE_HC), "failed_active_health_check"),
    (int(HealthFlag.FAILED_OUTLIER_CHECK), "failed_outlier_check"),
)
_HEALTH_FIELDS_AFTER_EDS = (
    (int(HealthFlag.DEGRADED_ACTIVE_HC), "failed_active_degraded_check"),
    (int(HealthFlag.PENDING_DYNAMIC_REMOVAL), "pending_dynamic_removal"),
    (int(HealthFlag.PENDING_ACTIVE_HC), "pending_active_hc"),
    (int(HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL), "excluded_via_immediate_hc_fail"),
    (int(HealthFlag.ACTIVE_HC_TIMEOUT), "active_hc_timeout"),
    (int(HealthFlag.DEGRADED_OUTLIER_DETECTION), "failed_degraded_outlier_detection"),
)
_FAILED_EDS_HEALTH = int(HealthFlag.FAILED_EDS_HEALTH)
_EDS_HEALTH_STATUS = {HealthStatus.UNKNOWN: "HEALTHY"}


async def handle_clusters(context: AdminContext, request: web.Request) -> web.StreamResponse:
    """Answer `/clusters`, `?format=json`, `?filter=<regex over cluster names>`."""
    clusters: Iterable[Cluster] = tuple(context.cluster_manager.clusters.values())
    if "filter" in request.query:
        try:
            pattern = re.compile(request.query["filter"])
        except re.error:
            return text("Invalid re2 regex", 400)
        clusters = [cluster for cluster in clusters if pattern.search(cluster.name)]
    if request.query.get("format") == "json":
        return await stream(request, clusters_json(clusters, context.overrides), JSON)
    return await stream(request, clusters_text(clusters, context.overrides))


def number_text(value: float) -> str:
    """Return the shortest text that reads back as `value`; whole numbers without a fraction.

    >>> number_text(66.66666666666667), number_text(-1.0)
    ('66.66666666666667', '-1')
    """
    return str(int(value)) if value == int(value) else repr(value)


def json_number(value: float) -> str:
    """Return a number as protobuf's JSON has it: 15 digits, or 17 where 15 do not read back as `value`.

    >>> json_number(500 / 7), json_number(100.0)
    ('71.428571428571431', '100')
    """
    short = f"{value:.15g}"
    return short if float(short) == value else f"{value:.17g}"


# Text


def clusters_text(clusters: Iterable[Cluster], overrides: Overrides) -> Iterator[str]:
    """Yield the text form, a cluster's head or one host at a time; an overridden host has a line more than in Envoy."""
    for cluster in clusters:
        yield _head_text(cluster)
        for host in cluster.priority_set.hosts:
            yield _host_text(cluster.name, host)
            override = overrides.of(host)
            if override is not None:
                yield f"{_prefix(cluster.name, host)}override::{override}\n"


def _head_text(cluster: Cluster) -> str:
    name, detector = cluster.name, cluster.detector
    lines = [f"{name}::observability_name::{name}"]
    if detector is not None:
        figures = {
            "success_rate_average": detector.success_rate_average,
            "success_rate_ejection_threshold": detector.success_rate_ejection_threshold,
            "local_origin_success_rate_average": detector.local_origin_success_rate_average,
            "local_origin_success_rate_ejection_threshold": detector.local_origin_success_rate_ejection_threshold,
        }
        lines += [f"{name}::outlier::{figure}::{value:g}" for figure, value in figures.items()]
    for priority, limits in (("default", cluster.config.circuit_breakers), ("high", _HIGH_PRIORITY)):
        lines += [
            f"{name}::{priority}_priority::max_connections::{limits.max_connections}",
            f"{name}::{priority}_priority::max_pending_requests::{limits.max_pending_requests}",
            f"{name}::{priority}_priority::max_requests::{limits.max_requests}",
            f"{name}::{priority}_priority::max_retries::{limits.max_retries}",
        ]
    lines.append(f"{name}::added_via_api::true")
    if cluster.config.type is ClusterType.EDS:
        lines.append(f"{name}::eds_service_name::{name}")
    return "\n".join(lines) + "\n"


def _prefix(cluster_name: str, host: Host) -> str:
    return f"{cluster_name}::{host.address.removeprefix(UNIX_PREFIX)}::"


def _host_text(cluster_name: str, host: Host) -> str:
    at, locality, monitor = _prefix(cluster_name, host), host.locality, host.monitor
    # One expression, since it is evaluated 10,000 times for a big page: lists and joins took half as long again.
    return (
        f"{at}cx_active::{host.cx_active}\n"
        f"{at}cx_connect_fail::{host.cx_connect_fail}\n"
        f"{at}cx_total::{host.cx_total}\n"
        f"{at}rq_active::{host.rq_active}\n"
        f"{at}rq_error::{host.rq_error}\n"
        f"{at}rq_pending_active::{host.rq_pending_active}\n"
        f"{at}rq_success::{host.rq_success}\n"
        f"{at}rq_timeout::{host.rq_timeout}\n"
        f"{at}rq_total::{host.rq_total}\n"
        f"{at}hostname::{host.endpoint.hostname}\n"
        f"{at}health_flags::{host.health_flags_text()}\n"
        f"{at}weight::{host.weight}\n"
        f"{at}region::{locality.region}\n"
        f"{at}zone::{locality.zone}\n"
        f"{at}sub_zone::{locality.sub_zone}\n"
        f"{at}canary::{'true' if host.endpoint.canary else 'false'}\n"
        f"{at}priority::{host.priority}\n"
        f"{at}success_rate::{number_text(monitor.success_rate)}\n"
        f"{at}local_origin_success_rate::{number_text(monitor.local_origin_success_rate)}\n"
    )


# JSON


def clusters_json(clusters: Iterable[Cluster], overrides: Overrides) -> Iterator[str]:
    """Yield the JSON form, a cluster's head or one host at a time; false, zero and empty fields are left out.

    A host with an override has a field `override`, which Envoy does not know.
    """
    before = '{\n "cluster_statuses": [\n'
    for cluster in clusters:
        yield before + "  {\n"
        yield from _cluster_json(cluster, overrides)
        yield "\n  }"
        before = ",\n"
    yield "\n ]\n}\n" if before == ",\n" else "{}\n"


def _cluster_json(cluster: Cluster, overrides: Overrides) -> Iterator[str]:
    name = json.dumps(cluster.name, ensure_ascii=False)
    detector = cluster.detector
    yield f'   "name": {name},\n   "added_via_api": true'
    if detector is not None:
        yield _percent_json("success_rate_ejection_threshold", detector.success_rate_ejection_threshold)
    hosts: Sequence[Host] = cluster.priority_set.hosts
    if hosts:
        yield ',\n   "host_statuses": ['
        separator = "\n"
        for host in hosts:
            yield separator + _host_json(host, overrides.of(host))
            separator = ",\n"
        yield "\n   ]"
    if detector is not None:
        yield _percent_json(
            "local_origin_success_rate_ejection_threshold", detector.local_origin_success_rate_ejection_threshold
        )
    yield (
        ',\n   "circuit_breakers": {\n    "thresholds": [\n'
        f"     {{\n{_limits_json(cluster.config.circuit_breakers)}     }},\n"
        f'     {{\n      "priority": "HIGH",\n{_limits_json(_HIGH_PRIORITY)}     }}\n    ]\n   }},\n'
        f'   "observability_name": {name}'
    )
    if cluster.config.type is ClusterType.EDS:
        yield f',\n   "eds_service_name": {name}'


def _percent_json(name: str, value: float) -> str:
    return f',\n   "{name}": {{\n    "value": {json_number(value)}\n   }}' if value > 0 else ""


def _limits_json(limits: CircuitBreakers) -> str:
    values = {
        "max_connections": limits.max_connections,
        "max_pending_requests": limits.max_pending_requests,
        "max_requests": limits.max_requests,
        "max_retries": limits.max_retries,
    }
    return ",\n".join(f'      "{name}": {value}' for name, value in values.items()) + "\n"


def _host_json(host: Host, override: Override | None) -> str:
    stats = ",\n".join(
        [_stat_json("", name, getattr(host, name)) for name in _COUNTERS]
        + [_stat_json('       "type": "GAUGE",\n', name, getattr(host, name)) for name in _GAUGES]
    )
    fields = [
        _address_json(host.address),
        f'     "stats": [\n{stats}\n     ]',
        f'     "health_status": {{\n{_health_json(host)}\n     }}',
    ]
    fields += _rate_json("success_rate", host.monitor.success_rate)
    fields.append(f'     "weight": {host.weight}')
    if host.endpoint.hostname:
        fields.append(f'     "hostname": {json.dumps(host.endpoint.hostname, ensure_ascii=False)}')
    if host.priority:
        fields.append(f'     "priority": {host.priority}')
    fields += _rate_json("local_origin_success_rate", host.monitor.local_origin_success_rate)
    fields.append(_locality_json(host))
    if override is not None:
        fields.append(f'     "override": {json.dumps(str(override), ensure_ascii=False)}')
    return "    {\n" + ",\n".join(fields) + "\n    }"


def _stat_json(kind: str, name: str, value: int) -> str:
    shown = f'       "value": "{value}",\n' if value else ""
    return f'      {{\n{kind}{shown}       "name": "{name}"\n      }}'


def _rate_json(name: str, value: float) -> list[str]:
    if value < 0:
        return []
    return [f'     "{name}": {{\n      "value": {json_number(value)}\n     }}' if value else f'     "{name}": {{}}']


def _health_json(host: Host) -> str:
    status = host.endpoint.health_status
    shown = _EDS_HEALTH_STATUS.get(status, status.value)
    flags = host.health_flags
    if flags & _FAILED_EDS_HEALTH:
        shown = "UNHEALTHY"  # by configuration or by hand
    fields = [f'      "{name}": true' for flag, name in _HEALTH_FIELDS_BEFORE_EDS if flags & flag]
    fields.append(f'      "eds_health_status": "{shown}"')
    fields += [f'      "{name}": true' for flag, name in _HEALTH_FIELDS_AFTER_EDS if flags & flag]
    return ",\n".join(fields)


def _locality_json(host: Host) -> str:
    locality = host.locality
    parts = {"region": locality.region, "zone": locality.zone, "sub_zone": locality.sub_zone}
    fields = [f'      "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in parts.items() if value]
    return '     "locality": {\n' + ",\n".join(fields) + "\n     }" if fields else '     "locality": {}'


def _address_json(text_form: str) -> str:
    address = Address.parse(text_form)
    if address.path:
        return f'     "address": {{\n      "pipe": {{\n       "path": {json.dumps(address.path)}\n      }}\n     }}'
    return (
        '     "address": {\n      "socket_address": {\n'
        f'       "address": {json.dumps(address.host)},\n       "port_value": {address.port}\n      }}\n     }}'
    )
