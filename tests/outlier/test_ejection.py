import attrs
import pytest

from outlier import EjectionType, EnvoyRelease, HostMonitor, Origin, OutlierDetection
from outlier.ejection import EJECTION_RULES, FAILURE_PERCENTAGE_TYPES, SUCCESS_RATE_TYPES, check_limit
from outlier.stats import NAMES

CURRENT = EnvoyRelease.V1_40.behaviour
OLD = EnvoyRelease.V1_27.behaviour


def allowed(behaviour, hosts, ejected, max_percent, *, one=False):
    found = check_limit(behaviour, hosts=hosts, ejected=ejected, max_percent=max_percent, always_eject_one_host=one)
    return found.allowed


@pytest.mark.parametrize(
    ("hosts", "ejected", "max_percent", "expected"),
    [
        (10, 0, 10, True),
        (9, 0, 10, False),
        (9, 0, 11, False),  # 11.1 > 11
        (9, 0, 12, True),
        (3, 0, 33, False),
        (3, 0, 34, True),
        (3, 1, 66, False),
        (3, 1, 67, True),
        (1, 0, 99, False),
        (1, 0, 100, True),
        (4, 1, 50, True),
        (4, 2, 50, False),
        (2, 0, 0, False),
    ],
)
def test_limit_counts_the_ejection_in_question(hosts, ejected, max_percent, expected):
    assert allowed(CURRENT, hosts, ejected, max_percent) is expected


@pytest.mark.parametrize(
    ("hosts", "ejected", "max_percent", "expected"),
    [(10, 0, 1, True), (10, 1, 10, False), (10, 1, 11, True), (10, 2, 20, False), (1, 0, 0, False), (3, 2, 67, True)],
)
def test_limit_before_1_28_rounds_up(hosts, ejected, max_percent, expected):
    assert allowed(OLD, hosts, ejected, max_percent) is expected


@pytest.mark.parametrize(("ejected", "expected"), [(0, True), (1, False)])
def test_always_eject_one_host_lets_the_first_go(ejected, expected):
    assert allowed(CURRENT, 3, ejected, 10, one=True) is expected


def test_always_eject_one_host_is_named_only_when_it_decided():
    needed = check_limit(CURRENT, hosts=3, ejected=0, max_percent=10, always_eject_one_host=True)
    unneeded = check_limit(CURRENT, hosts=3, ejected=0, max_percent=50, always_eject_one_host=True)

    assert (needed.by_exception, unneeded.by_exception) == (True, False)


def test_table_names_only_what_exists():
    monitor_attributes = set(HostMonitor.__slots__)
    config_fields = {field.name for field in attrs.fields(OutlierDetection)}
    for rule in EJECTION_RULES.values():
        assert {rule.enforcing, rule.threshold} <= config_fields
        assert {rule.detected, rule.enforced} <= set(NAMES)
        assert rule.deprecated is None or rule.deprecated in NAMES
        assert rule.run is None or rule.run in monitor_attributes


def test_every_type_but_degraded_has_a_row():
    assert set(EJECTION_RULES) == set(EjectionType) - {EjectionType.DEGRADED}


def test_deprecated_total_counts_two_types():
    assert {kind for kind, rule in EJECTION_RULES.items() if rule.in_total} == {
        EjectionType.CONSECUTIVE_5XX,
        EjectionType.SUCCESS_RATE,
    }


def test_origins_have_types_of_their_own():
    assert SUCCESS_RATE_TYPES[Origin.LOCAL] is EjectionType.SUCCESS_RATE_LOCAL_ORIGIN
    assert FAILURE_PERCENTAGE_TYPES[Origin.LOCAL] is EjectionType.FAILURE_PERCENTAGE_LOCAL_ORIGIN
