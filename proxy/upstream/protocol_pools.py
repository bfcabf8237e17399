"""The connections to one host of a cluster that speaks as its clients do: some HTTP/1.1, some HTTP/2.

Ports the choice of `ClusterInfoImpl::upstreamHttpProtocol` with `use_downstream_protocol_config` (Envoy,
source/common/upstream/upstream_impl.cc).
"""

from proxy.config.cluster_config import ClusterConfig
from proxy.upstream.connection_pool import ConnectionPool
from proxy.upstream.named_pools import NamedPools
from proxy.upstream.stream import PoolClient

Pool = ConnectionPool | NamedPools


class ProtocolPools:
    """One host's pools by protocol; stands where a `ConnectionPool` does."""

    __slots__ = ("_http1", "_http2")

    def __init__(self, http1: Pool, http2: Pool) -> None:
        self._http1 = http1
        self._http2 = http2

    @property
    def config(self) -> ClusterConfig:
        """The cluster's configuration; a new one holds for both."""
        return self._http1.config

    @config.setter
    def config(self, config: ClusterConfig) -> None:
        self._http1.config = self._http2.config = config

    def new_stream(self, client: PoolClient) -> None:
        """Give `client` a stream of the protocol that its request came in."""
        self._pool(client).new_stream(client)

    def cancel(self, client: PoolClient) -> None:
        """Take a waiting client out."""
        self._pool(client).cancel(client)

    def drain(self) -> None:
        """Close idle connections now and busy ones when their requests are done."""
        self._http1.drain()
        self._http2.drain()

    def retire(self) -> None:
        """Drain for good."""
        self._http1.retire()
        self._http2.retire()

    def close(self) -> None:
        """Close everything at once; requests in flight are reset."""
        self._http1.close()
        self._http2.close()

    def _pool(self, client: PoolClient) -> Pool:
        return self._http2 if client.http2 else self._http1
