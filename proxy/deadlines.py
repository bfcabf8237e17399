"""Timeouts of thousands of requests behind one timer of the event loop.

Timeouts come in few different lengths, so each length has a queue that is in order by itself; setting and clearing
one is a dictionary operation, and the loop's timer is touched only when something really expires or a shorter timeout
appears.
"""

import asyncio
from collections.abc import Callable

Callback = Callable[[], None]


class Deadlines:
    """Calls back after a time in milliseconds, unless cleared before.

    A callback is identified by equality (a bound method equals itself), so one object can hold several timeouts
    through several methods; setting one that is set starts it anew only if the length is the same, so clear it first.
    When several expire in one sweep, all are called, even one that another of them cleared: an owner checks its own
    state. `time` is the clock, in seconds.
    """

    __slots__ = ("_due", "_loop", "_queues", "_timer", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.time = loop.time
        self._queues: dict[int, dict[Callback, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer fires

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def set(self, callback: Callback, timeout_ms: int) -> None:
        """Call `callback` once, `timeout_ms` from now."""
        due = self._loop.time() + timeout_ms / 1000
        queue = self._queues.get(timeout_ms)
        if queue is None:
            queue = self._queues[timeout_ms] = {}
        queue[callback] = due
        if self._timer is None or due < self._due:
            self._arm(due)

    def clear(self, callback: Callback, timeout_ms: int) -> None:
        """Forget `callback`, set with that length; nothing happens if it is not set."""
        queue = self._queues.get(timeout_ms)
        if queue is not None and queue.pop(callback, None) is not None and not queue:
            del self._queues[timeout_ms]  # a length that a client chose may never come again

    def close(self) -> None:
        """Forget everything."""
        self._queues.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._sweep)

    def _sweep(self) -> None:
        """Call back what is due, and arm for the next."""
        self._timer = None
        now = self._loop.time() + 0.0005  # a timer may fire a fraction of a millisecond early
        expired: list[Callback] = []
        earliest = None
        for timeout_ms, queue in tuple(self._queues.items()):
            count = len(expired)
            for callback, due in queue.items():
                if due > now:
                    earliest = due if earliest is None else min(earliest, due)
                    break
                expired.append(callback)
            for callback in expired[count:]:
                del queue[callback]
            if not queue:
                del self._queues[timeout_ms]
        if earliest is not None:
            self._arm(earliest)
        for callback in expired:
            callback()
