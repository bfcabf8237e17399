"""The schedule as such; the computed and recorded orders are in tests/conformance."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.load_balancer.edf import MAX_PREPICKS, EdfScheduler


def order(weights: list[float], picks: int, prepicks: int = 0) -> list[int]:
    schedule = EdfScheduler(range(len(weights)), weights.__getitem__, prepicks)
    return [schedule.pick() for _ in range(picks)]


@given(
    weights=st.lists(st.integers(1, 50), min_size=2, max_size=12),
    picks=st.integers(1, 400),
    prepicks=st.integers(0, 2**32 - 1),
)
def test_weights_are_respected_within_one_pick_of_each(weights, picks, prepicks):
    """Picks over weight is the same time for all entries, give or take one pick of either."""
    counts = Counter(order(weights, picks, prepicks))

    times = [(counts[entry] / weight, 1 / weight) for entry, weight in enumerate(weights)]
    for time, pick in times:
        for other, other_pick in times:
            assert abs(time - other) <= pick + other_pick + 1e-6


@given(weights=st.lists(st.integers(1, 20), min_size=1, max_size=8), prepicks=st.integers(0, 60))
def test_prepicks_are_picks_made_before(weights, prepicks):
    """Equal deadlines may come in another order, so counts are compared, and may be one apart."""
    emulated = Counter(order(weights, 40, prepicks))
    made = Counter(order(weights, 40 + prepicks)[prepicks:])

    assert all(abs(emulated[entry] - made[entry]) <= 1 for entry in range(len(weights)))


def test_prepicks_wrap_at_their_bound():
    assert order([1, 2, 3], 20, MAX_PREPICKS + 4) == order([1, 2, 3], 20, 4)


def test_a_changed_weight_counts_from_the_next_pick_of_its_entry():
    weights = [1.0, 1.0]
    schedule = EdfScheduler(range(2), weights.__getitem__, 0)
    weights[1] = 4.0

    assert [schedule.pick() for _ in range(6)] == [0, 1, 1, 1, 1, 0]
