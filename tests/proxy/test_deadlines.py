"""Many timeouts behind one timer: each is called once, in time, unless it was cleared."""

from typing import cast

import pytest

from proxy.deadlines import Deadlines
from tests.proxy.http.sidecar import ManualClock


class Owner:
    """Notes which of its timeouts were called."""

    def __init__(self, called: list[str], name: str = "a") -> None:
        self._called = called
        self._name = name

    def on_timeout(self) -> None:
        self._called.append(self._name)

    def on_other_timeout(self) -> None:
        self._called.append(self._name + "'")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def deadlines(clock):
    return Deadlines(cast("object", clock))


@pytest.fixture
def called():
    return []


@pytest.mark.parametrize(("ms", "fired"), [(98, []), (99, []), (100, ["a"]), (101, ["a"]), (10_000, ["a"])])
def test_called_once_when_its_time_has_passed(clock, deadlines, called, ms, fired):
    deadlines.set(Owner(called).on_timeout, 100)
    clock.advance(ms)

    assert called == fired


def test_cleared_is_not_called(clock, deadlines, called):
    owner = Owner(called)
    deadlines.set(owner.on_timeout, 100)
    clock.advance(99)
    deadlines.clear(owner.on_timeout, 100)
    clock.advance(10_000)

    assert called == []


def test_clear_of_what_is_not_set_is_nothing(deadlines, called):
    owner = Owner(called)
    deadlines.set(owner.on_timeout, 100)
    deadlines.clear(owner.on_timeout, 50)
    deadlines.clear(Owner(called).on_timeout, 100)

    assert len(deadlines) == 1


def test_different_lengths_are_called_in_order_of_time(clock, deadlines, called):
    for name, ms in [("c", 300), ("a", 100), ("b", 200)]:
        deadlines.set(Owner(called, name).on_timeout, ms)
    clock.advance(1_000)

    assert called == ["a", "b", "c"]


def test_the_same_length_set_later_is_called_later(clock, deadlines, called):
    deadlines.set(Owner(called, "a").on_timeout, 100)
    clock.advance(50)
    deadlines.set(Owner(called, "b").on_timeout, 100)
    clock.advance(50)
    assert called == ["a"]
    clock.advance(50)

    assert called == ["a", "b"]


def test_a_shorter_one_does_not_wait_for_a_longer_one(clock, deadlines, called):
    deadlines.set(Owner(called, "long").on_timeout, 60_000)
    clock.advance(1)
    deadlines.set(Owner(called, "short").on_timeout, 10)
    clock.advance(10)

    assert called == ["short"]


def test_one_owner_may_have_several(clock, deadlines, called):
    owner = Owner(called)
    deadlines.set(owner.on_timeout, 100)
    deadlines.set(owner.on_other_timeout, 100)
    deadlines.clear(owner.on_timeout, 100)
    clock.advance(100)

    assert called == ["a'"]


def test_cleared_and_set_again_starts_anew(clock, deadlines, called):
    first, second = Owner(called, "first"), Owner(called, "second")
    deadlines.set(first.on_timeout, 100)
    deadlines.set(second.on_timeout, 100)
    clock.advance(60)
    deadlines.clear(first.on_timeout, 100)
    deadlines.set(first.on_timeout, 100)
    clock.advance(40)
    assert called == ["second"]
    clock.advance(60)

    assert called == ["second", "first"]


def test_set_from_within_a_call_is_called(clock, deadlines, called):
    owner = Owner(called, "again")
    deadlines.set(lambda: deadlines.set(owner.on_timeout, 100), 100)
    clock.advance(100)
    clock.advance(99)
    assert called == []
    clock.advance(1)

    assert called == ["again"]


def test_what_one_call_clears_may_still_be_called_in_the_same_sweep(clock, deadlines, called):
    """An owner checks its own state, as the class says."""
    second = Owner(called, "second")
    deadlines.set(lambda: deadlines.clear(second.on_timeout, 100), 100)
    deadlines.set(second.on_timeout, 100)
    clock.advance(100)

    assert called == ["second"]
    assert len(deadlines) == 0


def test_length_counts_what_is_set(clock, deadlines, called):
    owners = [Owner(called, str(number)) for number in range(3)]
    for number, owner in enumerate(owners):
        deadlines.set(owner.on_timeout, 100 * (number + 1))
    assert len(deadlines) == 3
    clock.advance(200)

    assert len(deadlines) == 1


def test_close_forgets_everything(clock, deadlines, called):
    deadlines.set(Owner(called).on_timeout, 100)
    deadlines.close()
    clock.advance(10_000)

    assert (called, len(deadlines)) == ([], 0)


def test_thousands_of_one_length_are_called_in_order(clock, deadlines, called):
    owners = [Owner(called, str(number)) for number in range(5_000)]
    for owner in owners:
        deadlines.set(owner.on_timeout, 100)
        clock.advance(0.01)
    for owner in owners[::2]:
        deadlines.clear(owner.on_timeout, 100)
    clock.advance(200)

    assert called == [str(number) for number in range(1, 5_000, 2)]
