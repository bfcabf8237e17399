"""Runs the interval timer of one detector.

The detector owns no clock; this arms the loop's timer for its sweeps. One shot, re-armed after the work, as in Envoy:
a changed interval takes effect after the running one, and the work's time is added to the period.
"""

import asyncio
from typing import Protocol

from outlier import Detector


class SweepDriver(Protocol):
    """What fires the sweeps of one detector; a test may have one that keeps another time."""

    def stop(self) -> None:
        """No further sweep."""


class OutlierDriver:
    """Calls `detector.on_interval_timer` until stopped."""

    def __init__(self, detector: Detector, loop: asyncio.AbstractEventLoop) -> None:
        self._detector = detector
        self._loop = loop
        self._timer = self._arm()

    def stop(self) -> None:
        """No further sweep."""
        self._timer.cancel()

    def _arm(self) -> asyncio.TimerHandle:
        return self._loop.call_later(self._detector.interval_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._detector.on_interval_timer()
        self._timer = self._arm()
