"""Whose turn it is to be pushed to: one entry per connection, one push per connection at a time.

Ports `PushQueue` (Istio, pilot/pkg/xds/pushqueue.go). A connection that is being pushed to gathers what comes into one
request, and goes to the tail when its push ends.
"""

import enum
import os
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from proxy.push.request import PushRequest, merge

_MAX_THROTTLE = 100
_THROTTLE_BASE, _THROTTLE_PER_CORE = 15, 5

ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class Shutdown(enum.Enum):
    """What a queue that was shut down hands out once it is empty."""

    SHUTDOWN = "shutdown"


def push_throttle(cores: int | None = None) -> int:
    """Return how many connections may be pushed to at the same time (PILOT_PUSH_THROTTLE's default).

    >>> push_throttle(2)
    25
    """
    return min(_THROTTLE_BASE + _THROTTLE_PER_CORE * (cores or os.cpu_count() or 1), _MAX_THROTTLE)


class PushQueue(Generic[ConnectionT]):
    """Connections that wait for a push, and those that are being pushed to."""

    def __init__(self) -> None:
        self._pending: OrderedDict[ConnectionT, PushRequest] = OrderedDict()
        self._processing: dict[ConnectionT, PushRequest | None] = {}
        self._shut_down = False

    def __len__(self) -> int:
        return len(self._pending)

    def enqueue(self, connection: ConnectionT, request: PushRequest) -> None:
        """Let a connection wait; one that waits already keeps its place."""
        if self._shut_down:
            return
        if connection in self._processing:
            self._processing[connection] = merge(self._processing[connection], request)
        else:
            merged = merge(self._pending.get(connection), request)
            assert merged is not None
            self._pending[connection] = merged

    def dequeue(self) -> tuple[ConnectionT, PushRequest] | Shutdown | None:
        """Return whose turn it is and for what; None when nobody waits. `mark_done` must follow."""
        if not self._pending:
            return Shutdown.SHUTDOWN if self._shut_down else None
        connection, request = self._pending.popitem(last=False)
        self._processing[connection] = None
        return connection, request

    def mark_done(self, connection: ConnectionT) -> None:
        """Note that the push to a connection ended; what came meanwhile waits at the tail."""
        gathered = self._processing.pop(connection, None)
        if gathered is not None:
            self._pending[connection] = gathered

    def shutdown(self) -> None:
        """Take nothing more; what waits is still handed out."""
        self._shut_down = True
