import pytest

from outlier import ListedRandom, OutlierDetection, Runtime
from outlier.runtime import RUNTIME_FIELDS, Settings


def settings(runtime, randoms=(), **config):
    return Settings(OutlierDetection(**config), runtime, ListedRandom(randoms))


def test_runtime_keys_are_those_of_envoy():
    """The list of the 1.40 binary; flags have none."""
    assert set(RUNTIME_FIELDS) == {
        "base_ejection_time_ms",
        "consecutive_5xx",
        "consecutive_gateway_failure",
        "consecutive_local_origin_failure",
        "enforcing_consecutive_5xx",
        "enforcing_consecutive_gateway_failure",
        "enforcing_consecutive_local_origin_failure",
        "enforcing_failure_percentage",
        "enforcing_failure_percentage_local_origin",
        "enforcing_local_origin_success_rate",
        "enforcing_success_rate",
        "failure_percentage_minimum_hosts",
        "failure_percentage_request_volume",
        "failure_percentage_threshold",
        "interval_ms",
        "max_ejection_percent",
        "max_ejection_time_jitter_ms",
        "max_ejection_time_ms",
        "success_rate_minimum_hosts",
        "success_rate_request_volume",
        "success_rate_stdev_factor",
    }


@pytest.mark.parametrize("name", RUNTIME_FIELDS)
def test_every_key_overrides_its_field(name):
    runtime = Runtime()
    subject = settings(runtime)
    configured = subject.value(name)
    runtime.modify({f"outlier_detection.{name}": configured + 7})

    assert subject.value(name) == configured + 7


def test_override_is_read_at_the_moment_of_use_and_taken_back_by_an_empty_text():
    runtime = Runtime({"outlier_detection.consecutive_5xx": 9})
    subject = settings(runtime)
    first = subject.value("consecutive_5xx")
    runtime.modify({"outlier_detection.consecutive_5xx": ""})

    assert (first, subject.value("consecutive_5xx"), runtime.entries) == (9, 5, {})


@pytest.mark.parametrize(("text", "value"), [("12", 12), ("12.0", 12), ("0", 0), ("12.5", 5), ("-1", 5), ("x", 5)])
def test_only_unsigned_integers_override(text, value):
    assert settings(Runtime({"outlier_detection.consecutive_5xx": text})).value("consecutive_5xx") == value


def test_any_key_may_be_set():
    runtime = Runtime({"upstream.healthy_panic_threshold": "50.5", "circuit": "open"})

    assert runtime.number("upstream.healthy_panic_threshold", 0.0) == 50.5
    assert runtime.number("circuit", 1.5) == 1.5
    assert runtime.number("absent", 2.5) == 2.5
    assert runtime.integer("upstream.healthy_panic_threshold", 3) == 3
    assert runtime.entries == {"upstream.healthy_panic_threshold": "50.5", "circuit": "open"}


@pytest.mark.parametrize(("override", "limit"), [(99, 99), (100, 100), (101, 100), (250, 100)])
def test_limit_above_100_acts_as_100(override, limit):
    runtime = Runtime({"outlier_detection.max_ejection_percent": override})

    assert settings(runtime).max_ejection_percent() == limit


@pytest.mark.parametrize(
    ("percent", "draw", "enforced"), [(1, 0, True), (1, 1, False), (99, 98, True), (99, 99, False)]
)
def test_enforcement_compares_the_draw_with_the_percentage(percent, draw, enforced):
    subject = settings(Runtime(), [draw + 100], enforcing_consecutive_5xx=percent)
    found = subject.enforce("enforcing_consecutive_5xx")

    assert (found.percent, found.draw, found.enforced) == (percent, draw, enforced)


@pytest.mark.parametrize(("percent", "enforced"), [(0, False), (100, True)])
def test_certain_enforcement_uses_no_random_number(percent, enforced):
    subject = settings(Runtime(), [55], enforcing_consecutive_5xx=percent, enforcing_success_rate=50)
    first = subject.enforce("enforcing_consecutive_5xx")
    second = subject.enforce("enforcing_success_rate")

    assert (first.enforced, first.draw, second.draw) == (enforced, None, 55)


def test_enforcement_above_100_is_certain():
    runtime = Runtime({"outlier_detection.enforcing_consecutive_5xx": 101})

    assert settings(runtime).enforce("enforcing_consecutive_5xx").enforced
