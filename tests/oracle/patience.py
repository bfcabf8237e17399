"""Compares at times that fit the machine: what differs is compared again, with longer ones.

A machine that stands still for a second or two lets a time of one proxy run out, and none of the other. A true
difference is there at every scale.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Case = TypeVar("Case")
Seen = TypeVar("Seen")

# How many times as long times are: an idle machine, a busy one, one that stands still for seconds.
SCALES = (1, 4, 12)


def equal(_case: object, pair: tuple[object, object]) -> bool:
    """Whether both of a pair saw the same."""
    return pair[0] == pair[1]


def patiently(
    cases: Sequence[Case], observe: Callable[[Sequence[Case], int], Sequence[Seen]], agree: Callable[[Case, Seen], bool]
) -> list[Seen]:
    """Return what is seen of each case, in order; of those that do not agree, at the longest times.

    Args:
        cases: What to compare.
        observe: Returns what is seen of some cases at a scale, in their order.
        agree: Whether that shows no difference.
    """
    seen: dict[int, Seen] = {}
    doubtful = list(range(len(cases)))
    for scale in SCALES:
        seen |= zip(doubtful, observe([cases[number] for number in doubtful], scale), strict=True)
        doubtful = [number for number in doubtful if not agree(cases[number], seen[number])]
        if not doubtful:
            break
    return [seen[number] for number in range(len(cases))]
