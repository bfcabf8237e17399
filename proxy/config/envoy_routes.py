"""Routes as Envoy 1.40 takes them: proto JSON of `envoy.config.route.v3.RouteConfiguration`."""

import base64
from collections.abc import Iterable
from typing import Any

from proxy.config.envoy_cluster import envoy_duration, typed
from proxy.config.hash_policy import CookieHash, HashPolicy, HeaderHash, SourceIpHash
from proxy.config.route_config import (
    CorsPolicy,
    Fault,
    HeaderMatcher,
    HeaderOperations,
    MatchKind,
    Redirect,
    RetryPolicy,
    Route,
    RouteAction,
    RouteMatch,
    StringMatcher,
    VirtualHost,
)

_GRPC_CODES = {
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "DATA_LOSS": 15,
    "UNAUTHENTICATED": 16,
}
_REDIRECT_CODES = {
    301: "MOVED_PERMANENTLY",
    302: "FOUND",
    303: "SEE_OTHER",
    307: "TEMPORARY_REDIRECT",
    308: "PERMANENT_REDIRECT",
}
CORS_FILTER = "envoy.filters.http.cors"
FAULT_FILTER = "envoy.filters.http.fault"
_CORS_POLICY = "envoy.extensions.filters.http.cors.v3.CorsPolicy"
_HTTP_FAULT = "envoy.extensions.filters.http.fault.v3.HTTPFault"
_PREVIOUS_HOSTS = "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
_PREVIOUS_PRIORITIES = "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig"


def envoy_virtual_hosts(virtual_hosts: Iterable[VirtualHost]) -> list[dict[str, Any]]:
    """Return the virtual hosts; a domain claimed twice goes to the first, since Envoy refuses duplicates."""
    claimed: set[str] = set()
    messages: list[dict[str, Any]] = []
    for virtual_host in virtual_hosts:
        free = [domain for domain in virtual_host.domains if domain not in claimed]
        claimed.update(free)
        if free:
            messages.append(envoy_virtual_host(virtual_host, free))
    return messages


def envoy_virtual_host(virtual_host: VirtualHost, domains: list[str]) -> dict[str, Any]:
    """Return one virtual host under these domains."""
    return {
        "name": virtual_host.name,
        "domains": domains,
        "routes": [envoy_route(route) for route in virtual_host.routes],
    }


def envoy_route(route: Route) -> dict[str, Any]:
    """Return one route."""
    message: dict[str, Any] = {"match": _match(route.match)}
    if route.name:
        message["name"] = route.name
    if route.redirect is not None:
        message["redirect"] = _redirect(route.redirect)
    elif route.direct_response is not None:
        body = base64.b64encode(route.direct_response.body).decode()
        message["direct_response"] = {"status": route.direct_response.status}
        if body:
            message["direct_response"]["body"] = {"inline_bytes": body}
    else:
        message["route"] = _action(route.action)
    message |= _header_operations(route.request_headers, route.response_headers)
    filters: dict[str, Any] = {}
    if route.fault is not None:
        filters[FAULT_FILTER] = _fault(route.fault)
    if route.action.cors is not None:
        filters[CORS_FILTER] = _cors(route.action.cors)
    if filters:
        message["typed_per_filter_config"] = filters
    return message


def _match(match: RouteMatch) -> dict[str, Any]:
    message: dict[str, Any] = {}
    path = match.path
    match path.kind:
        case MatchKind.EXACT:
            message["path"] = path.value
        case MatchKind.PREFIX:
            message["prefix"] = path.value
        case MatchKind.REGEX:
            message["safe_regex"] = {"regex": path.value}
        case MatchKind.PRESENT:
            message["prefix"] = "/"
    if path.ignore_case:
        message["case_sensitive"] = False
    if match.headers:
        message["headers"] = [_header(header) for header in match.headers]
    if match.query_parameters:
        message["query_parameters"] = [
            {"name": parameter.name, **_presence_or_match(parameter.matcher)} for parameter in match.query_parameters
        ]
    return message


def _string(matcher: StringMatcher) -> dict[str, Any]:
    if matcher.kind is MatchKind.REGEX:
        return {"safe_regex": {"regex": matcher.value}}
    message: dict[str, Any] = {matcher.kind.value: matcher.value}
    if matcher.ignore_case:
        message["ignore_case"] = True
    return message


def _presence_or_match(matcher: StringMatcher) -> dict[str, Any]:
    if matcher.kind is MatchKind.PRESENT:
        return {"present_match": True}
    return {"string_match": _string(matcher)}


def _header(header: HeaderMatcher) -> dict[str, Any]:
    message = {"name": header.name, **_presence_or_match(header.matcher)}
    if header.invert:
        message["invert_match"] = True
    if header.missing_is_empty:
        message["treat_missing_header_as_empty"] = True
    return message


def _action(action: RouteAction) -> dict[str, Any]:
    timeout = envoy_duration(action.timeout_ms)
    # As Istio does: a gRPC client's own timeout counts, within the route's.
    message: dict[str, Any] = {"timeout": timeout, "max_grpc_timeout": timeout}
    if action.weighted_clusters:
        message["weighted_clusters"] = {
            "clusters": [
                {
                    "name": entry.cluster,
                    "weight": entry.weight,
                    **_header_operations(entry.request_headers, entry.response_headers),
                }
                for entry in action.weighted_clusters
            ]
        }
    else:
        message["cluster"] = action.cluster
    if action.retry is not None:
        message["retry_policy"] = _retry(action.retry)
    if action.hedge_on_per_try_timeout:
        message["hedge_policy"] = {"hedge_on_per_try_timeout": True}
    if action.hash_policy:
        message["hash_policy"] = [_hash(policy) for policy in action.hash_policy]
    if action.prefix_rewrite:
        message["prefix_rewrite"] = action.prefix_rewrite
    if action.regex_rewrite is not None:
        rewrite = action.regex_rewrite
        message["regex_rewrite"] = {"pattern": {"regex": rewrite.pattern}, "substitution": rewrite.substitution}
    if action.host_rewrite:
        message["host_rewrite_literal"] = action.host_rewrite
    if action.mirrors:
        message["request_mirror_policies"] = [
            {"cluster": mirror.cluster, "runtime_fraction": {"default_value": _share(mirror.per_million)}}
            for mirror in action.mirrors
        ]
    return message


def _share(per_million: int) -> dict[str, Any]:
    return {"numerator": per_million, "denominator": "MILLION"}


def _retry(policy: RetryPolicy) -> dict[str, Any]:
    message: dict[str, Any] = {"retry_on": policy.retry_on, "num_retries": policy.num_retries}
    if policy.retriable_status_codes:
        message["retriable_status_codes"] = list(policy.retriable_status_codes)
    if policy.per_try_timeout_ms is not None:
        message["per_try_timeout"] = envoy_duration(policy.per_try_timeout_ms)
    if policy.per_try_idle_timeout_ms is not None:
        message["per_try_idle_timeout"] = envoy_duration(policy.per_try_idle_timeout_ms)
    if policy.base_interval_ms is not None:
        message["retry_back_off"] = {"base_interval": envoy_duration(policy.base_interval_ms)}
    if policy.previous_hosts:
        name = "envoy.retry_host_predicates.previous_hosts"
        message["retry_host_predicate"] = [{"name": name, "typed_config": typed(_PREVIOUS_HOSTS)}]
    if policy.host_selection_retry_max_attempts != 1:
        message["host_selection_retry_max_attempts"] = policy.host_selection_retry_max_attempts
    frequency = policy.previous_priorities_update_frequency
    if frequency is not None:
        config = typed(_PREVIOUS_PRIORITIES, update_frequency=frequency)
        message["retry_priority"] = {"name": "envoy.retry_priorities.previous_priorities", "typed_config": config}
    return message


def _hash(policy: HashPolicy) -> dict[str, Any]:
    if isinstance(policy, HeaderHash):
        return {"header": {"header_name": policy.name}}
    if isinstance(policy, SourceIpHash):
        return {"connection_properties": {"source_ip": True}}
    if isinstance(policy, CookieHash):
        cookie: dict[str, Any] = {"name": policy.name}
        if policy.ttl_s is not None:
            cookie["ttl"] = f"{policy.ttl_s}s"
        if policy.path:
            cookie["path"] = policy.path
        if policy.attributes:
            cookie["attributes"] = [{"name": name, "value": value} for name, value in policy.attributes]
        return {"cookie": cookie}
    return {"query_parameter": {"name": policy.name}}


def _header_operations(request: HeaderOperations, response: HeaderOperations) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for direction, operations in (("request", request), ("response", response)):
        lines = [_header_line(name, value, "OVERWRITE_IF_EXISTS_OR_ADD") for name, value in operations.set]
        lines += [_header_line(name, value, "APPEND_IF_EXISTS_OR_ADD") for name, value in operations.add]
        if lines:
            message[f"{direction}_headers_to_add"] = lines
        if operations.remove:
            message[f"{direction}_headers_to_remove"] = list(operations.remove)
    return message


def _header_line(name: str, value: str, action: str) -> dict[str, Any]:
    line: dict[str, Any] = {"header": {"key": name, "value": value}, "append_action": action}
    if not value:
        line["keep_empty_value"] = True
    return line


def _redirect(redirect: Redirect) -> dict[str, Any]:
    parts = {
        "scheme_redirect": redirect.scheme,
        "host_redirect": redirect.host,
        "port_redirect": redirect.port,
        "path_redirect": redirect.path,
        "prefix_rewrite": redirect.prefix_rewrite,
    }
    given = {name: value for name, value in parts.items() if value}
    return {"response_code": _REDIRECT_CODES[redirect.status], **given}


def _fault(fault: Fault) -> dict[str, Any]:
    message = typed(_HTTP_FAULT)
    if fault.delay_ms is not None:
        message["delay"] = {
            "fixed_delay": envoy_duration(fault.delay_ms),
            "percentage": _share(fault.delay_per_million),
        }
    if fault.abort_http_status is not None:
        message["abort"] = {"http_status": fault.abort_http_status, "percentage": _share(fault.abort_per_million)}
    elif fault.abort_grpc_status:
        code = _GRPC_CODES.get(fault.abort_grpc_status, 0)
        message["abort"] = {"grpc_status": code, "percentage": _share(fault.abort_per_million)}
    return message


def _cors(cors: CorsPolicy) -> dict[str, Any]:
    message = typed(_CORS_POLICY)
    if cors.allow_origins:
        message["allow_origin_string_match"] = [_string(origin) for origin in cors.allow_origins]
    for name, values in (
        ("allow_methods", cors.allow_methods),
        ("allow_headers", cors.allow_headers),
        ("expose_headers", cors.expose_headers),
    ):
        if values:
            message[name] = ",".join(values)
    if cors.max_age_s is not None:
        message["max_age"] = str(cors.max_age_s)
    if cors.allow_credentials is not None:
        message["allow_credentials"] = cors.allow_credentials
    if not cors.forward_unmatched_preflights:
        message["forward_not_matching_preflights"] = False
    return message
