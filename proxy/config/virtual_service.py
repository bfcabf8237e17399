# ruff: noqa: RUF009 - the field functions return attrs.field()
"""The VirtualService message: HTTP routes whole, TCP and TLS routes as far as a check needs them."""

from collections.abc import Mapping

import attrs

from proxy.config.message import (
    Message,
    boolean,
    double,
    duration,
    int32,
    mapping,
    message,
    optional_boolean,
    optional_string,
    optional_uint32,
    read_string,
    repeated,
    string,
    uint32,
)


@attrs.frozen(kw_only=True)
class StringMatch(Message):
    """At most one of the three; none means that the value is present."""

    exact: str | None = optional_string()
    prefix: str | None = optional_string()
    regex: str | None = optional_string()


@attrs.frozen(kw_only=True)
class HttpMatchRequest(Message):
    """Conditions that must all hold."""

    name: str = string()
    uri: StringMatch | None = message(StringMatch)
    scheme: StringMatch | None = message(StringMatch)
    method: StringMatch | None = message(StringMatch)
    authority: StringMatch | None = message(StringMatch)
    headers: Mapping[str, StringMatch | None] = mapping(StringMatch)
    port: int = uint32()
    source_labels: Mapping[str, str] = mapping()
    gateways: tuple[str, ...] = repeated(read_string)
    query_params: Mapping[str, StringMatch | None] = mapping(StringMatch)
    ignore_uri_case: bool = boolean()
    without_headers: Mapping[str, StringMatch | None] = mapping(StringMatch)
    source_namespace: str = string()
    stat_prefix: str = string()


@attrs.frozen(kw_only=True)
class PortSelector(Message):
    """A service port."""

    number: int = uint32()


@attrs.frozen(kw_only=True)
class Destination(Message):
    """A service, one of its subsets, one of its ports."""

    host: str = string()
    subset: str = string()
    port: PortSelector | None = message(PortSelector)


@attrs.frozen(kw_only=True)
class HeaderOperations(Message):
    """Changes of one head, in the order remove, set, add."""

    set: Mapping[str, str] = mapping()
    add: Mapping[str, str] = mapping()
    remove: tuple[str, ...] = repeated(read_string)


@attrs.frozen(kw_only=True)
class Headers(Message):
    """Changes of the request's and the response's head."""

    request: HeaderOperations | None = message(HeaderOperations)
    response: HeaderOperations | None = message(HeaderOperations)


@attrs.frozen(kw_only=True)
class HttpRouteDestination(Message):
    """A destination and its share of the traffic."""

    destination: Destination | None = message(Destination)
    weight: int = int32()
    headers: Headers | None = message(Headers)


@attrs.frozen(kw_only=True)
class HttpRedirect(Message):
    """Answer with another place."""

    uri: str = string()
    authority: str = string()
    port: int | None = optional_uint32()
    derive_port: str | None = optional_string()
    scheme: str = string()
    redirect_code: int = uint32()
    prefix_rewrite: str = string()


@attrs.frozen(kw_only=True)
class HttpBody(Message):
    """A body given in the configuration."""

    string: str | None = optional_string()
    bytes: str | None = optional_string()


@attrs.frozen(kw_only=True)
class HttpDirectResponse(Message):
    """Answer without an upstream."""

    status: int = uint32()
    body: HttpBody | None = message(HttpBody)


@attrs.frozen(kw_only=True)
class RegexRewrite(Message):
    """Substitution in the path."""

    match: str = string()
    rewrite: str = string()


@attrs.frozen(kw_only=True)
class HttpRewrite(Message):
    """Another path or authority for the upstream."""

    uri: str = string()
    authority: str = string()
    uri_regex_rewrite: RegexRewrite | None = message(RegexRewrite)


@attrs.frozen(kw_only=True)
class HttpRetry(Message):
    """When and how often to try again."""

    attempts: int = int32()
    per_try_timeout: int | None = duration()
    retry_on: str = string()
    retry_remote_localities: bool | None = optional_boolean()
    retry_ignore_previous_hosts: bool | None = optional_boolean()
    backoff: int | None = duration()


@attrs.frozen(kw_only=True)
class Percent(Message):
    """A percentage, 0..100."""

    value: float = double()


@attrs.frozen(kw_only=True)
class Delay(Message):
    """Hold requests back."""

    percent: int = int32()
    fixed_delay: int | None = duration()
    exponential_delay: int | None = duration()
    percentage: Percent | None = message(Percent)


@attrs.frozen(kw_only=True)
class Abort(Message):
    """Answer requests with an error."""

    http_status: int | None = optional_uint32()
    grpc_status: str | None = optional_string()
    http2_error: str | None = optional_string()
    percentage: Percent | None = message(Percent)


@attrs.frozen(kw_only=True)
class HttpFaultInjection(Message):
    """Faults made by the client's sidecar; outlier detection does not see them."""

    delay: Delay | None = message(Delay)
    abort: Abort | None = message(Abort)


@attrs.frozen(kw_only=True)
class HttpMirrorPolicy(Message):
    """A copy of requests to another destination."""

    destination: Destination | None = message(Destination)
    percentage: Percent | None = message(Percent)


@attrs.frozen(kw_only=True)
class CorsPolicy(Message):
    """Cross-origin rules."""

    allow_origin: tuple[str, ...] = repeated(read_string)
    allow_origins: tuple[StringMatch | None, ...] = repeated(StringMatch)
    allow_methods: tuple[str, ...] = repeated(read_string)
    allow_headers: tuple[str, ...] = repeated(read_string)
    expose_headers: tuple[str, ...] = repeated(read_string)
    max_age: int | None = duration()
    allow_credentials: bool | None = optional_boolean()
    unmatched_preflights: str | None = optional_string()


@attrs.frozen(kw_only=True)
class Delegate(Message):
    """Another VirtualService that holds the routes."""

    name: str = string()
    namespace: str = string()


@attrs.frozen(kw_only=True)
class HttpRoute(Message):
    """One rule; the first whose `match` holds decides."""

    name: str = string()
    match: tuple[HttpMatchRequest | None, ...] = repeated(HttpMatchRequest)
    route: tuple[HttpRouteDestination | None, ...] = repeated(HttpRouteDestination)
    redirect: HttpRedirect | None = message(HttpRedirect)
    direct_response: HttpDirectResponse | None = message(HttpDirectResponse)
    delegate: Delegate | None = message(Delegate)
    rewrite: HttpRewrite | None = message(HttpRewrite)
    timeout: int | None = duration()
    retries: HttpRetry | None = message(HttpRetry)
    fault: HttpFaultInjection | None = message(HttpFaultInjection)
    mirror: Destination | None = message(Destination)
    mirrors: tuple[HttpMirrorPolicy | None, ...] = repeated(HttpMirrorPolicy)
    mirror_percent: int | None = optional_uint32()
    mirror_percentage: Percent | None = message(Percent)
    cors_policy: CorsPolicy | None = message(CorsPolicy)
    headers: Headers | None = message(Headers)


@attrs.frozen(kw_only=True)
class L4MatchAttributes(Message):
    """Conditions of a TCP or TLS route."""

    destination_subnets: tuple[str, ...] = repeated(read_string)
    sni_hosts: tuple[str, ...] = repeated(read_string)
    port: int = uint32()
    source_subnet: str = string()
    source_labels: Mapping[str, str] = mapping()
    gateways: tuple[str, ...] = repeated(read_string)
    source_namespace: str = string()


@attrs.frozen(kw_only=True)
class L4RouteDestination(Message):
    """A destination of a TCP or TLS route."""

    destination: Destination | None = message(Destination)
    weight: int = int32()


@attrs.frozen(kw_only=True)
class L4Route(Message):
    """A TCP or TLS route; the sidecar's listener is HTTP and takes none."""

    match: tuple[L4MatchAttributes | None, ...] = repeated(L4MatchAttributes)
    route: tuple[L4RouteDestination | None, ...] = repeated(L4RouteDestination)


@attrs.frozen(kw_only=True)
class VirtualService(Message):
    """Routes for requests to `hosts`."""

    hosts: tuple[str, ...] = repeated(read_string)
    gateways: tuple[str, ...] = repeated(read_string)
    http: tuple[HttpRoute | None, ...] = repeated(HttpRoute)
    tls: tuple[L4Route | None, ...] = repeated(L4Route)
    tcp: tuple[L4Route | None, ...] = repeated(L4Route)
    export_to: tuple[str, ...] = repeated(read_string)
