"""When a client's resets are too many: Envoy's numbers, both sides of each."""

import pytest

from proxy.http.premature_resets import PrematureResets


def ended(resets: PrematureResets, count: int, *, reset: bool, lifetime_ms: int = 0) -> bool:
    return [resets.on_stream_end(reset_unanswered=reset, lifetime_ms=lifetime_ms) for _ in range(count)][-1]


def test_half_of_the_first_500_are_too_many():
    resets = PrematureResets()

    assert not ended(resets, 249, reset=True)
    assert ended(resets, 1, reset=True)


def test_later_half_of_all_are_too_many():
    resets = PrematureResets()
    ended(resets, 1_000, reset=False)

    assert not ended(resets, 999, reset=True)
    assert ended(resets, 1, reset=True)


@pytest.mark.parametrize(("lifetime_ms", "too_many"), [(1_000, True), (1_001, False)])
def test_reset_of_what_has_lived_is_no_abuse(lifetime_ms, too_many):
    assert ended(PrematureResets(), 250, reset=True, lifetime_ms=lifetime_ms) is too_many
