"""The connections to one host when each is for the name of one service: TLS without a fixed SNI.

A connection that was opened for one name must not carry a request for another, which the host's certificate may not be
for; so each name has a pool of its own, as in Envoy, whose pools are kept by transport socket options.
"""

from collections.abc import Callable
from ipaddress import ip_address

from proxy.config.cluster_config import ClusterConfig
from proxy.upstream.connection_pool import ConnectionPool
from proxy.upstream.stream import PoolClient

# Clients choose the names; beyond this many, pools without connections are let go.
_POOLS_BEFORE_CLEANUP = 64


class NamedPools:
    """One host's pools by server name; stands where a `ConnectionPool` does.

    Args:
        config: The cluster's.
        make_pool: Makes the pool for a name, in the clear case of letters.
    """

    __slots__ = ("_config", "_make_pool", "_pools", "_retired")

    def __init__(self, config: ClusterConfig, make_pool: Callable[[str], ConnectionPool]) -> None:
        self._config = config
        self._make_pool = make_pool
        self._pools: dict[str, ConnectionPool] = {}
        self._retired = False

    @property
    def config(self) -> ClusterConfig:
        """The cluster's configuration; a new one holds for all pools."""
        return self._config

    @config.setter
    def config(self, config: ClusterConfig) -> None:
        self._config = config
        for pool in self._pools.values():
            pool.config = config

    def new_stream(self, client: PoolClient) -> None:
        """Give `client` a stream of the pool for its authority."""
        name = server_name(client.authority)
        pool = self._pools.get(name)
        if pool is None:
            if len(self._pools) >= _POOLS_BEFORE_CLEANUP:
                self._pools = {known: pool for known, pool in self._pools.items() if not pool.empty}
            pool = self._pools[name] = self._make_pool(name)
            pool.config = self._config
            if self._retired:
                pool.retire()
        pool.new_stream(client)

    def cancel(self, client: PoolClient) -> None:
        """Take a waiting client out."""
        self._pools[server_name(client.authority)].cancel(client)

    def drain(self) -> None:
        """Close idle connections now and busy ones when their request is done."""
        for pool in self._pools.values():
            pool.drain()

    def retire(self) -> None:
        """Drain for good, pools of names to come included."""
        self._retired = True
        for pool in self._pools.values():
            pool.retire()

    def close(self) -> None:
        """Close everything at once; requests in flight are reset."""
        for pool in self._pools.values():
            pool.close()


def server_name(authority: bytes) -> str:
    """Return the host of an authority, without its port, in lower case.

    >>> server_name(b"Example.com:443"), server_name(b"[::1]:443")
    ('example.com', '::1')
    """
    text = authority.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return text.partition(":")[0]
