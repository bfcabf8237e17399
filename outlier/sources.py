"""Where time and chance come from: the engine has neither.

Every clock reading and every random number enters through these two protocols, so a run is a function of its inputs.
Counterparts of `TimeSource` (Envoy, envoy/common/time.h) and `RandomGenerator` (envoy/common/random_generator.h).
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

_MASK_64 = (1 << 64) - 1


@runtime_checkable
class TimeSource(Protocol):
    """A monotonic clock for decisions and a wall clock for the timestamps of events; both in milliseconds."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary moment; never decreases."""

    def system_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""


@runtime_checkable
class RandomGenerator(Protocol):
    """A source of random numbers."""

    def random(self) -> int:
        """Return a uniform 64-bit unsigned number, 0..2**64-1."""


class SimulatedTime:
    """A clock that moves only when it is told to.

    Args:
        now_ms: First reading of the monotonic clock.
        epoch_ms: Reading of the wall clock when the monotonic clock shows 0.
    """

    __slots__ = ("_now_ms", "epoch_ms")

    def __init__(self, now_ms: int = 0, *, epoch_ms: int = 0) -> None:
        self._now_ms = now_ms
        self.epoch_ms = epoch_ms

    def __repr__(self) -> str:
        return f"SimulatedTime({self._now_ms} ms)"

    def monotonic_ms(self) -> int:
        """Return the simulated monotonic time."""
        return self._now_ms

    def system_ms(self) -> int:
        """Return the simulated wall clock."""
        return self.epoch_ms + self._now_ms

    def advance(self, ms: int) -> None:
        """Move on by `ms`, 0 or more.

        Raises:
            ValueError: `ms` is negative.
        """
        if ms < 0:
            raise ValueError(f"time cannot go back by {-ms} ms")
        self._now_ms += ms

    def set_ms(self, now_ms: int) -> None:
        """Jump to an absolute reading, backwards too: Envoy's own tests replay one moment several times."""
        self._now_ms = now_ms


class SeededRandom:
    """The same numbers for the same seed on every platform and Python (SplitMix64).

    Reference: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

    >>> SeededRandom(1).random() == SeededRandom(1).random()
    True
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int = 0) -> None:
        self._state = seed & _MASK_64

    def random(self) -> int:
        """Return the next 64-bit number."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK_64
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK_64
        return mixed ^ (mixed >> 31)


class ListedRandom:
    """Returns the given numbers in order, then 0 for ever: what a scenario's `randoms` asks for."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._values = iter(tuple(values))

    def random(self) -> int:
        """Return the next listed number, 0 when the list is used up."""
        return next(self._values, 0)
