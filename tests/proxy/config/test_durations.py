import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.durations import format_duration, is_valid_duration, parse_duration_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("1h2m3s4ms5us6ns", 3_723_004_005_006),
        ("1µs", 1_000),
        ("1.000000001s", 1_000_000_001),
        ("0.0000000001s", 0),
        ("2540400h10m10s", 9_145_440_610_000_000_000),
    ],
)
def test_go_durations(text, ns):
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "s", ".s", "1", "1x", "1 s", "--1s", "1s1", "1e3s", "٣s", "9999999h", "inf"])
def test_what_go_refuses(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("ns", "valid"), [(999_999, False), (1_000_000, True), (1_000_001, False), (0, False), (-1_000_000, False)]
)
def test_istio_wants_whole_milliseconds_from_one_up(ns, valid):
    assert is_valid_duration(ns) is valid


@given(st.integers(-(10**15), 10**15))
def test_a_formatted_duration_reads_back_as_itself(ns):
    assert parse_duration_ns(format_duration(ns)) == ns
