"""Which VirtualService holds the routes of a host, as this sidecar sees it.

Of those bound to the mesh and visible here, the most specific host wins, then the oldest; VirtualServices of one host
are not merged.
"""

from collections import defaultdict

from proxy.config.host_names import candidates, complete_host
from proxy.config.node import NodeConfig
from proxy.config.resource import Key, Resource
from proxy.config.rule_index import precedence
from proxy.config.validate_virtual_service import MESH_GATEWAY
from proxy.config.virtual_service import VirtualService
from proxy.config.visibility import PUBLIC, exported_to


def virtual_service(resource: Resource) -> VirtualService:
    """Return the body of a VirtualService resource."""
    assert isinstance(resource.body, VirtualService)
    return resource.body


class VirtualServiceIndex:
    """All VirtualServices that concern the sidecar, by host."""

    def __init__(self, node: NodeConfig, *, default_export_to: str = PUBLIC) -> None:
        self._node = node
        self._default = default_export_to
        self._by_host: dict[str, dict[Key, Resource]] = defaultdict(dict)

    def update(self, old: Resource | None, new: Resource | None) -> list[str]:
        """Replace a VirtualService; return the hosts it names or named."""
        touched: dict[str, None] = {}
        if old is not None:
            for host in self._hosts(old):
                touched[host] = None
                self._by_host[host].pop(old.key, None)
                if not self._by_host[host]:
                    del self._by_host[host]
        if new is not None:
            for host in self._hosts(new):
                touched[host] = None
                self._by_host[host][new.key] = new
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
