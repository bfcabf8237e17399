"""Where a running Envoy shows what `outlier explain` claims, and what differs.

`SETTINGS` names, for each setting of explain, its place in the cluster's message of `/config_dump` and what holds
where the message is silent: Envoy's default, from its documentation. A setting that is in none of the tables here is
a difference, and so is a field of the message that no setting and no row of `UNCLAIMED` speaks of.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from proxy.config.durations import NS_PER_MS, parse_duration_ns

Claims = Mapping[str, Any]
Json = Mapping[str, Any]


def _same(shown: Any) -> Any:
    return shown


def _duration(text: str) -> float:
    """Explain writes `5m`, Envoy `300s`."""
    return parse_duration_ns(text) / NS_PER_MS


def _percent(shown: Json) -> float:
    """`Percent`; proto JSON leaves 0 out."""
    return shown.get("value", 0)


def _statuses(matcher: Json) -> list[int]:
    rules = matcher["or_match"]["rules"] if "or_match" in matcher else [matcher]
    headers = [header for rule in rules for header in rule["http_response_headers_match"]["headers"]]
    return [int(header["string_match"]["exact"]) for header in headers]


def _names(matchers: list[Json]) -> list[str]:
    return [matcher["exact"] for matcher in matchers]


def _longest_ejection(claims: Claims) -> float:
    return max(300_000, _duration(claims["outlier_detection.base_ejection_time"]))


@attrs.frozen
class Row:
    """Place of a setting.

    Attributes:
        path: Field names from the message down, divided by `/`; `a|b` is either.
        default: What holds when there is nothing at that place, in explain's terms; may be made of the other claims.
        read: What is shown -> explain's terms.
        of_claim: What explain says -> what can be compared.
        is_presence: Only whether something is there counts; what is in it is other settings' matter.
    """

    path: str
    default: Any = None
    read: Callable[[Any], Any] = _same
    of_claim: Callable[[Any], Any] = _same
    is_presence: bool = False


def _time(path: str, default: str | Callable[[Claims], float]) -> Row:
    value = default if callable(default) else _duration(default)
    return Row(path, value, _duration, _duration)


def _present(path: str, *, absent: Any, present: Any) -> Row:
    return Row(path, absent, lambda _shown: present, is_presence=True)


_HTTP = "typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_HTTP2 = f"{_HTTP}/explicit_http_config/http2_protocol_options"
_CONNECTION = f"{_HTTP}/common_http_protocol_options"
_LIMITS = "circuit_breakers/thresholds/0"
_TLS = "transport_socket/typed_config"
_TLS_FILES = f"{_TLS}/common_tls_context/tls_certificates/0"
_VALIDATION = f"{_TLS}/common_tls_context/validation_context"
_SLOW_START = "round_robin_lb_config|least_request_lb_config/slow_start_config"

# Fields of `OutlierDetection` that are no durations, with their defaults.
_DETECTION: Mapping[str, int | bool] = {
    "consecutive_5xx": 5,
    "enforcing_consecutive_5xx": 100,
    "consecutive_gateway_failure": 5,
    "enforcing_consecutive_gateway_failure": 0,
    "consecutive_local_origin_failure": 5,
    "enforcing_consecutive_local_origin_failure": 100,
    "max_ejection_percent": 10,
    "always_eject_one_host": False,
    "split_external_local_origin_errors": False,
    "enforcing_success_rate": 100,
    "enforcing_local_origin_success_rate": 100,
    "success_rate_minimum_hosts": 5,
    "success_rate_request_volume": 100,
    "success_rate_stdev_factor": 1900,
    "enforcing_failure_percentage": 0,
    "enforcing_failure_percentage_local_origin": 0,
    "failure_percentage_threshold": 85,
    "failure_percentage_minimum_hosts": 5,
    "failure_percentage_request_volume": 50,
    "successful_active_health_check_uneject_host": True,
    "detect_degraded_hosts": False,
}

SETTINGS: Mapping[str, Row] = {
    # Hosts that a control plane would send stand in the message itself.
    "type": Row("type", "STATIC", of_claim=lambda claim: "STATIC" if claim == "EDS" else claim),
    "dns_refresh_rate": _time("dns_refresh_rate", "5s"),
    "connect_timeout": _time("connect_timeout", "5s"),
    "idle_timeout": _time(f"{_CONNECTION}/idle_timeout", "1h"),
    "max_connection_duration": _time(f"{_CONNECTION}/max_connection_duration", "0s"),
    "max_requests_per_connection": Row(f"{_CONNECTION}/max_requests_per_connection", 0),
    "circuit_breakers.max_connections": Row(f"{_LIMITS}/max_connections", 1024),
    "circuit_breakers.max_pending_requests": Row(f"{_LIMITS}/max_pending_requests", 1024),
    "circuit_breakers.max_requests": Row(f"{_LIMITS}/max_requests", 1024),
    "circuit_breakers.max_retries": Row(f"{_LIMITS}/max_retries", 3),
    "circuit_breakers.retry_budget.budget_percent": Row(f"{_LIMITS}/retry_budget/budget_percent", 20.0, _percent),
    "circuit_breakers.retry_budget.min_retry_concurrency": Row(f"{_LIMITS}/retry_budget/min_retry_concurrency", 3),
    "circuit_breakers.retry_budget.budget_interval": _time(f"{_LIMITS}/retry_budget/budget_interval", "0s"),
    "http2": _present(_HTTP2, absent=False, present=True),
    "http2.max_concurrent_streams": Row(f"{_HTTP2}/max_concurrent_streams", 1024),
    "http2.keepalive_interval": _time(f"{_HTTP2}/connection_keepalive/interval", "0s"),
    "http2.keepalive_timeout": _time(f"{_HTTP2}/connection_keepalive/timeout", "0s"),
    "use_downstream_protocol": _present(f"{_HTTP}/use_downstream_protocol_config", absent=False, present=True),
    "tcp_keepalive": _present("upstream_connection_options/tcp_keepalive", absent="off", present="on"),
    "tcp_keepalive.keepalive_probes": Row("upstream_connection_options/tcp_keepalive/keepalive_probes"),
    "tcp_keepalive.keepalive_time": Row("upstream_connection_options/tcp_keepalive/keepalive_time"),
    "tcp_keepalive.keepalive_interval": Row("upstream_connection_options/tcp_keepalive/keepalive_interval"),
    "tls.mode": _present(f"{_TLS}/common_tls_context/tls_certificates", absent="SIMPLE", present="MUTUAL"),
    "tls.sni": Row(f"{_TLS}/sni"),
    "tls.client_certificate": Row(f"{_TLS_FILES}/certificate_chain/filename"),
    "tls.private_key": Row(f"{_TLS_FILES}/private_key/filename", of_claim=lambda _path: "[redacted]"),
    "tls.ca_certificates": Row(f"{_VALIDATION}/trusted_ca/filename"),
    "tls.ca_crl": Row(f"{_VALIDATION}/crl/filename"),
    "tls.subject_alt_names": Row(f"{_VALIDATION}/match_subject_alt_names", read=_names),
    "tls.insecure_skip_verify": _present(_VALIDATION, absent=True, present=False),
    "lb_policy": Row("lb_policy", "ROUND_ROBIN"),
    "ring_hash_minimum_size": Row("ring_hash_lb_config/minimum_ring_size", 1024, int),  # a 64 bit number is text
    "maglev_table_size": Row("maglev_lb_config/table_size", 65537, int),
    "slow_start.window": _time(f"{_SLOW_START}/slow_start_window", "0s"),
    "slow_start.aggression": Row(f"{_SLOW_START}/aggression/default_value", 1.0),
    "slow_start.min_weight_percent": Row(f"{_SLOW_START}/min_weight_percent", 10.0, _percent),
    "healthy_panic_threshold": Row("common_lb_config/healthy_panic_threshold", 50.0, _percent),
    "locality_weighted": _present("common_lb_config/locality_weighted_lb_config", absent=False, present=True),
    "outlier_detection": _present("outlier_detection", absent="off", present="on"),
    "outlier_detection.interval": _time("outlier_detection/interval", "10s"),
    "outlier_detection.base_ejection_time": _time("outlier_detection/base_ejection_time", "30s"),
    "outlier_detection.max_ejection_time": _time("outlier_detection/max_ejection_time", _longest_ejection),
    "outlier_detection.max_ejection_time_jitter": _time("outlier_detection/max_ejection_time_jitter", "0s"),
    **{f"outlier_detection.{name}": Row(f"outlier_detection/{name}", default) for name, default in _DETECTION.items()},
    "outlier_detection.error_matcher": Row(f"{_HTTP}/outlier_detection/error_matcher", read=_statuses),
}

# What explain shows and the sidecar does not do, so that Envoy must not do it either.
NOT_IN_ENVOY: Mapping[str, str] = {
    "proxy_protocol": "the sidecar sends no PROXY header",
    "tunnel.protocol": "the sidecar opens no tunnel",
    "tunnel.target_host": "likewise",
    "tunnel.target_port": "likewise",
    "tls.credential_name": "only a mesh has it",
}

# What Envoy shows and explain has no setting for.
UNCLAIMED: Mapping[str, str] = {
    "@type": "a name of protobuf's",
    "name": "explain's heading",
    "load_assignment": "explain's endpoints, compared by themselves",
    "common_lb_config/update_merge_window": "ejections reach the balancer at once, as in the sidecar",
    "respect_dns_ttl": "as Istio sends it for every DNS cluster",
    "dns_lookup_family": "the sidecar's, not the rule's",
    "dns_jitter": "clusters of many sidecars do not ask at once",
    f"{_HTTP}/@type": "a name of protobuf's",
    f"{_HTTP}/explicit_http_config/http_protocol_options": "HTTP/1.1, where no setting says otherwise",
    f"{_HTTP}/use_downstream_protocol_config/http_protocol_options": "part of that setting",
    f"{_HTTP}/use_downstream_protocol_config/http2_protocol_options": "likewise",
    f"{_HTTP}/upstream_http_protocol_options": "the name asked for and verified where the rule has no sni",
    "transport_socket/name": "a name",
    f"{_TLS}/@type": "a name of protobuf's",
    f"{_TLS}/common_tls_context/tls_params": "TLS 1.2 and 1.3, whatever the rule says",
    f"{_VALIDATION}/trusted_ca": "the system's authorities where the rule names none",
    "round_robin_lb_config|least_request_lb_config/slow_start_config/aggression/runtime_key": "a name",
}

# What explain's JSON has beside the settings. The first are compared, the others are not Envoy's.
COMPARED = frozenset({"cluster", "endpoints", "locality_weights", "settings"})
NOT_ENVOYS: Mapping[str, str] = {
    "host": "part of the name",
    "port": "part of the name",
    "subset": "part of the name",
    "service": "Istio's",
    "rules": "Istio's",
    "notes": "sentences",
}


def differences(explained: Json, message: Json, status: Json) -> Iterator[str]:
    """Yield what differs between a cluster of `outlier explain --format json` and the same of a running Envoy.

    Args:
        explained: One cluster of explain's.
        message: The cluster in `/config_dump`.
        status: The cluster in `/clusters?format=json`.
    """
    name = explained["cluster"]
    for key in explained.keys() - COMPARED - NOT_ENVOYS.keys():
        yield f"{name}: nobody knows where Envoy shows {key}"
    settings = explained["settings"]
    claims = {key: setting["value"] for key, setting in settings.items()}
    spoken_of, present = set(UNCLAIMED), set()
    for key, claim in claims.items():
        row = SETTINGS.get(key)
        if not settings[key]["applied"] or key in NOT_IN_ENVOY:
            if settings[key]["applied"]:
                yield f"{name}: {key} is said to be applied"
            elif key not in NOT_IN_ENVOY and not key.startswith("tls."):
                yield f"{name}: {key} is said not to be applied"
            continue
        if row is None:
            yield f"{name}: nobody knows where Envoy shows {key}"
            continue
        (present if row.is_presence else spoken_of).add(row.path)
        shown = _at(message, row.path)
        default = row.default(claims) if callable(row.default) else row.default
        held = default if shown is None else row.read(shown)
        if not _equal(row.of_claim(claim), held):
            yield f"{name}: {key} = {claim}; Envoy has {held} at {row.path}"
    for path in _leaves(message):
        if path not in present and not any(_covers(spoken, path) for spoken in spoken_of):
            yield f"{name}: Envoy has {path}, of which explain says nothing"
    yield from _breakers(name, claims, status)
    yield from _endpoints(explained, message, status)


def _at(message: Any, path: str) -> Any:
    """Return what is at a path; None when there is nothing."""
    for step in path.split("/"):
        if isinstance(message, list):
            message = message[int(step)] if int(step) < len(message) else None
        else:
            message = next((message[name] for name in step.split("|") if name in message), None)
        if message is None:
            return None
    return message


def _leaves(message: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each value; an empty message is a value."""
    members = message.items() if isinstance(message, dict) else enumerate(message) if isinstance(message, list) else ()
    empty = True
    for name, member in members:
        empty = False
        yield from _leaves(member, f"{path}/{name}" if path else str(name))
    if empty:
        yield path


def _covers(path: str, leaf: str) -> bool:
    steps, leaf_steps = path.split("/"), leaf.split("/")
    return len(steps) <= len(leaf_steps) and all(
        own in step.split("|") for own, step in zip(leaf_steps, steps, strict=False)
    )


def _equal(claim: Any, held: Any) -> bool:
    if isinstance(claim, float) and isinstance(held, int | float):
        return math.isclose(claim, held, rel_tol=1e-6)
    return bool(claim == held)


def _breakers(name: str, claims: Claims, status: Json) -> Iterator[str]:
    """Compare the limits that Envoy goes by, which is more than the message it was given."""
    (limits,) = [
        thresholds
        for thresholds in status["circuit_breakers"]["thresholds"]
        if thresholds.get("priority", "DEFAULT") == "DEFAULT"
    ]
    for limit in ("max_connections", "max_pending_requests", "max_requests", "max_retries"):
        claim, held = claims[f"circuit_breakers.{limit}"], limits.get(limit, 0)
        # With a budget the last is the number of retries that it allows right now.
        if claim != held and not (limit == "max_retries" and "circuit_breakers.retry_budget.budget_percent" in claims):
            yield f"{name}: circuit_breakers.{limit} = {claim}; Envoy goes by {held}"


def _endpoints(explained: Json, message: Json, status: Json) -> Iterator[str]:
    """Compare endpoints in order in the message, and as hosts in a running Envoy that need no look-up to be known."""
    name, claimed = explained["cluster"], explained["endpoints"]
    groups = message.get("load_assignment", {}).get("endpoints", [])
    weights = {(entry["priority"], entry["locality"]): entry["weight"] for entry in explained["locality_weights"]}
    sent = []
    for group in groups:
        priority, locality = group.get("priority", 0), _locality(group.get("locality", {}))
        if weights.get((priority, locality)) != group.get("load_balancing_weight"):
            yield f"{name}: the weight of {locality} at priority {priority} is {group.get('load_balancing_weight')}"
        sent += [_sent(endpoint, priority, locality) for endpoint in group["lb_endpoints"]]
    if _by_address(sent) != _by_address(claimed):
        yield f"{name}: endpoints {claimed}; Envoy was given {sent}"
    if message.get("type", "STATIC") == "STATIC":
        hosts = [_host(host) for host in status.get("host_statuses", ())]
        healthy = [
            endpoint | {"health_status": endpoint["health_status"].replace("UNKNOWN", "HEALTHY")}
            for endpoint in claimed
        ]
        if _by_address(hosts) != _by_address(healthy):
            yield f"{name}: endpoints {healthy}; Envoy has {hosts}"


def _sent(endpoint: Json, priority: int, locality: str) -> Json:
    return {
        "address": _address(endpoint["endpoint"]["address"]),
        "weight": endpoint.get("load_balancing_weight", 1),
        "priority": priority,
        "locality": locality,
        "health_status": endpoint.get("health_status", "UNKNOWN"),
    }


def _host(status: Json) -> Json:
    return {
        "address": _address(status["address"]),
        "weight": status["weight"],
        "priority": status.get("priority", 0),
        "locality": _locality(status.get("locality", {})),
        "health_status": status["health_status"].get("eds_health_status", "UNKNOWN"),
    }


def _by_address(endpoints: list[Json]) -> list[Json]:
    return sorted(endpoints, key=lambda endpoint: (endpoint["address"], endpoint["priority"], endpoint["locality"]))


def _address(address: Json) -> str:
    if "pipe" in address:
        return f"unix://{address['pipe']['path']}"
    host, port = address["socket_address"]["address"], address["socket_address"]["port_value"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _locality(locality: Json) -> str:
    return "/".join(locality.get(name, "") for name in ("region", "zone", "sub_zone")).rstrip("/")
