"""Which cluster a request goes to, and under which limits: the counterpart of Envoy's `RouteConfiguration`.

Frozen data. `route_builder` makes it from VirtualServices and ServiceEntries; `proxy/router/route_table.py` indexes it.
Names are Envoy's, durations integer milliseconds, shares parts per million.
"""

import enum
from collections.abc import Mapping

import attrs

from proxy.config.hash_policy import HashPolicy
from proxy.config.layered_mapping import LayeredMapping


class MatchKind(enum.Enum):
    """How a text is compared; REGEX must match as a whole, PRESENT asks only whether there is a value."""

    EXACT = "exact"
    PREFIX = "prefix"
    REGEX = "regex"
    PRESENT = "present"


@attrs.frozen
class StringMatcher:
    """A condition on one text; `ignore_case` counts for EXACT and PREFIX."""

    kind: MatchKind
    value: str = ""
    ignore_case: bool = False


ANY_PATH = StringMatcher(MatchKind.PREFIX, "/")


@attrs.frozen
class HeaderMatcher:
    """A condition on a header, lower-case; `:method`, `:authority` and `:scheme` name those parts of the request.

    `invert` turns the answer round; with `missing_is_empty` an absent header is compared as an empty text, and
    otherwise never matches.
    """

    name: str
    matcher: StringMatcher
    invert: bool = False
    missing_is_empty: bool = False


@attrs.frozen
class QueryParameterMatcher:
    """A condition on the first query parameter of that name."""

    name: str
    matcher: StringMatcher


@attrs.frozen(kw_only=True)
class RouteMatch:
    """All conditions must hold; `path` is compared without the query."""

    path: StringMatcher = ANY_PATH
    headers: tuple[HeaderMatcher, ...] = ()
    query_parameters: tuple[QueryParameterMatcher, ...] = ()

    @property
    def is_catch_all(self) -> bool:
        """Whether every request matches."""
        return self == ANY_REQUEST


ANY_REQUEST = RouteMatch()


@attrs.frozen(kw_only=True)
class HeaderOperations:
    """Changes of a head, in this order: `remove` names, `set` (replace), `add` (append) lines of name and value."""

    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


NO_OPERATIONS = HeaderOperations()


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Envoy's `RetryPolicy` as Istio sends it; `per_try_idle_timeout_ms`, which Istio never sends, is for programs.

    `retry_on` is the comma-separated list as sent, and may start with a comma. `per_try_timeout_ms`,
    `per_try_idle_timeout_ms` and `base_interval_ms` None mean "not sent": no limit per try, and 25 ms with a maximum
    of ten times the base.
    `previous_hosts` turns away hosts that failed already, for `host_selection_retry_max_attempts` draws.
    `previous_priorities_update_frequency` set also tries other priorities.
    """

    num_retries: int
    retry_on: str
    retriable_status_codes: tuple[int, ...] = ()
    per_try_timeout_ms: int | None = None
    per_try_idle_timeout_ms: int | None = None
    base_interval_ms: int | None = None
    previous_hosts: bool = False
    host_selection_retry_max_attempts: int = 1
    previous_priorities_update_frequency: int | None = None


@attrs.frozen(kw_only=True)
class WeightedCluster:
    """One of several clusters; its share is `weight` over the sum of all weights."""

    cluster: str
    weight: int
    request_headers: HeaderOperations = NO_OPERATIONS
    response_headers: HeaderOperations = NO_OPERATIONS


@attrs.frozen(kw_only=True)
class Mirror:
    """A copy of `per_million` of the requests to another cluster; its answers are dropped."""

    cluster: str
    per_million: int = 1_000_000


@attrs.frozen
class RegexRewrite:
    """Every match of `pattern` in the path becomes `substitution`."""

    pattern: str
    substitution: str


@attrs.frozen(kw_only=True)
class CorsPolicy:
    """Cross-origin rules; `max_age_s` None is not sent."""

    allow_origins: tuple[StringMatcher, ...] = ()
    allow_methods: tuple[str, ...] = ()
    allow_headers: tuple[str, ...] = ()
    expose_headers: tuple[str, ...] = ()
    max_age_s: int | None = None
    allow_credentials: bool | None = None
    forward_unmatched_preflights: bool = True


@attrs.frozen(kw_only=True)
class RouteAction:
    """Forward to a cluster, or to one of `weighted_clusters` when there are several.

    `timeout_ms` 0 means no timeout (Istio's default; Envoy's own would be 15 s). `retry` None means no retries. With
    several hash policies each adds to the hash. `prefix_rewrite` replaces what `path` matched, a prefix or the whole.
    `hedge_on_per_try_timeout` keeps an attempt whose own time is up while the next one is made.
    """

    cluster: str = ""
    timeout_ms: int = 0
    weighted_clusters: tuple[WeightedCluster, ...] = ()
    retry: RetryPolicy | None = None
    hedge_on_per_try_timeout: bool = False
    hash_policy: tuple[HashPolicy, ...] = ()
    prefix_rewrite: str = ""
    regex_rewrite: RegexRewrite | None = None
    host_rewrite: str = ""
    mirrors: tuple[Mirror, ...] = ()
    cors: CorsPolicy | None = None


@attrs.frozen(kw_only=True)
class Redirect:
    """Answer with another location; empty parts stay those of the request."""

    status: int = 301
    scheme: str = ""
    host: str = ""
    port: int | None = None
    path: str = ""
    prefix_rewrite: str = ""


@attrs.frozen(kw_only=True)
class DirectResponse:
    """Answer without an upstream."""

    status: int
    body: bytes = b""


@attrs.frozen(kw_only=True)
class Fault:
    """Faults before the upstream is chosen: outlier detection does not see them.

    The delay comes first, then the abort; each is drawn with its own share. `abort_grpc_status` is the name of a gRPC
    status, for which the answer is a gRPC one; empty for an HTTP status.
    """

    delay_ms: int | None = None
    delay_per_million: int = 0
    abort_http_status: int | None = None
    abort_grpc_status: str = ""
    abort_per_million: int = 0


@attrs.frozen(kw_only=True)
class Route:
    """One route of a virtual host. `redirect` or `direct_response`, when set, answers instead of `action`."""

    name: str = ""
    match: RouteMatch = ANY_REQUEST
    action: RouteAction
    redirect: Redirect | None = None
    direct_response: DirectResponse | None = None
    fault: Fault | None = None
    request_headers: HeaderOperations = NO_OPERATIONS
    response_headers: HeaderOperations = NO_OPERATIONS


@attrs.frozen(kw_only=True)
class VirtualHost:
    """The routes of one service port, and the authorities that name it; the first route that matches counts.

    `domains` are lower-case and complete: `reviews.default.svc.cluster.local:9080`, `reviews:9080`, `reviews`, ...;
    `*.example.com` and `*` are wildcards, matched as Envoy does (exact first, then the longest suffix).
    """

    name: str
    service_host: str
    port: int
    domains: tuple[str, ...]
    routes: tuple[Route, ...]


@attrs.frozen(kw_only=True)
class HostRoutes:
    """The virtual hosts of one host, one for each of its ports; `order` places them among those of other hosts."""

    order: tuple[int | str, ...]
    virtual_hosts: tuple[VirtualHost, ...]


@attrs.frozen
class RouteConfiguration:
    """All virtual hosts of the outbound listener by host; an authority claimed twice belongs to the first in order."""

    hosts: Mapping[str, HostRoutes] = LayeredMapping()

    @classmethod
    def of(cls, *virtual_hosts: VirtualHost) -> "RouteConfiguration":
        """Return the configuration of virtual hosts in their order; those of one host stand together."""
        hosts: dict[str, list[VirtualHost]] = {}
        for virtual_host in virtual_hosts:
            hosts.setdefault(virtual_host.service_host, []).append(virtual_host)
        return cls(
            {
                host: HostRoutes(order=(number,), virtual_hosts=tuple(own))
                for number, (host, own) in enumerate(hosts.items())
            }
        )

    @property
    def virtual_hosts(self) -> tuple[VirtualHost, ...]:
        """All virtual hosts in order; sorted at each call, for who looks at everything anyway."""
        ordered = sorted(self.hosts.values(), key=lambda routes: routes.order)
        return tuple(virtual_host for routes in ordered for virtual_host in routes.virtual_hosts)
