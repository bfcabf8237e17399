"""Finds the virtual host that an authority names.

Exact domains first, then `*.suffix` with the longest suffix, then `prefix.*` with the longest prefix, then `*`, as
Envoy's `RouteMatcher::findVirtualHost` (source/common/router/config_impl.cc). Immutable: a new configuration is a new
table.
"""

from proxy.config.route_config import RouteConfiguration
from proxy.router.route import ReadyVirtualHost


class RouteTable:
    """An index over the virtual hosts of a `RouteConfiguration`; a domain claimed twice belongs to the first.

    Args:
        configuration: The routes.
        previous: The table before; what did not change is taken over as it is.
    """

    def __init__(self, configuration: RouteConfiguration, previous: "RouteTable | None" = None) -> None:
        self.configuration = configuration
        known = previous._ready if previous is not None else {}
        self._ready: dict[int, ReadyVirtualHost] = {}
        self._exact: dict[bytes, ReadyVirtualHost] = {}
        self._suffixes: dict[bytes, ReadyVirtualHost] = {}
        self._prefixes: dict[bytes, ReadyVirtualHost] = {}
        self._any: ReadyVirtualHost | None = None
        self._services: dict[tuple[str, int | None], ReadyVirtualHost] = {}
        for config in configuration.virtual_hosts:
            ready = known.get(id(config))
            virtual_host = ready if ready is not None and ready.config is config else ReadyVirtualHost(config)
            self._ready[id(config)] = virtual_host
            self._services.setdefault((config.service_host, config.port), virtual_host)
            self._services.setdefault((config.service_host, None), virtual_host)
            for domain in config.domains:
                self._add(domain.lower().encode("latin-1"), virtual_host)
        self._suffix_lengths = sorted({len(suffix) for suffix in self._suffixes}, reverse=True)
        self._prefix_lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def _add(self, domain: bytes, virtual_host: ReadyVirtualHost) -> None:
        if domain == b"*":
            self._any = self._any or virtual_host
        elif domain.startswith(b"*"):
            self._suffixes.setdefault(domain[1:], virtual_host)
        elif domain.endswith(b"*"):
            self._prefixes.setdefault(domain[:-1], virtual_host)
        else:
            self._exact.setdefault(domain, virtual_host)

    def find(self, authority: bytes) -> ReadyVirtualHost | None:
        """Return the virtual host of an authority as received (`name` or `name:port`, any case), or None."""
        found = self._exact.get(authority)
        return found if found is not None else self._find_slowly(authority.lower())

    def find_service(self, host: str, port: int | None) -> ReadyVirtualHost | None:
        """Return the virtual host of a service port (without one: of the service's first port), or None."""
        return self._services.get((host, port))

    def _find_slowly(self, authority: bytes) -> ReadyVirtualHost | None:
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
