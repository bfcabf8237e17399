"""Loads and panic as pure functions; the recorded rows are in tests/conformance."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.load_balancer.priority_load import (
    LevelCounts,
    choose_priority,
    panic_reason,
    panic_threshold_percent,
    priority_loads,
)


def loads(*levels: LevelCounts, panic_threshold: int = 50, overprovisioning_factor: int = 140):
    return priority_loads(levels, panic_threshold=panic_threshold, overprovisioning_factor=overprovisioning_factor)


@st.composite
def level_counts(draw: st.DrawFn) -> LevelCounts:
    total = draw(st.integers(0, 30))
    healthy = draw(st.integers(0, total))
    degraded = draw(st.integers(0, total - healthy))
    # Envoy excludes draining hosts, which are unhealthy.
    return LevelCounts(total, healthy, degraded, draw(st.integers(0, total - healthy - degraded)))


@settings(max_examples=60)
@given(
    levels=st.lists(level_counts(), min_size=1, max_size=5),
    panic_threshold=st.integers(0, 100),
    overprovisioning_factor=st.integers(100, 300),
)
def test_loads_sum_to_100(levels, panic_threshold, overprovisioning_factor):
    found = loads(*levels, panic_threshold=panic_threshold, overprovisioning_factor=overprovisioning_factor)

    assert sum(found.load) + sum(found.degraded_load) == 100


@given(levels=st.lists(level_counts(), min_size=1, max_size=5), panic_threshold=st.integers(1, 100))
def test_nobody_gets_load_that_has_no_host_for_it(levels, panic_threshold):
    found = loads(*levels, panic_threshold=panic_threshold)

    if any(level.total for level in levels):
        for level, panic, load, degraded_load in zip(levels, found.panic, found.load, found.degraded_load, strict=True):
            assert load == 0 or (level.total if panic else level.healthy)
            assert degraded_load == 0 or level.degraded


@given(levels=st.lists(level_counts(), min_size=1, max_size=5), number=st.integers(0, 2**64 - 1))
def test_shares_of_all_residues_are_the_loads(levels, number):
    found = loads(*levels)
    falls = [choose_priority(found, number + residue) for residue in range(100)]

    for priority in range(len(levels)):
        assert falls.count((priority, False)) == found.load[priority]
        assert falls.count((priority, True)) == found.degraded_load[priority]


@pytest.mark.parametrize(("healthy", "panic"), [(49, True), (50, False), (51, False)])
def test_panic_is_strictly_below_the_threshold(healthy, panic):
    assert loads(LevelCounts(100, healthy)).panic == (panic,)


@pytest.mark.parametrize(("healthy", "normalized_total"), [(71, 99), (72, 100)])
def test_enough_hosts_for_all_traffic_beat_any_threshold(healthy, normalized_total):
    found = loads(LevelCounts(100, healthy), panic_threshold=100)

    assert found.normalized_total == normalized_total
    assert found.panic == (normalized_total < 100,)


def test_remainder_goes_to_the_first_available_priority():
    """Priority 0 is empty, so priority 1 gets what truncation leaves."""
    assert loads(LevelCounts(0, 0), LevelCounts(5, 1), LevelCounts(5, 1), panic_threshold=0).load == (0, 50, 50)
    assert loads(LevelCounts(0, 0), *[LevelCounts(5, 1)] * 3, panic_threshold=0).load == (0, 34, 33, 33)


def test_remainder_goes_to_degraded_hosts_when_none_is_healthy():
    found = loads(*[LevelCounts(5, 0, 1)] * 3, panic_threshold=0)

    assert (found.load, found.degraded_load) == ((0, 0, 0), (34, 33, 33))


def test_empty_cluster_panics_and_sends_everything_to_priority_0():
    found = loads(LevelCounts(0, 0), LevelCounts(0, 0))

    assert all(found.panic)
    assert found.load == (100, 0)


def test_no_availability_and_no_panic_leaves_the_choice_at_priority_0():
    """A factor of 10 % makes 1 of 20 an availability of 0, while 5 % is above a threshold of 1 %."""
    found = loads(LevelCounts(20, 1), LevelCounts(20, 1), panic_threshold=1, overprovisioning_factor=10)

    assert (found.load, found.panic) == ((0, 0), (False, False))
    assert choose_priority(found, 77) == (0, False)


@pytest.mark.parametrize(
    ("configured", "percent"),
    [
        (None, 50),
        (50.6, 50),
        (0.9, 0),
        (1.0, 1),
        (28.5, 28),
        (29.0, 28),
        (57.0, 56),
        (58.0, 57),
        (100.0, 100),
        (250, 100),
    ],
)
def test_threshold_is_converted_as_envoy_does(configured, percent):
    assert panic_threshold_percent(configured) == percent


@pytest.mark.parametrize(
    ("level", "panic_threshold", "normalized_total", "reason"),
    [
        (
            LevelCounts(4, 1),
            50,
            35,
            "1 of 4 hosts available: 25 % is below the panic threshold of 50 %, so all hosts are used",
        ),
        (LevelCounts(4, 2), 50, 70, "2 of 4 hosts available: 50 % is not below the panic threshold of 50 %"),
        (
            LevelCounts(4, 1),
            50,
            100,
            "1 of 4 hosts available; no panic, since the priorities together can take all traffic",
        ),
        (LevelCounts(4, 1, 1, 1), 0, 50, "2 of 3 hosts available; a panic threshold of 0 switches panic off"),
    ],
    ids=["panic", "at the threshold", "all traffic taken", "off"],
)
def test_panic_reason(level, panic_threshold, normalized_total, reason):
    assert panic_reason(level, panic_threshold=panic_threshold, normalized_total=normalized_total) == reason
