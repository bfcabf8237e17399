"""Successes and totals of the running interval and of the last complete one.

Ports `SuccessRateAccumulator` and `SuccessRateMonitor` (Envoy, source/common/upstream/outlier_detection_impl.h).
"""


class SuccessRateAccumulator:
    """One host's results of one origin.

    Attributes:
        success: Successes in the running interval.
        total: Results in the running interval.
        last_success: Successes in the last complete interval.
        last_total: Results in the last complete interval.
        success_rate: The last complete interval's rate, 0-100, as `/clusters` shows it; -1 when the volume was too
            small.
    """

    __slots__ = ("last_success", "last_total", "success", "success_rate", "total")

    def __init__(self) -> None:
        self.success = 0
        self.total = 0
        self.last_success = 0
        self.last_total = 0
        self.success_rate = -1.0

    def roll(self) -> None:
        """End the running interval: it becomes the last complete one, and no rate is known for it yet."""
        self.last_success = self.success
        self.last_total = self.total
        self.success = 0
        self.total = 0
        self.success_rate = -1.0
