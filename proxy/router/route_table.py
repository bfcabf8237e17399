"""Finds the virtual host that an authority names.

Exact domains first, then `*.suffix` with the longest suffix, then `prefix.*` with the longest prefix, then `*`, as
Envoy's `RouteMatcher::findVirtualHost` (source/common/router/config_impl.cc). Immutable: a new configuration is a new
table.
"""

from proxy.config.route_config import RouteConfiguration, VirtualHost


class RouteTable:
    """An index over the virtual hosts of a `RouteConfiguration`; a domain claimed twice belongs to the first."""

    def __init__(self, configuration: RouteConfiguration) -> None:
        self.configuration = configuration
        self._exact: dict[bytes, VirtualHost] = {}
        self._suffixes: dict[bytes, VirtualHost] = {}
        self._prefixes: dict[bytes, VirtualHost] = {}
        self._any: VirtualHost | None = None
        self._services: dict[tuple[str, int | None], VirtualHost] = {}
        for virtual_host in configuration.virtual_hosts:
            self._services.setdefault((virtual_host.service_host, virtual_host.port), virtual_host)
            self._services.setdefault((virtual_host.service_host, None), virtual_host)
            for domain in virtual_host.domains:
                self._add(domain.lower().encode("latin-1"), virtual_host)
        self._suffix_lengths = sorted({len(suffix) for suffix in self._suffixes}, reverse=True)
        self._prefix_lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def _add(self, domain: bytes, virtual_host: VirtualHost) -> None:
        if domain == b"*":
            self._any = self._any or virtual_host
        elif domain.startswith(b"*"):
            self._suffixes.setdefault(domain[1:], virtual_host)
        elif domain.endswith(b"*"):
            self._prefixes.setdefault(domain[:-1], virtual_host)
        else:
            self._exact.setdefault(domain, virtual_host)

    def find(self, authority: bytes) -> VirtualHost | None:
        """Return the virtual host of an authority as received (`name` or `name:port`, any case), or None."""
        found = self._exact.get(authority)
        return found if found is not None else self._find_slowly(authority.lower())

    def find_service(self, host: str, port: int | None) -> VirtualHost | None:
        """Return the virtual host of a service port (without one: of the service's first port), or None."""
        return self._services.get((host, port))

    def _find_slowly(self, authority: bytes) -> VirtualHost | None:
        found = self._exact.get(authority)
        if found is not None:
            return found
        for length in self._suffix_lengths:
            # A wildcard stands for at least one character.
            if length < len(authority) and (found := self._suffixes.get(authority[-length:])) is not None:
                return found
        for length in self._prefix_lengths:
            if length < len(authority) and (found := self._prefixes.get(authority[:length])) is not None:
                return found
        return self._any


EMPTY_ROUTE_TABLE = RouteTable(RouteConfiguration())
