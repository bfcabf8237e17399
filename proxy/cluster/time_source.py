"""The event loop's clock as the detector's and the balancer's `TimeSource`."""

import asyncio
import time


class LoopTime:
    """Monotonic time of a loop, wall time of the system; both in milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ms(self) -> int:
        """Milliseconds on the loop's monotonic clock."""
        return int(self._loop.time() * 1000)

    def system_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000
