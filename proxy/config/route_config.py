"""Which cluster a request goes to, and under which limits: the counterpart of Envoy's `RouteConfiguration`.

Frozen data. `route_builder` makes it from VirtualServices and ServiceEntries; `proxy/router/route_table.py` indexes it.
"""

import attrs


@attrs.frozen(kw_only=True)
class RouteAction:
    """Forward to a cluster. `timeout_ms` 0 means no timeout (Istio's default; Envoy's own would be 15 s)."""

    cluster: str
    timeout_ms: int = 0


@attrs.frozen(kw_only=True)
class Route:
    """One route of a virtual host."""

    name: str = ""
    action: RouteAction


@attrs.frozen(kw_only=True)
class VirtualHost:
    """The routes of one service port, and the authorities that name it.

    `domains` are lower-case and complete: `reviews.default.svc.cluster.local:9080`, `reviews:9080`, `reviews`, ...;
    `*.example.com` and `*` are wildcards, matched as Envoy does (exact first, then the longest suffix).
    """

    name: str
    service_host: str
    port: int
    domains: tuple[str, ...]
    routes: tuple[Route, ...]


@attrs.frozen(kw_only=True)
class RouteConfiguration:
    """All virtual hosts of the outbound listener; an authority claimed twice belongs to the first that claims it."""

    virtual_hosts: tuple[VirtualHost, ...] = ()
