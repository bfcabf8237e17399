import pytest

from outlier import EnvoyRelease, OutlierStats
from outlier.stats import NAMES

V1_8 = {
    "ejections_active", "ejections_consecutive_5xx", "ejections_detected_consecutive_5xx",
    "ejections_detected_consecutive_gateway_failure", "ejections_detected_success_rate",
    "ejections_enforced_consecutive_5xx", "ejections_enforced_consecutive_gateway_failure",
    "ejections_enforced_success_rate", "ejections_enforced_total", "ejections_overflow", "ejections_success_rate",
    "ejections_total",
}  # fmt: skip
V1_27 = V1_8 | {
    "ejections_detected_consecutive_local_origin_failure", "ejections_enforced_consecutive_local_origin_failure",
    "ejections_detected_local_origin_success_rate", "ejections_enforced_local_origin_success_rate",
    "ejections_detected_failure_percentage", "ejections_enforced_failure_percentage",
    "ejections_detected_local_origin_failure_percentage", "ejections_enforced_local_origin_failure_percentage",
}  # fmt: skip
V1_40 = V1_27 | {"ejections_detected_degradation"}


@pytest.mark.parametrize(
    ("release", "names"),
    [(EnvoyRelease.V1_8, V1_8), (EnvoyRelease.V1_27, V1_27), (EnvoyRelease.V1_40, V1_40)],
    ids=["1.8", "1.27", "1.40"],
)
def test_release_has_exactly_its_statistics(release, names):
    assert {name for name, _, _ in OutlierStats.of(release.behaviour).items()} == names


def test_items_are_in_order_of_name_with_one_gauge():
    items = list(OutlierStats.of(EnvoyRelease.V1_40.behaviour).items())

    assert [name for name, _, _ in items] == sorted(NAMES)
    assert [name for name, _, is_gauge in items if is_gauge] == ["ejections_active"]


def test_reset_spares_the_gauge():
    stats = OutlierStats(ejections_active=2, ejections_overflow=3)
    stats.increment("ejections_total")
    stats.reset_counters()

    assert {name: value for name, value, _ in stats.items() if value} == {"ejections_active": 2}
