"""Whether Istio accepts one http route of a VirtualService.

Ports `validateHTTPRoute`, `validateHTTPRetry`, `validateHTTPFaultInjection` and their kin (Istio,
pkg/config/validation).
"""

import http
import re
from collections.abc import Mapping, Sequence

from proxy.config.issue import ABSENT, AS_WRITTEN, Path, Report
from proxy.config.re2 import compile_re2
from proxy.config.validation import check_duration, check_required_duration, is_dns_label, wildcard_domain_fault
from proxy.config.virtual_service import (
    Abort,
    CorsPolicy,
    Delay,
    Destination,
    Headers,
    HttpFaultInjection,
    HttpMatchRequest,
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
    HttpRoute,
    HttpRouteDestination,
    Percent,
    StringMatch,
)

RETRY_ON_WORDS = frozenset(
    {
        "5xx",
        "gateway-error",
        "reset",
        "reset-before-request",
        "connect-failure",
        "retriable-4xx",
        "refused-stream",
        "retriable-status-codes",
        "retriable-headers",
        "envoy-ratelimited",
        "http3-post-connect-failure",
        "cancelled",
        "deadline-exceeded",
        "internal",
        "resource-exhausted",
        "unavailable",
    }
)
GRPC_STATUSES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
_STATUSES = frozenset(int(status) for status in http.HTTPStatus)
_REDIRECT_CODES = (0, 301, 302, 303, 307, 308)
_HEADER_NAME = re.compile(r":?[-_A-Za-z0-9.!#$%&'*+^`|~]+")


def is_http_status(text: str) -> bool:
    """Whether a word of retryOn is a status code that has a standard phrase."""
    return text.isascii() and text.isdigit() and len(text) == 3 and int(text) in _STATUSES


def check_http_route(route: HttpRoute, path: Path, report: Report) -> None:
    """Report what Istio says about one http route."""
    _check_kind(route, path, report)
    for index, match in enumerate(route.match):
        if match is not None:
            _check_match(match, (*path, "match", index), report)
    _check_destinations(route.route, (*path, "route"), report)
    _check_headers(route.headers, (*path, "headers"), report)
    check_duration(route.timeout or None, (*path, "timeout"), report)
    if route.retries is not None:
        check_retries(route.retries, (*path, "retries"), report)
    if route.fault is not None:
        _check_fault(route.fault, (*path, "fault"), report)
    if route.rewrite is not None:
        _check_rewrite(route.rewrite, (*path, "rewrite"), report)
    if route.redirect is not None:
        _check_redirect(route.redirect, (*path, "redirect"), report)
    if route.direct_response is not None and not 200 <= route.direct_response.status <= 599:
        report.error((*path, "directResponse", "status"), route.direct_response.status, "must be in 200..599")
    _check_mirrors(route, path, report)
    if route.cors_policy is not None:
        _check_cors(route.cors_policy, (*path, "corsPolicy"), report)


def _check_kind(route: HttpRoute, path: Path, report: Report) -> None:
    """Exactly one of route, redirect, directResponse; or a delegate."""
    if route.delegate is not None:
        if route.route or route.redirect is not None:
            report.error((*path, "delegate"), AS_WRITTEN, "must not be set together with route or redirect")
        return
    if route.redirect is not None:
        for name, value in (("route", route.route), ("fault", route.fault), ("rewrite", route.rewrite)):
            if value:
                report.error((*path, name), AS_WRITTEN, "must not be set together with redirect")
        if route.direct_response is not None:
            report.error((*path, "directResponse"), AS_WRITTEN, "must not be set together with redirect")
    elif route.direct_response is not None:
        for name, value in (("route", route.route), ("fault", route.fault), ("rewrite", route.rewrite)):
            if value:
                report.error((*path, name), AS_WRITTEN, "must not be set together with directResponse")
    elif not route.route:
        report.error((*path, "route"), ABSENT, "must have route, redirect, directResponse or delegate")


def _check_destinations(entries: Sequence[HttpRouteDestination | None], path: Path, report: Report) -> None:
    for index, entry in enumerate(entries):
        where = (*path, index)
        if entry is None:
            report.error(where, None, "a destination must not be null")
            continue
        _check_destination(entry.destination, (*where, "destination"), report)
        _check_headers(entry.headers, (*where, "headers"), report)
        if entry.weight < 0:
            report.error((*where, "weight"), entry.weight, "must not be negative")
    if len(entries) > 1 and all(entry is None or entry.weight == 0 for entry in entries):
        report.error(path, 0, "the weights of several destinations must not all be 0")


def _check_destination(destination: Destination | None, path: Path, report: Report) -> None:
    if destination is None:
        report.error(path, ABSENT, "is required")
        return
    fault = "must not be *" if destination.host == "*" else wildcard_domain_fault(destination.host)
    if fault:
        report.error((*path, "host"), destination.host or ABSENT, fault)
    if destination.subset and not is_dns_label(destination.subset):
        report.error((*path, "subset"), destination.subset, "must be a DNS label")
    if destination.port is not None and not 1 <= destination.port.number <= 65535:
        report.error((*path, "port", "number"), destination.port.number, "must be in 1..65535")


def _check_match(match: HttpMatchRequest, path: Path, report: Report) -> None:
    for name, value in (
        ("uri", match.uri),
        ("scheme", match.scheme),
        ("method", match.method),
        ("authority", match.authority),
    ):
        if value is not None:
            _check_string_match(value, (*path, name), report)
            if value.is_empty:
                report.error((*path, name), {}, "must have exact, prefix or regex")
    for name, matches in (
        ("headers", match.headers),
        ("withoutHeaders", match.without_headers),
        ("queryParams", match.query_params),
    ):
        _check_match_map(matches, (*path, name), report, header=name != "queryParams")
    if match.port > 65535:
        report.error((*path, "port"), match.port, "must be in 1..65535")
    if match.uri is not None and match.uri.regex is not None and match.ignore_uri_case:
        report.warn((*path, "ignoreUriCase"), True, "has no effect on a regex")


def _check_match_map(matches: Mapping[str, StringMatch | None], path: Path, report: Report, *, header: bool) -> None:
    for name, value in matches.items():
        if not name or (header and _HEADER_NAME.fullmatch(name) is None):
            report.error((*path, name), name, "must be a header name" if header else "must not be empty")
        if value is not None:
            _check_string_match(value, (*path, name), report)


def _check_string_match(value: StringMatch, path: Path, report: Report) -> None:
    given = [name for name in ("exact", "prefix", "regex") if getattr(value, name) is not None]
    if len(given) > 1:
        report.error(path, given, "must have only one of exact, prefix, regex", origin="crd")
    if value.prefix == "":
        report.error((*path, "prefix"), "", "must not be empty")
    if value.regex is not None and value.regex != "*":  # a lone star asks for presence
        fault = regex_fault(value.regex)
        if fault:
            report.error((*path, "regex"), value.regex, fault)


def regex_fault(pattern: str) -> str | None:
    """Return what keeps `pattern` from being an RE2 expression that we can run; None if nothing does."""
    if not pattern:
        return "must not be empty"
    if re.search(r"\\[1-9]|\(\?[=!<](?![^>]*>)|\(\?<[=!]|\(\?\(", pattern):
        return "RE2 has no back references, look-around or conditions"
    try:
        compile_re2(pattern)
    except (re.error, RecursionError, OverflowError) as exc:
        return f"is not a regular expression: {exc}"
    return None


def _check_headers(headers: Headers | None, path: Path, report: Report) -> None:
    if headers is None:
        return
    for direction, operations in (("request", headers.request), ("response", headers.response)):
        if operations is None:
            continue
        where = (*path, direction)
        for kind, names in (("set", operations.set), ("add", operations.add), ("remove", operations.remove)):
            for name in names:
                if _HEADER_NAME.fullmatch(name) is None:
                    report.error((*where, kind), name, "must be a header name")


def check_retries(retries: HttpRetry, path: Path, report: Report) -> None:
    """Report what Istio says about the retries of a route, or of the mesh."""
    if retries.attempts < 0:
        report.error((*path, "attempts"), retries.attempts, "must not be negative")
    if retries.attempts == 0 and (
        retries.per_try_timeout is not None or retries.retry_on or retries.retry_remote_localities is not None
    ):
        report.error(path, "attempts: 0", "attempts 0 means no retries, so nothing else may be set")
    check_duration(retries.per_try_timeout, (*path, "perTryTimeout"), report)
    check_duration(retries.backoff, (*path, "backoff"), report)
    for word in retries.retry_on.split(",") if retries.retry_on else ():
        if word not in RETRY_ON_WORDS and not is_http_status(word):
            hint = "; write the list without spaces" if word.strip() != word else ""
            rule = f"{word!r} is no retry condition or status code{hint}"
            report.error((*path, "retryOn"), retries.retry_on, rule)
            break


def _check_fault(fault: HttpFaultInjection, path: Path, report: Report) -> None:
    if fault.abort is None and fault.delay is None:
        report.error(path, {}, "must have delay or abort")
    if fault.abort is not None:
        _check_abort(fault.abort, (*path, "abort"), report)
    if fault.delay is not None:
        _check_delay(fault.delay, (*path, "delay"), report)


def _check_abort(abort: Abort, path: Path, report: Report) -> None:
    _check_percentage(abort.percentage, (*path, "percentage"), report)
    if abort.http_status is not None:
        # 600 passes in Istio's code, whatever its message says.
        if not 200 <= abort.http_status <= 600:
            report.error((*path, "httpStatus"), abort.http_status, "must be in 200..599")
    elif abort.grpc_status is not None:
        if abort.grpc_status not in GRPC_STATUSES:
            report.error((*path, "grpcStatus"), abort.grpc_status, "must be the name of a gRPC status")
    elif abort.http2_error is not None:
        report.error((*path, "http2Error"), abort.http2_error, "is not supported")
    else:
        report.error(path, {}, "must have httpStatus or grpcStatus")


def _check_delay(delay: Delay, path: Path, report: Report) -> None:
    if not 0 <= delay.percent <= 100:
        report.error((*path, "percent"), delay.percent, "must be in 0..100")
    _check_percentage(delay.percentage, (*path, "percentage"), report)
    if delay.exponential_delay is not None:
        report.error((*path, "exponentialDelay"), AS_WRITTEN, "is not supported; use fixedDelay")
    else:
        check_required_duration(delay.fixed_delay, (*path, "fixedDelay"), report)


def _check_percentage(percentage: Percent | None, path: Path, report: Report) -> None:
    if percentage is not None and not (percentage.value == 0 or 0.0001 <= percentage.value <= 100):
        report.error((*path, "value"), percentage.value, "must be 0 or in 0.0001..100")


def _check_rewrite(rewrite: HttpRewrite, path: Path, report: Report) -> None:
    if not rewrite.uri and not rewrite.authority and rewrite.uri_regex_rewrite is None:
        report.error(path, {}, "must have uri, authority or uriRegexRewrite")
    if rewrite.uri and rewrite.uri_regex_rewrite is not None:
        report.error((*path, "uriRegexRewrite"), AS_WRITTEN, "must not be set together with uri")
    elif rewrite.uri_regex_rewrite is not None:
        pattern = rewrite.uri_regex_rewrite
        fault = regex_fault(pattern.match)
        if fault:
            report.error((*path, "uriRegexRewrite", "match"), pattern.match or ABSENT, fault)
        if not pattern.rewrite:
            report.error((*path, "uriRegexRewrite", "rewrite"), ABSENT, "is required")


def _check_redirect(redirect: HttpRedirect, path: Path, report: Report) -> None:
    if not (redirect.uri or redirect.authority or redirect.prefix_rewrite or redirect.scheme):
        report.error(path, {}, "must have uri, authority, scheme or prefixRewrite")
    if redirect.uri and redirect.prefix_rewrite:
        report.error((*path, "prefixRewrite"), redirect.prefix_rewrite, "must not be set together with uri")
    if redirect.redirect_code not in _REDIRECT_CODES:
        report.error((*path, "redirectCode"), redirect.redirect_code, "must be 301, 302, 303, 307 or 308")
    if redirect.scheme not in {"", "http", "https"}:
        report.error((*path, "scheme"), redirect.scheme, "must be http or https")


def _check_mirrors(route: HttpRoute, path: Path, report: Report) -> None:
    if route.mirror is not None and route.mirrors:
        report.error((*path, "mirrors"), AS_WRITTEN, "must not be set together with mirror")
    if route.mirror is not None:
        _check_destination(route.mirror, (*path, "mirror"), report)
    if route.mirror_percent is not None and route.mirror_percent > 100:
        report.error((*path, "mirrorPercent"), route.mirror_percent, "must be in 0..100")
    _check_percentage(route.mirror_percentage, (*path, "mirrorPercentage"), report)
    for index, mirror in enumerate(route.mirrors):
        where = (*path, "mirrors", index)
        if mirror is None or mirror.destination is None:
            report.error((*where, "destination"), ABSENT, "is required")
        else:
            _check_destination(mirror.destination, (*where, "destination"), report)
            _check_percentage(mirror.percentage, (*where, "percentage"), report)


def _check_cors(cors: CorsPolicy, path: Path, report: Report) -> None:
    for index, origin in enumerate(cors.allow_origins):
        if origin is not None:
            _check_string_match(origin, (*path, "allowOrigins", index), report)
    for index, method in enumerate(cors.allow_methods):
        if method not in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "*"}:
            report.error((*path, "allowMethods", index), method, "is no HTTP method")
    if cors.max_age is not None and (cors.max_age < 0 or cors.max_age % 1_000_000_000):
        report.error((*path, "maxAge"), AS_WRITTEN, "must be whole seconds")
