"""Pings that show whether the host of an HTTP/2 connection is still there.

A ping goes out an interval after the last one was answered; no answer within the timeout ends the connection. Ports the
keepalive timers of `Http2::ConnectionImpl` (Envoy, source/common/http/http2/codec_impl.cc).
"""

import asyncio
from collections.abc import Callable

from outlier import RandomGenerator

# Envoy's `interval_jitter`: connections that were opened together shall not ping together for ever.
_JITTER_PERCENT = 15

_PAYLOAD = b"outlier "


class Http2Keepalive:
    """The timers of one connection.

    Args:
        loop: The event loop.
        random: Lengthens each interval by up to 15 %.
        interval_ms: Between an answer and the next ping.
        timeout_ms: For the answer.
        ping: Sends one.
        on_timeout: The host has not answered.
    """

    __slots__ = ("_interval_ms", "_loop", "_on_timeout", "_ping", "_random", "_send", "_timeout", "_timeout_ms")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: RandomGenerator,
        *,
        interval_ms: int,
        timeout_ms: int,
        ping: Callable[[bytes], None],
        on_timeout: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._random = random
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._ping = ping
        self._on_timeout = on_timeout
        self._send: asyncio.TimerHandle | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self.start()

    def start(self) -> None:
        """Wait for the next ping: the connection is new, or the last ping is answered."""
        self.stop()
        jitter_ms = _JITTER_PERCENT * self._interval_ms // 100
        wait_ms = self._interval_ms + (self._random.random() % jitter_ms if jitter_ms else 0)
        self._send = self._after(wait_ms, self._on_interval)

    def stop(self) -> None:
        """Send and await nothing any more."""
        for timer in (self._send, self._timeout):
            if timer is not None:
                timer.cancel()
        self._send = self._timeout = None

    def on_data(self) -> None:
        """Something has come: a host that sends is given the whole time again, as in Envoy."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._await_answer()

    def _on_interval(self) -> None:
        self._send = None
        self._ping(_PAYLOAD)
        self._await_answer()

    def _await_answer(self) -> None:
        self._timeout = self._after(self._timeout_ms, self._on_timeout)

    def _after(self, wait_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_at(self._loop.time() + wait_ms / 1000, callback)
