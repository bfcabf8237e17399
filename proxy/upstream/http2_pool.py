"""The HTTP/2 connections to one host: many requests on few of them.

A request goes to a connection that can take one more; another connection is opened only for requests that wait beyond
what those being opened will carry. A connection takes requests from the moment it is open, before the host has said how
many it wants, as in Envoy. Ports `Http2::ConnPoolImpl` and `MultiplexedActiveClientBase` on `ConnPoolImplBase` (Envoy,
source/common/http/http2/conn_pool.cc, source/common/http/conn_pool_base.cc, source/common/conn_pool/conn_pool_base.cc).
"""

import asyncio
import ssl
from collections.abc import Callable

from outlier import RandomGenerator
from proxy.codec.http2_options import Http2Stats
from proxy.config.cluster_config import ClusterConfig, Http2Options
from proxy.deadlines import Deadlines
from proxy.upstream.connection_pool import ConnectAttempt, ConnectionPool
from proxy.upstream.host import Host
from proxy.upstream.http2_connection import Http2Connection
from proxy.upstream.http2_keepalive import Http2Keepalive
from proxy.upstream.pooled_connection import PooledConnection
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.stream import PoolClient
from proxy.upstream.tls import UpstreamTlsSocket

DEFAULT_CONCURRENT_STREAMS = 1_024  # Envoy's, on one connection

# Envoy's `DEFAULT_MAX_STREAMS`: a connection has numbers for twice as many, and is replaced long before they run out.
MAX_REQUESTS = 1 << 29

_DEFAULTS = Http2Options()


class Http2Pool(ConnectionPool):
    """All connections of one host, in HTTP/2.

    `http2_stats` counts for the cluster, `random` spreads pings; the rest is as for `ConnectionPool`.
    """

    __slots__ = ("_random", "_ready", "http2_stats")

    def __init__(
        self,
        host: Host,
        config: ClusterConfig,
        *,
        resources: ResourceManager,
        stats: ClusterStats,
        http2_stats: Http2Stats,
        deadlines: Deadlines,
        loop: asyncio.AbstractEventLoop,
        random: RandomGenerator,
        tls: UpstreamTlsSocket | None = None,
        server_name: str = "",
    ) -> None:
        super().__init__(
            host,
            config,
            resources=resources,
            stats=stats,
            deadlines=deadlines,
            loop=loop,
            tls=tls,
            server_name=server_name,
        )
        self.http2_stats = http2_stats
        self._random = random
        self._ready: list[Http2Connection] = []  # can take one more request; the last to become so is first

    @property
    def max_concurrent_streams(self) -> int:
        """How many requests we put on a connection at once, if the host allows as many."""
        return self._options.max_concurrent_streams or DEFAULT_CONCURRENT_STREAMS

    def new_stream(self, client: PoolClient) -> None:
        """Give `client` a stream: at once, later, or never; it hears which."""
        if self._ready:
            self._assign(self._ready[0], client)
        else:
            self._wait(client)

    def drain(self) -> None:
        """Close idle connections now and busy ones when their requests are done."""
        self._ready.clear()
        super().drain()

    # Called by connections

    def on_connection_free(self, connection: PooledConnection) -> None:
        """A connection is open: it takes those that wait; one that is opened for them alone takes no others."""
        assert isinstance(connection, Http2Connection)
        draining, connection.draining = connection.draining, False
        self._ready.insert(0, connection)
        self._serve_pending()
        if draining:
            connection.draining = True
            self.on_capacity(connection)
        if not connection.busy:
            self._keep(connection)

    def new_keepalive(self, ping: Callable[[bytes], None], on_timeout: Callable[[], None]) -> Http2Keepalive | None:
        """Return the pings of a new connection; None if the cluster wants none."""
        interval_ms, timeout_ms = self._options.keepalive_interval_ms, self._options.keepalive_timeout_ms
        if not interval_ms or not timeout_ms:
            return None
        return Http2Keepalive(
            self.loop,
            self._random,
            interval_ms=interval_ms,
            timeout_ms=timeout_ms,
            ping=ping,
            on_timeout=on_timeout,
        )

    def on_capacity(self, connection: Http2Connection) -> None:
        """What the connection can take may have changed."""
        ready = connection in self._ready
        if connection.has_capacity:
            if not ready:
                self._ready.insert(0, connection)
                self._serve_pending()
        elif ready:
            self._ready.remove(connection)

    def on_stream_closed(self, connection: Http2Connection) -> None:
        """A request has left its connection, which may take another."""
        self.on_request_done()
        self.on_capacity(connection)
        if not connection.busy:
            self._keep(connection)

    def on_attached(self, connection: Http2Connection) -> None:
        """A connection has taken a request."""
        if connection in self._idle:
            self._idle.remove(connection)
        if connection.requests >= (self.config.max_requests_per_connection or MAX_REQUESTS):
            self.stats.upstream_cx_max_requests += 1
            connection.draining = True
        self.on_capacity(connection)

    def on_connection_closed(self, connection: PooledConnection, *, remote: bool, busy: bool) -> None:
        """A connection is gone; `busy` says that its end reset requests."""
        if connection in self._ready:
            self._ready.remove(connection)
        super().on_connection_closed(connection, remote=remote, busy=busy)

    def _serve_pending(self) -> None:
        """Give those that wait to the connections that can take them, the oldest first."""
        while self._pending and self._ready:
            client = self._pending.popleft()
            self._count_pending(-1)
            self._assign(self._ready[0], client)

    @property
    def _options(self) -> Http2Options:
        return self.config.h2_upstream or _DEFAULTS

    def _new_connection(self, attempt: ConnectAttempt) -> asyncio.Protocol:
        return Http2Connection(self, attempt)

    def _ssl_context(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.http2_context()

    def _connecting_capacity(self) -> int:
        limit = self.config.max_requests_per_connection or MAX_REQUESTS
        return len(self._attempts) * min(self.max_concurrent_streams, limit)

    def _count_protocol(self) -> None:
        self.stats.upstream_cx_http2_total += 1
