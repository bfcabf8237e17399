import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlier.durations import duration_ms, exact_duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10s", 10_000),
        ("0.1s", 100),
        ("1.s", 1000),
        (".5s", 500),
        ("1m30s", 90_000),
        ("2h", 7_200_000),
        ("1500us", 1),
        ("999999ns", 0),
        ("-1s", -1000),
        ("0s", 0),
    ],
)
def test_duration_in_milliseconds(text, ms):
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "s", "1", "1d", "1 s", "1s1", "+1s", "1e3s", "--1s", "."])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms(text)


@given(st.integers(0, 10**12))
def test_whole_milliseconds_survive(ms):
    assert duration_ms(f"{ms}ms") == ms == exact_duration_ms(f"{ms // 1000}.{ms % 1000:03d}s")
