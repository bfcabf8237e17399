import attrs
import pytest

from outlier import ConfigError, OutlierDetection

PERCENTAGES = [
    "max_ejection_percent",
    "enforcing_consecutive_5xx",
    "enforcing_consecutive_gateway_failure",
    "enforcing_consecutive_local_origin_failure",
    "enforcing_success_rate",
    "enforcing_local_origin_success_rate",
    "failure_percentage_threshold",
    "enforcing_failure_percentage",
    "enforcing_failure_percentage_local_origin",
]
NUMBERS = [
    "consecutive_5xx",
    "consecutive_gateway_failure",
    "consecutive_local_origin_failure",
    "success_rate_minimum_hosts",
    "success_rate_request_volume",
    "success_rate_stdev_factor",
    "failure_percentage_minimum_hosts",
    "failure_percentage_request_volume",
]
FLAGS = [
    "always_eject_one_host",
    "split_external_local_origin_errors",
    "successful_active_health_check_uneject_host",
    "detect_degraded_hosts",
]


def test_every_field_is_covered_by_a_range_test():
    durations = [field.name for field in attrs.fields(OutlierDetection) if field.name.endswith("_ms")]
    assert sorted(durations + PERCENTAGES + NUMBERS + FLAGS) == sorted(f.name for f in attrs.fields(OutlierDetection))


@pytest.mark.parametrize("name", PERCENTAGES)
def test_percentage_is_at_most_100(name):
    assert getattr(OutlierDetection(**{name: 100}), name) == 100
    with pytest.raises(ConfigError, match=f"{name} = 101; value must be less than or equal to 100"):
        OutlierDetection(**{name: 101})


@pytest.mark.parametrize("name", NUMBERS)
def test_number_is_an_unsigned_32_bit_integer(name):
    assert getattr(OutlierDetection(**{name: 2**32 - 1}), name) == 2**32 - 1
    assert getattr(OutlierDetection(**{name: 0}), name) == 0
    for refused in (2**32, -1, "5", True, 1.0):
        with pytest.raises(ConfigError, match=name):
            OutlierDetection(**{name: refused})


@pytest.mark.parametrize("name", FLAGS)
def test_flag_is_a_bool(name):
    with pytest.raises(ConfigError, match="must be true or false"):
        OutlierDetection(**{name: 1})


@pytest.mark.parametrize("name", ["interval_ms", "base_ejection_time_ms", "max_ejection_time_ms"])
def test_duration_is_more_than_zero(name):
    low = {"base_ejection_time_ms": 1} if name == "max_ejection_time_ms" else {}
    assert getattr(OutlierDetection(**low, **{name: 1}), name) == 1
    with pytest.raises(ConfigError, match="value must be greater than 0s"):
        OutlierDetection(**low, **{name: 0})


def test_jitter_may_be_zero_but_not_negative():
    assert OutlierDetection(max_ejection_time_jitter_ms=0).max_ejection_time_jitter_ms == 0
    with pytest.raises(ConfigError, match="0 or more"):
        OutlierDetection(max_ejection_time_jitter_ms=-1)


@pytest.mark.parametrize(
    ("base_ms", "max_ms"), [(299_999, 300_000), (300_000, 300_000), (300_001, 300_001)], ids=["below", "at", "above"]
)
def test_unset_maximum_is_300_s_or_the_longer_base(base_ms, max_ms):
    assert OutlierDetection(base_ejection_time_ms=base_ms).max_ejection_time_ms == max_ms


def test_maximum_may_equal_the_base_but_not_be_below():
    assert OutlierDetection(base_ejection_time_ms=10, max_ejection_time_ms=10).max_ejection_time_ms == 10
    with pytest.raises(ConfigError, match="max_ejection_time cannot be smaller than base_ejection_time") as caught:
        OutlierDetection(base_ejection_time_ms=10, max_ejection_time_ms=9)
    assert (caught.value.path, caught.value.value) == ("max_ejection_time_ms", 9)


def test_configuration_is_frozen():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        OutlierDetection().interval_ms = 1


def test_fields_of_the_proto_are_read():
    config = OutlierDetection.from_fields(
        {"interval": "1.5s", "consecutive_5xx": 7, "split_external_local_origin_errors": True, "monitors": []}
    )
    assert config == OutlierDetection(interval_ms=1500, consecutive_5xx=7, split_external_local_origin_errors=True)


def test_null_is_unset():
    assert OutlierDetection.from_fields({"consecutive_5xx": None, "interval": None}) == OutlierDetection()


@pytest.mark.parametrize(("text", "ms"), [("0.0001s", 1), ("0.0019s", 1), ("1.9999s", 1999)])
def test_duration_is_cut_to_milliseconds_but_stays_above_zero(text, ms):
    assert OutlierDetection.from_fields({"interval": text}).interval_ms == ms


@pytest.mark.parametrize("name", ["consecutive_errors", "interval_ms", "Interval"])
def test_unknown_field_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} = 1; no such field"):
        OutlierDetection.from_fields({name: 1})


@pytest.mark.parametrize("value", ["10", "ten", 10, "10 s", ""])
def test_duration_without_unit_is_refused(value):
    with pytest.raises(ConfigError, match="is not a duration"):
        OutlierDetection.from_fields({"interval": value})
