"""Weighted order without randomness: earliest deadline first.

Knows entries and weights, not hosts: the policies schedule hosts with it, locality weighting schedules localities.
Ports `EdfScheduler` (Envoy, source/common/upstream/edf_scheduler.h).
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

# Envoy's bound on emulated picks: a tenth of 2^32, so that the products below stay exact enough in doubles.
MAX_PREPICKS = 429_496_729

_WEIGHT_EPSILON = 1e-13  # Envoy's: a quotient that is whole but for rounding must not count as a pick too many


class EdfScheduler(Generic[T]):
    """Picks each entry in proportion to its weight, as evenly as possible; equal deadlines are first in, first out.

    Args:
        entries: What to schedule; at least one.
        weight: Weight of an entry, more than 0. Asked at the start, and again each time the entry has been picked: a
            weight that changes takes effect with the entry's next pick.
        prepicks: How many picks to have made already, taken modulo `MAX_PREPICKS`. From a random number it keeps
            proxies that start together from picking together. Nearly all of them are computed; fewer than one an entry
            are really made.
    """

    __slots__ = ("_heap", "_order", "_weight")

    def __init__(self, entries: Sequence[T], weight: Callable[[T], float], prepicks: int) -> None:
        prepicks %= MAX_PREPICKS
        weights = [weight(entry) + _WEIGHT_EPSILON for entry in entries]
        total = sum(weights)
        picks_per_weight = prepicks / total
        heap: list[tuple[float, int, T]] = []
        left = prepicks
        for order, (entry, entry_weight) in enumerate(zip(entries, weights, strict=True)):
            picks = int(entry_weight * prepicks / total)
            if picks and picks / entry_weight >= picks_per_weight:
                picks -= 1
            left -= picks
            heap.append(((picks + 1) / entry_weight, order, entry))
        heapq.heapify(heap)
        size = len(heap)
        for order in range(size, size + left):  # `pick`, without the call: this may be thousands of them
            deadline, _, entry = heap[0]
            heapq.heapreplace(heap, (deadline + 1.0 / weight(entry), order, entry))
        self._heap = heap
        self._order = size + left
        self._weight = weight

    def pick(self) -> T:
        """Return the entry that is due, and schedule it again by its present weight."""
        heap = self._heap
        deadline, _, entry = heap[0]
        order = self._order
        self._order = order + 1
        heapq.heapreplace(heap, (deadline + 1.0 / self._weight(entry), order, entry))
        return entry
