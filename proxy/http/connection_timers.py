"""How long a client's connection may last, wait, and take over a head; and what follows.

Nothing is set or cleared with a request: a connection notes when it was last active, and one deadline looks now and
then. Ports the timers of `ConnectionManagerImpl` (Envoy, source/common/http/conn_manager_impl.cc).
"""

from typing import Protocol

from proxy.config.listener_options import ListenerOptions
from proxy.deadlines import Deadlines
from proxy.http.stats import HttpStats
from proxy.router.local_reply import REQUEST_HEADER_TIMEOUT, LocalReply

# From the first byte of a request's head to its last. Envoy has no such limit unless told; a client that sends a byte
# now and then would hold a connection for ever.
REQUEST_HEAD_TIMEOUT_MS = 60_000

# Envoy's drain_timeout: a connection that is to end is still served for so long, since a request may be on its way.
DRAIN_TIMEOUT_MS = 5_000

# A look that finds time left comes again after one of a few lengths, each a quarter of the one before: `Deadlines` has
# a queue for each length.
_STEP = 4


class TimedConnection(Protocol):
    """What the timers look at, and end."""

    keep_alive: bool
    closing: bool
    started_at: float  # 0 before the first request

    @property
    def active_at(self) -> float:
        """When bytes passed last, in `Deadlines.time`."""

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""

    def close_when_idle(self) -> None:
        """Close now, or behind the response under way."""

    def abort(self) -> None:
        """Close at once, whatever is unsent."""

    def end_idle_request(self) -> None:
        """End the request under way: neither side sends anything of it."""

    def answer_and_close(self, reply: LocalReply) -> None:
        """Answer what never became a request."""


class ConnectionTimers:
    """The timers of one connection, from `start` to `stop`.

    `active_at` of the connection is in `Deadlines.time`; `watching_head` says that the clock of a head runs.
    """

    __slots__ = ("_connection", "_deadlines", "_look_ms", "_options", "_shortest_ms", "_stats", "watching_head")

    def __init__(
        self, connection: TimedConnection, deadlines: Deadlines, options: ListenerOptions, stats: HttpStats
    ) -> None:
        self._connection = connection
        self._deadlines = deadlines
        self._options = options
        self._stats = stats
        limits = [ms for ms in (options.idle_timeout_ms, options.stream_idle_timeout_ms) if ms]
        # No state can be over sooner than that, whichever begins meanwhile.
        self._shortest_ms = min(limits, default=0)
        self._look_ms = 0
        self.watching_head = False

    def start(self) -> None:
        """The connection is open."""
        self._look_after(self._shortest_ms)
        if self._options.max_connection_duration_ms:
            self._deadlines.set(self._on_max_duration, self._options.max_connection_duration_ms)

    def turn_head(self) -> None:
        """Start or stop the clock of an incomplete head; further bytes of it do not start it anew."""
        self.watching_head = not self.watching_head
        turn = self._deadlines.set if self.watching_head else self._deadlines.clear
        turn(self._on_head_timeout, REQUEST_HEAD_TIMEOUT_MS)

    def stop(self) -> None:
        """The connection is gone."""
        self._shortest_ms = 0
        deadlines = self._deadlines
        deadlines.clear(self._look, self._look_ms)
        deadlines.clear(self._on_max_duration, self._options.max_connection_duration_ms)
        deadlines.clear(self._connection.close_when_idle, DRAIN_TIMEOUT_MS)
        deadlines.clear(self._on_head_timeout, REQUEST_HEAD_TIMEOUT_MS)

    def _look_after(self, timeout_ms: int) -> None:
        self._look_ms = timeout_ms
        if timeout_ms:
            self._deadlines.set(self._look, timeout_ms)

    def _look(self) -> None:
        """See whether the connection has been idle too long, or how much longer it may be."""
        if not self._shortest_ms:
            return  # stopped in the same sweep
        connection, options = self._connection, self._options
        busy = connection.busy
        limit_ms = options.stream_idle_timeout_ms if busy else options.idle_timeout_ms
        look_ms = self._shortest_ms
        left_ms = limit_ms - round((self._deadlines.time() - connection.active_at) * 1000)
        while limit_ms and 0 < left_ms < look_ms:
            look_ms = max(1, look_ms // _STEP)
        self._look_after(look_ms)
        if limit_ms and left_ms <= 0:
            if busy:
                self._stats.downstream_rq_idle_timeout += 1
                connection.end_idle_request()
            elif connection.closing:
                connection.abort()  # its client does not take what is left
            elif connection.keep_alive:
                self._stats.downstream_cx_idle_timeout += 1
                self._start_drain()

    def _on_max_duration(self) -> None:
        if self._connection.keep_alive and not self._connection.closing:
            self._stats.downstream_cx_max_duration_reached += 1
            self._start_drain()

    def _start_drain(self) -> None:
        """Let one more request be served, which may be on its way; end at once where there never was one."""
        connection = self._connection
        if connection.started_at:
            connection.keep_alive = False
            self._deadlines.set(connection.close_when_idle, DRAIN_TIMEOUT_MS)
        else:
            connection.close_when_idle()

    def _on_head_timeout(self) -> None:
        connection = self._connection
        if connection.busy:  # the half head is behind a request; its time begins when that is done
            self._deadlines.set(self._on_head_timeout, REQUEST_HEAD_TIMEOUT_MS)
            return
        self.watching_head = False
        if not connection.closing:
            self._stats.downstream_rq_header_timeout += 1
            connection.answer_and_close(REQUEST_HEADER_TIMEOUT)
