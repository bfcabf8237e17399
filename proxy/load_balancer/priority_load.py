"""How much traffic each priority gets, and whether it panics.

Pure integer arithmetic over host counts; which host gets the traffic belongs to the policies.
Ports `LoadBalancerBase::recalculatePerPriorityState`, `recalculatePerPriorityPanic`, `recalculateLoadInTotalPanic`,
`distributeLoad` and `choosePriority` (Envoy, source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

from collections.abc import Sequence

import attrs

DEFAULT_PANIC_THRESHOLD = 50.0  # Envoy's, in percent; Istio sends 0 with every outlier detection


@attrs.frozen
class LevelCounts:
    """One priority in numbers: hosts, or the sums of their weights. `total` includes `excluded`."""

    total: int
    healthy: int
    degraded: int = 0
    excluded: int = 0


@attrs.frozen
class PriorityLoads:
    """The share of traffic of each priority, index = priority; all but the flags in percent, 0..100.

    `health` and `degraded_health` are what each priority could take. `load` and `degraded_load` are what its healthy
    and its degraded hosts get, and sum to 100 together. They are all 0 in one corner, where an overprovisioning factor
    so small that every availability is truncated to 0 meets hosts above the panic threshold; `choose_priority` then
    answers priority 0. In a panicking priority `load` goes to all hosts.
    """

    health: tuple[int, ...]
    degraded_health: tuple[int, ...]
    normalized_total: int
    load: tuple[int, ...]
    degraded_load: tuple[int, ...]
    panic: tuple[bool, ...]

    @property
    def total_panic(self) -> bool:
        """Whether every priority panics, so that loads follow the number of hosts."""
        return all(self.panic)


def panic_threshold_percent(configured: float | None) -> int:
    """Return the whole percent, 0..100, that Envoy makes of a configured `healthy_panic_threshold`.

    The detour over a fraction is Envoy's and loses one percent for some whole numbers, as 0.29 is less than 29
    hundredths in binary.

    >>> [panic_threshold_percent(value) for value in (None, 50.6, 0.9, 29.0, 57.0)]
    [50, 50, 0, 28, 56]
    """
    percent = DEFAULT_PANIC_THRESHOLD if configured is None else configured
    return min(100, int(100 * (percent / 100.0)))


def priority_loads(
    levels: Sequence[LevelCounts],
    *,
    panic_threshold: int,
    overprovisioning_factor: int,
    weights: Sequence[LevelCounts] | None = None,
) -> PriorityLoads:
    """Return the loads and panic flags of all priorities.

    Args:
        levels: Host counts, one for each priority; at least one.
        panic_threshold: Whole percent, 0..100; 0 disables panic.
        overprovisioning_factor: Percent by which available hosts count for more, 140 in Envoy.
        weights: Sums of host weights that take the place of the counts in the availability
            (`weighted_priority_health`); the panic flags and the loads in total panic follow the counts all the same.
    """
    counted = levels if weights is None else weights
    health = tuple(_availability(level.healthy, level, overprovisioning_factor) for level in counted)
    degraded_health = tuple(_availability(level.degraded, level, overprovisioning_factor) for level in counted)
    normalized_total = min(100, sum(health) + sum(degraded_health))
    load, degraded_load = _distribute(health, degraded_health, normalized_total)
    panic = tuple(normalized_total != 100 and _available_percent(level) < panic_threshold for level in levels)
    if all(panic):
        load, degraded_load = _load_in_total_panic(levels), (0,) * len(levels)
    elif panic_threshold == 0 and normalized_total == 0:
        load = (100,) + (0,) * (
            len(levels) - 1
        )  # nobody can serve: the pick finds an empty list and the request is refused
    return PriorityLoads(health, degraded_health, normalized_total, load, degraded_load, panic)


def panic_reason(level: LevelCounts, *, panic_threshold: int, normalized_total: int) -> str:
    """Return in a sentence why a priority panics or does not."""
    available = f"{level.healthy + level.degraded} of {level.total - level.excluded} hosts available"
    percent = f"{_available_percent(level):.4g} %"
    if panic_threshold == 0:
        return f"{available}; a panic threshold of 0 switches panic off"
    if normalized_total == 100:
        return f"{available}; no panic, since the priorities together can take all traffic"
    if _available_percent(level) < panic_threshold:
        return f"{available}: {percent} is below the panic threshold of {panic_threshold} %, so all hosts are used"
    return f"{available}: {percent} is not below the panic threshold of {panic_threshold} %"


def choose_priority(loads: PriorityLoads, number: int) -> tuple[int, bool]:
    """Return the priority that a hash or random `number` falls to, and whether to its degraded hosts."""
    residue = number % 100 + 1
    accumulated = 0
    for degraded, shares in ((False, loads.load), (True, loads.degraded_load)):
        for priority, share in enumerate(shares):
            accumulated += share
            if residue <= accumulated:
                return priority, degraded
    return 0, False


def _availability(available: int, level: LevelCounts, overprovisioning_factor: int) -> int:
    counted = level.total - level.excluded
    return min(100, overprovisioning_factor * available // counted) if counted > 0 else 0


def _available_percent(level: LevelCounts) -> float:
    counted = level.total - level.excluded
    return 100.0 * level.healthy / counted + 100.0 * level.degraded / counted if counted > 0 else 0.0


def _distribute(
    health: tuple[int, ...], degraded_health: tuple[int, ...], normalized_total: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give 100 to the healthy of all priorities, then to the degraded, and the rest to the first available."""
    load, degraded_load = [0] * len(health), [0] * len(health)
    if normalized_total == 0:
        return tuple(load), tuple(degraded_load)
    left = 100
    for shares, availability in ((load, health), (degraded_load, degraded_health)):
        for priority, available in enumerate(availability):
            shares[priority] = min(left, available * 100 // normalized_total)
            left -= shares[priority]
    if left:
        shares, availability = (load, health) if any(health) else (degraded_load, degraded_health)
        shares[next(priority for priority, available in enumerate(availability) if available)] += left
    return tuple(load), tuple(degraded_load)


def _load_in_total_panic(levels: Sequence[LevelCounts]) -> tuple[int, ...]:
    total = sum(level.total for level in levels)
    if total == 0:
        return (100,) + (0,) * (len(levels) - 1)
    load = [100 * level.total // total for level in levels]
    load[next(priority for priority, level in enumerate(levels) if level.total)] += 100 - sum(load)
    return tuple(load)
