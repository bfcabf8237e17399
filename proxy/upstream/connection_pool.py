"""The connections to one host: idle ones, busy ones, and requests that wait for one.

A waiting request gets the first connection that is free, new or returned. The pool opens connections, times their
connecting, and closes them; it does not choose hosts and charges nobody. Ports Envoy's `Http1::ConnPoolImpl` on
`ConnPoolImplBase`.
"""

import asyncio
import os
import ssl
from collections import deque

from proxy.config.cluster_config import ClusterConfig
from proxy.deadlines import Deadlines
from proxy.upstream.connecting import connect
from proxy.upstream.connection import UpstreamConnection
from proxy.upstream.host import Host
from proxy.upstream.pooled_connection import PooledConnection
from proxy.upstream.resource_manager import ResourceManager
from proxy.upstream.stats import ClusterStats
from proxy.upstream.stream import PoolClient, ResetReason
from proxy.upstream.tls import TlsUnavailableError, UpstreamTlsSocket, failure_reason


class ConnectAttempt:
    """One connection being opened."""

    __slots__ = ("_pool", "draining", "started", "task", "timeout_ms")

    def __init__(self, pool: "ConnectionPool") -> None:
        self._pool = pool
        self.draining = False  # the connection is for the requests that wait now, and for none to come
        self.started = pool.loop.time()
        self.timeout_ms = pool.config.connect_timeout_ms
        self.task = pool.loop.create_task(pool.open(self))

    def on_timeout(self) -> None:
        """Give up."""
        self._pool.on_connect_timeout(self)


class ConnectionPool:
    """All connections of one host, in HTTP/1.1; `Http2Pool` is the same in HTTP/2.

    `config` is the cluster's; a new one may be set at any time and holds for what happens from then on. `tls` secures
    every connection, asking for `server_name`; None is plain text.
    """

    __slots__ = (
        "_attempts",
        "_connections",
        "_idle",
        "_pending",
        "_resources",
        "_retired",
        "_server_name",
        "_sweep_timeout_ms",
        "_tls",
        "config",
        "deadlines",
        "host",
        "loop",
        "stats",
    )

    def __init__(
        self,
        host: Host,
        config: ClusterConfig,
        *,
        resources: ResourceManager,
        stats: ClusterStats,
        deadlines: Deadlines,
        loop: asyncio.AbstractEventLoop,
        tls: UpstreamTlsSocket | None = None,
        server_name: str = "",
    ) -> None:
        self.host = host
        self.config = config
        self.loop = loop
        self.stats = stats
        self._resources = resources
        self.deadlines = deadlines
        self._tls = tls
        self._server_name = server_name
        self._connections: set[PooledConnection] = set()
        self._idle: list[PooledConnection] = []  # the one used last is at the end and is used next
        self._pending: deque[PoolClient] = deque()
        self._attempts: set[ConnectAttempt] = set()
        self._retired = False
        self._sweep_timeout_ms = 0  # the idle timeout that a sweep is set with; 0 when none is

    @property
    def empty(self) -> bool:
        """Whether there is no connection, no attempt at one, and nobody who waits."""
        return not (self._connections or self._attempts or self._pending)

    def new_stream(self, client: PoolClient) -> None:
        """Give `client` a stream: at once, later, or never; it hears which."""
        if self._idle:
            connection = self._idle.pop()
            if not self._assign(connection, client):
                self._idle.append(connection)
            return
        self._wait(client)

    def _wait(self, client: PoolClient) -> None:
        """Let a client wait for a connection, unless too many do."""
        if not self._resources.can_wait():
            self.stats.upstream_rq_pending_overflow += 1
            client.on_pool_failure(ResetReason.OVERFLOW, "")
            return
        self.stats.upstream_rq_pending_total += 1
        self._count_pending(1)
        self._pending.append(client)
        self._connect_if_needed()

    def cancel(self, client: PoolClient) -> None:
        """Take a waiting client out; the connection it waited for is still opened, for the next one."""
        self._pending.remove(client)
        self._count_pending(-1)
        self.stats.upstream_rq_cancelled += 1

    def drain(self) -> None:
        """Close idle connections now and busy ones when their request is done."""
        for connection in self._connections:
            connection.draining = True
        for attempt in self._attempts:
            attempt.draining = True
        for connection in tuple(self._idle):
            connection.close()

    def retire(self) -> None:
        """Drain for good: the host is gone, and what a late retry opens closes behind it."""
        self._retired = True
        self.drain()

    def close(self) -> None:
        """Close everything at once; requests in flight are reset."""
        for attempt in tuple(self._attempts):
            attempt.task.cancel()
            self._end_attempt(attempt)
            self._count_connection(-1)
        self.drain()
        for connection in tuple(self._connections):
            connection.terminate()

    # Called by connections

    def on_connected(self, connection: PooledConnection, attempt: ConnectAttempt) -> None:
        """A connection is open."""
        self._end_attempt(attempt)
        self.stats.connect_time_ms.record(round((self.loop.time() - attempt.started) * 1000))
        if self._tls is not None:
            self._tls.stats.handshake += 1
        self._connections.add(connection)
        connection.draining = attempt.draining or self._retired
        duration_ms = self.config.max_connection_duration_ms
        if duration_ms:
            connection.max_duration_ms = duration_ms
            self.deadlines.set(connection.on_max_duration, duration_ms)
        self.on_connection_free(connection)

    def on_connection_free(self, connection: PooledConnection) -> None:
        """A connection can carry a request: the oldest waiting one, or one to come."""
        while self._pending:
            client = self._pending.popleft()
            self._count_pending(-1)
            if self._assign(connection, client):
                self._connect_if_needed()
                return
        self._keep(connection)

    def on_request_done(self) -> None:
        """A request has left its connection, one way or the other."""
        self._resources.requests -= 1
        self.host.rq_active -= 1
        self.stats.upstream_rq_active -= 1

    def on_connection_closed(self, connection: PooledConnection, *, remote: bool, busy: bool) -> None:
        """A connection is gone; `busy` says that a request was on it."""
        self._connections.discard(connection)
        if connection.max_duration_ms:
            self.deadlines.clear(connection.on_max_duration, connection.max_duration_ms)
        if connection in self._idle:
            self._idle.remove(connection)
        self._count_connection(-1)
        stats = self.stats
        stats.upstream_cx_destroy += 1
        if remote:
            stats.upstream_cx_destroy_remote += 1
        else:
            stats.upstream_cx_destroy_local += 1
        if busy:
            stats.upstream_cx_destroy_with_active_rq += 1
            if remote:
                stats.upstream_cx_destroy_remote_with_active_rq += 1
            else:
                stats.upstream_cx_destroy_local_with_active_rq += 1
        self._connect_if_needed()

    # Connecting

    async def open(self, attempt: ConnectAttempt) -> None:
        """Open one connection; it, or the failure, is reported to the pool."""
        try:
            await connect(
                self.loop,
                lambda: self._new_connection(attempt),
                self.host.address,
                alternates=self.host.endpoint.alternates,
                tls=self._ssl_context(),
                server_name=self._server_name,
                keepalive=self.config.tcp_keepalive,
                timeout_ms=attempt.timeout_ms,
            )
        except OSError as error:
            if self._tls is not None and isinstance(error, ssl.SSLError):
                self._tls.stats.count_failure(error)
            if attempt in self._attempts:  # or the host has closed a connection that was there
                self._fail_attempt(attempt, ResetReason.CONNECTION_FAILURE, _reason(error))
        except Exception:  # a fault of ours, which asyncio tells of; nobody waits for it
            if attempt in self._attempts:
                self._fail_attempt(attempt, ResetReason.CONNECTION_FAILURE, "")
            raise

    def on_connect_timeout(self, attempt: ConnectAttempt) -> None:
        """The host did not answer in time."""
        if attempt in self._attempts:
            attempt.task.cancel()
            self.stats.upstream_cx_connect_timeout += 1
            self._fail_attempt(attempt, ResetReason.CONNECTION_TIMEOUT, f"no answer in {attempt.timeout_ms} ms")

    def _new_connection(self, attempt: ConnectAttempt) -> asyncio.Protocol:
        """Return the protocol of a connection that is being opened."""
        return UpstreamConnection(self, attempt)

    def _ssl_context(self) -> ssl.SSLContext | None:
        """Return what secures a new connection."""
        return None if self._tls is None else self._tls.context()

    def _connecting_capacity(self) -> int:
        """Return how many requests the connections that are being opened can carry."""
        return len(self._attempts)

    def _count_protocol(self) -> None:
        """Count a connection by what it speaks."""
        self.stats.upstream_cx_http1_total += 1

    def _connect_if_needed(self) -> None:
        """Open connections for waiting requests, as far as the breaker allows; one per host always."""
        while len(self._pending) > self._connecting_capacity():
            if not self._resources.can_connect():
                self.stats.upstream_cx_overflow += 1
                if self._connections or self._attempts:
                    return
            self.stats.upstream_cx_total += 1
            self._count_protocol()
            self.host.cx_total += 1
            self._count_connection(1)
            attempt = ConnectAttempt(self)
            self._attempts.add(attempt)
            self.deadlines.set(attempt.on_timeout, attempt.timeout_ms)

    def _end_attempt(self, attempt: ConnectAttempt) -> None:
        self._attempts.discard(attempt)
        self.deadlines.clear(attempt.on_timeout, attempt.timeout_ms)

    def _fail_attempt(self, attempt: ConnectAttempt, reason: ResetReason, detail: str) -> None:
        """Fail every waiting request: a retry of one may put it back, and must not be failed with the rest."""
        self._end_attempt(attempt)
        self._count_connection(-1)
        stats = self.stats
        stats.upstream_cx_connect_fail += 1
        stats.upstream_cx_destroy += 1
        if reason is ResetReason.CONNECTION_TIMEOUT:
            stats.upstream_cx_destroy_local += 1
        else:
            stats.upstream_cx_destroy_remote += 1
        self.host.cx_connect_fail += 1
        clients, self._pending = self._pending, deque()
        self._count_pending(-len(clients))
        stats.upstream_rq_pending_failure_eject += len(clients)
        for client in clients:
            client.on_pool_failure(reason, detail)

    def _assign(self, connection: PooledConnection, client: PoolClient) -> bool:
        """Give a free connection to a request, unless too many are in flight; return whether it was given."""
        resources = self._resources
        stats = self.stats
        if resources.requests >= resources.limits.max_requests:
            stats.upstream_rq_active_overflow += 1
            client.on_pool_failure(ResetReason.OVERFLOW, "")
            return False
        resources.requests += 1
        host = self.host
        host.rq_active += 1
        host.rq_total += 1
        stats.upstream_rq_active += 1
        stats.upstream_rq_total += 1
        client.on_pool_ready(connection.attach(client))
        return True

    def _keep(self, connection: PooledConnection) -> None:
        """Let a free connection wait for a request to come, as long as it may be idle."""
        if connection.draining:
            connection.close()
            return
        timeout_ms = self.config.idle_timeout_ms
        if timeout_ms:
            connection.idle_since = self.loop.time()
            if not self._sweep_timeout_ms:
                self._sweep_timeout_ms = timeout_ms
                self.deadlines.set(self._sweep_idle, timeout_ms)
        self._idle.append(connection)

    def _sweep_idle(self) -> None:
        """Close connections that were idle too long; set the next sweep for the one that is due first."""
        self._sweep_timeout_ms = 0
        timeout_ms = self.config.idle_timeout_ms
        if not timeout_ms:
            return
        oldest_allowed = self.loop.time() - timeout_ms / 1000 + 0.001
        for connection in [c for c in self._idle if c.idle_since <= oldest_allowed]:
            self.stats.upstream_cx_idle_timeout += 1
            connection.close()
        if self._idle:
            left_ms = round((self._idle[0].idle_since - oldest_allowed) * 1000)
            self._sweep_timeout_ms = max(1, left_ms)
            self.deadlines.set(self._sweep_idle, self._sweep_timeout_ms)

    def _count_pending(self, change: int) -> None:
        self._resources.pending_requests += change
        self.stats.upstream_rq_pending_active += change
        self.host.rq_pending_active += change

    def _count_connection(self, change: int) -> None:
        self._resources.connections += change
        self.stats.upstream_cx_active += change
        self.host.cx_active += change


def _reason(error: OSError) -> str:
    """Return why no connection could be had, as Envoy says it; empty when nobody knows more."""
    if isinstance(error, ssl.SSLError):
        return failure_reason(error)
    if isinstance(error, TlsUnavailableError):
        return f"TLS error: {error}"
    if error.errno is None or error.errno <= 0:
        return ""  # the host has gone in the middle of a handshake
    # The operating system's words: asyncio's own loop puts others into `strerror`.
    return f"delayed_connect_error: {os.strerror(error.errno)}"
