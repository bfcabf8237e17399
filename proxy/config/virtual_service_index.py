"""Which VirtualService holds the routes of a host, as this sidecar sees it.

Of those bound to the mesh and visible here, the most specific host wins, then the oldest; VirtualServices of one host
are not merged.
"""

from collections import defaultdict
from collections.abc import Iterator

import attrs

from proxy.config.delegate import merge_routes
from proxy.config.hedging import hedges
from proxy.config.host_names import candidates, complete_host
from proxy.config.node import NodeConfig
from proxy.config.resource import Key, Resource
from proxy.config.rule_index import precedence
from proxy.config.validate_virtual_service import MESH_GATEWAY
from proxy.config.virtual_service import HttpRoute, VirtualService
from proxy.config.visibility import PUBLIC, exported_to


def virtual_service(resource: Resource) -> VirtualService:
    """Return the body of a VirtualService resource."""
    assert isinstance(resource.body, VirtualService)
    return resource.body


Name = tuple[str, str]


@attrs.frozen
class OwnedRoute:
    """An http route, the namespace that short names in it count from, and whether its attempts are hedged."""

    route: HttpRoute
    namespace: str
    hedged: bool


class VirtualServiceIndex:
    """All VirtualServices that concern the sidecar: by host, or by name for others to delegate to."""

    def __init__(self, node: NodeConfig, *, default_export_to: str = PUBLIC) -> None:
        self._node = node
        self._default = default_export_to
        self._by_host: dict[str, dict[Key, Resource]] = defaultdict(dict)
        self._delegates: dict[Name, Resource] = {}
        self._delegating: dict[Name, dict[Key, Resource]] = defaultdict(dict)

    def update(self, old: Resource | None, new: Resource | None) -> list[str]:
        """Replace a VirtualService; return the hosts it names or named, or those of the ones that delegate to it."""
        touched: dict[str, None] = {}
        if old is not None:
            self._delegates.pop((old.namespace, old.name), None)
            for host in self._hosts(old):
                touched[host] = None
                self._by_host[host].pop(old.key, None)
                if not self._by_host[host]:
                    del self._by_host[host]
            for name in _delegates_of(old):
                self._delegating[name].pop(old.key, None)
        if new is not None:
            if not virtual_service(new).hosts:
                self._delegates[new.namespace, new.name] = new
            for host in self._hosts(new):
                touched[host] = None
                self._by_host[host][new.key] = new
            for name in _delegates_of(new):
                self._delegating[name][new.key] = new
        changed = new if new is not None else old
        assert changed is not None
        for resource in self._delegating.get((changed.namespace, changed.name), {}).values():
            touched |= dict.fromkeys(self._hosts(resource))
        return list(touched)

    def _hosts(self, resource: Resource) -> tuple[str, ...]:
        body = virtual_service(resource)
        if body.gateways and MESH_GATEWAY not in body.gateways:
            return ()
        if not exported_to(body.export_to, resource.namespace, self._node.namespace, self._default):
            return ()
        return tuple(complete_host(host, resource.namespace, self._node.domain) for host in body.hosts)

    def exactly(self, host: str) -> Resource | None:
        """Return the VirtualService that names `host` itself, None when none does."""
        named = self._by_host.get(host)
        return min(named.values(), key=precedence) if named else None

    def lookup(self, host: str) -> Resource | None:
        """Return the VirtualService whose hosts cover `host` most specifically, None when none does."""
        return next((found for candidate in candidates(host) if (found := self.exactly(candidate)) is not None), None)

    def delegate(self, resource: Resource, route: HttpRoute) -> Resource | None:
        """Return the VirtualService that a route delegates to; None when none is visible to the delegating one."""
        found = self._delegates.get(_delegate_name(resource, route))
        if found is None:
            return None
        visible = exported_to(virtual_service(found).export_to, found.namespace, resource.namespace, self._default)
        return found if visible else None

    def http_routes(self, resource: Resource) -> Iterator[OwnedRoute]:
        """Yield the http routes of a VirtualService in order, delegated ones in the place of the delegating."""
        for route in virtual_service(resource).http:
            if route is None:
                continue
            if route.delegate is None:
                yield OwnedRoute(route, resource.namespace, hedges(resource))
                continue
            found = self.delegate(resource, route)
            if found is not None:
                for merged in merge_routes(route, virtual_service(found).http):
                    yield OwnedRoute(merged, found.namespace, hedges(found))


def _delegate_name(resource: Resource, route: HttpRoute) -> Name:
    assert route.delegate is not None
    return route.delegate.namespace or resource.namespace, route.delegate.name


def _delegates_of(resource: Resource) -> list[Name]:
    routes = virtual_service(resource).http
    return [_delegate_name(resource, route) for route in routes if route is not None and route.delegate is not None]
