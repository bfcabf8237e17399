"""A clock for detectors that moves only when a test says so, and fires their sweeps on its way.

Sockets keep real time; only what the detectors and the balancers read stands still. A 30 s ejection is over as soon as
the test has advanced 30 s, however many intervals lie between.
"""

import asyncio

import attrs

from outlier import Detector, SimulatedTime

EPOCH_MS = 946_684_800_000  # the wall clock starts at 2000-01-01T00:00:00Z: logs of a test are recognized, and sort


class SimulatedClock(SimulatedTime):
    """Simulated time with the sweeps of the detectors that are driven by it.

    >>> from outlier import OutlierDetection, SeededRandom
    >>> clock = SimulatedClock()
    >>> settings = OutlierDetection(max_ejection_percent=100)
    >>> detector = Detector(settings, cluster_name="c", time_source=clock, random=SeededRandom(1))
    >>> driver = clock.drive(detector)
    >>> host = detector.add_host("a")
    >>> for _ in range(5):
    ...     host.put_http_response_code(503)
    >>> clock.advance(29_999), host.ejected
    (None, True)
    >>> clock.advance(1), host.ejected
    (None, False)
    """

    __slots__ = ("_driven",)

    def __init__(self, now_ms: int = 0, *, epoch_ms: int = EPOCH_MS) -> None:
        super().__init__(now_ms, epoch_ms=epoch_ms)
        self._driven: list[DrivenDetector] = []

    @property
    def next_sweep_ms(self) -> int | None:
        """Monotonic time of the next sweep of any detector; None without detectors."""
        return min((driven.due_ms for driven in self._driven), default=None)

    def drive(self, detector: Detector, loop: asyncio.AbstractEventLoop | None = None) -> "DrivenDetector":
        """Fire the sweeps of `detector` from now on; the sidecar calls this for each of its clusters, with its loop."""
        driven = DrivenDetector(detector, self, loop)
        self._driven.append(driven)
        return driven

    def advance(self, ms: int) -> None:
        """Move on by `ms`, 0 or more, sweeping at every moment a detector is due, in order of time.

        Raises:
            ValueError: `ms` is negative.
            RuntimeError: A detector belongs to a sidecar that runs in another thread.
        """
        if any(driven.loop is not None and not _runs_here(driven.loop) for driven in self._driven):
            raise RuntimeError("a sidecar on this clock runs in a thread of its own; use its advance() instead")
        end_ms = self.monotonic_ms() + ms
        while self._driven:
            driven = min(self._driven, key=lambda driven: driven.due_ms)
            if driven.due_ms > end_ms:
                break
            super().advance(max(driven.due_ms - self.monotonic_ms(), 0))
            driven.sweep()
        super().advance(end_ms - self.monotonic_ms())

    def forget(self, driven: "DrivenDetector") -> None:
        """No further sweep for that detector."""
        if driven in self._driven:
            self._driven.remove(driven)


@attrs.define(eq=False)
class DrivenDetector:
    """One detector's place on a clock: the sidecar's `SweepDriver`."""

    detector: Detector
    _clock: SimulatedClock
    loop: asyncio.AbstractEventLoop | None
    due_ms: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.due_ms = self.detector.next_sweep_ms

    def sweep(self) -> None:
        """Sweep once. An interval of 0, which a runtime override can set, is 1 ms here: time must pass."""
        self.detector.on_interval_timer()
        self.due_ms = max(self.detector.next_sweep_ms, self._clock.monotonic_ms() + 1)

    def stop(self) -> None:
        """No further sweep."""
        self._clock.forget(self)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
