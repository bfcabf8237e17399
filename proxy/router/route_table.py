"""Finds the virtual host that an authority names.

Exact domains first, then `*.suffix` with the longest suffix, then `prefix.*` with the longest prefix, then `*`, as
Envoy's `RouteMatcher::findVirtualHost` (source/common/router/config_impl.cc). A change touches the entries of the hosts
that it concerns and no others.
"""

import bisect
from collections import Counter
from collections.abc import Iterator

from proxy.config.route_config import HostRoutes, RouteConfiguration
from proxy.router.route import ReadyVirtualHost

_ANY = b"*"
_Order = tuple[int | str, ...]
_Index = dict[bytes, ReadyVirtualHost]


class RouteTable:
    """An index over the virtual hosts of a `RouteConfiguration`; a domain claimed twice belongs to the first in order.

    Args:
        configuration: The routes to begin with.
    """

    def __init__(self, configuration: RouteConfiguration | None = None) -> None:
        self._hosts: dict[str, tuple[ReadyVirtualHost, ...]] = {}
        self._orders: dict[ReadyVirtualHost, _Order] = {}
        self._exact: _Index = {}
        self._suffixes: _Index = {}
        self._prefixes: _Index = {}
        self._contested: dict[bytes, list[ReadyVirtualHost]] = {}  # by domain, all who claim it, the first first
        self._suffix_lengths: Counter[int] = Counter()
        self._prefix_lengths: Counter[int] = Counter()
        self._longest_suffixes: list[int] = []  # lengths, the longest first
        self._longest_prefixes: list[int] = []
        for host, routes in configuration.hosts.items() if configuration is not None else ():
            self.replace(host, routes)

    def copy(self) -> "RouteTable":
        """Return a table of the same virtual hosts, for changes that shall show all at once."""
        table = RouteTable()
        table._hosts, table._orders = self._hosts.copy(), self._orders.copy()
        table._exact = self._exact.copy()
        table._suffixes, table._prefixes = self._suffixes.copy(), self._prefixes.copy()
        table._contested = {domain: claims.copy() for domain, claims in self._contested.items()}
        table._suffix_lengths, table._prefix_lengths = self._suffix_lengths.copy(), self._prefix_lengths.copy()
        table._longest_suffixes, table._longest_prefixes = self._longest_suffixes, self._longest_prefixes
        return table

    def replace(self, host: str, routes: HostRoutes | None) -> None:
        """Let these be the virtual hosts of a host, None for no more; those that did not change are taken over."""
        before = self._hosts.pop(host, ())
        for virtual_host in before:
            self._withdraw(virtual_host)
        if routes is None:
            return
        known = {id(virtual_host.config): virtual_host for virtual_host in before}
        ready = tuple(known.get(id(config)) or ReadyVirtualHost(config) for config in routes.virtual_hosts)
        self._hosts[host] = ready
        for position, virtual_host in enumerate(ready):
            self._orders[virtual_host] = (*routes.order, position)
            self._claim(virtual_host)

    def _claim(self, virtual_host: ReadyVirtualHost) -> None:
        """Enter the domains of a virtual host."""
        for domain, index, key in self._entries(virtual_host):
            holder = index.get(key)
            if holder is None:
                index[key] = virtual_host
                self._count(index, key, 1)
            else:
                claims = self._contested.setdefault(domain, [holder])
                bisect.insort(claims, virtual_host, key=self._orders.__getitem__)
                index[key] = claims[0]

    def _withdraw(self, virtual_host: ReadyVirtualHost) -> None:
        """Take the domains of a virtual host out again."""
        for domain, index, key in self._entries(virtual_host):
            claims = self._contested.get(domain)
            if claims is None:
                del index[key]
                self._count(index, key, -1)
            else:
                claims.remove(virtual_host)
                index[key] = claims[0]
                if len(claims) == 1:
                    del self._contested[domain]
        del self._orders[virtual_host]

    def _entries(self, virtual_host: ReadyVirtualHost) -> Iterator[tuple[bytes, _Index, bytes]]:
        """Yield each domain with the index that it belongs to and its key there."""
        for name in dict.fromkeys(map(str.lower, virtual_host.config.domains)):
            domain = name.encode("latin-1")
            if domain != _ANY and domain.startswith(_ANY):
                yield domain, self._suffixes, domain[1:]
            elif domain != _ANY and domain.endswith(_ANY):
                yield domain, self._prefixes, domain[:-1]
            else:
                yield domain, self._exact, domain  # `*` among them: whoever asks for it by name gets it, too

    def _count(self, index: _Index, key: bytes, by: int) -> None:
        """Keep account of the lengths of what wildcards leave fixed."""
        if index is self._exact:
            return
        lengths = self._suffix_lengths if index is self._suffixes else self._prefix_lengths
        lengths[len(key)] += by
        if not lengths[len(key)]:
            del lengths[len(key)]
        self._longest_suffixes = sorted(self._suffix_lengths, reverse=True)
        self._longest_prefixes = sorted(self._prefix_lengths, reverse=True)

    def find(self, authority: bytes) -> ReadyVirtualHost | None:
        """Return the virtual host of an authority as received (`name` or `name:port`, any case), or None."""
        found = self._exact.get(authority)
        return found if found is not None else self._find_slowly(authority.lower())

    def find_service(self, host: str, port: int | None) -> ReadyVirtualHost | None:
        """Return the virtual host of a service port (without one: of the service's first port), or None."""
        for virtual_host in self._hosts.get(host, ()):
            if port is None or port == virtual_host.config.port:
                return virtual_host
        return None

    def _find_slowly(self, authority: bytes) -> ReadyVirtualHost | None:
        found = self._exact.get(authority)
        if found is not None:
            return found
        for length in self._longest_suffixes:
            # A wildcard stands for at least one character.
            if length < len(authority) and (found := self._suffixes.get(authority[-length:])) is not None:
                return found
        for length in self._longest_prefixes:
            if length < len(authority) and (found := self._prefixes.get(authority[:length])) is not None:
                return found
        return self._exact.get(_ANY)


class Routes:
    """The route table in force; listeners have this, so that the table can be replaced under them."""

    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table = RouteTable()
