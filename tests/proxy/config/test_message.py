import pytest

from proxy.config.destination_rule import (
    ConnectionPool,
    DestinationRule,
    HttpSettings,
    LoadBalancer,
    OutlierDetection,
    SimpleLb,
    TcpSettings,
)
from proxy.config.issue import Report, format_path
from proxy.config.service_entry import WorkloadEntry

QUOTE = "must be a string; quote it in YAML"


def read(message, value):
    report = Report()
    return message.read(value, (), report), [(format_path(issue.path), issue.rule) for issue in report]


def test_both_names_of_a_field_are_read():
    one, _ = read(OutlierDetection, {"maxEjectionPercent": 3})
    other, _ = read(OutlierDetection, {"max_ejection_percent": 3})

    assert one == other == OutlierDetection(max_ejection_percent=3)


def test_unset_and_zero_differ_for_wrappers_only():
    block, _ = read(
        OutlierDetection, {"consecutive5xxErrors": 0, "maxEjectionPercent": 0, "consecutiveGatewayErrors": None}
    )

    assert block.consecutive_5xx_errors == 0
    assert block.consecutive_gateway_errors is None
    assert block == OutlierDetection(consecutive_5xx_errors=0)


def test_an_unknown_field_is_a_warning_with_the_likeliest_name():
    _, issues = read(OutlierDetection, {"consecutive5xxError": 1, "zzz": 1})

    assert issues == [
        ("consecutive5xxError", "unknown field of OutlierDetection, ignored; did you mean consecutive5xxErrors?"),
        ("zzz", "unknown field of OutlierDetection, ignored"),
    ]


@pytest.mark.parametrize(
    ("message", "value", "path", "rule"),
    [
        (OutlierDetection, {"interval": 10}, "interval", "must be a duration with a unit, such as 10s, 1m30s or 100ms"),
        (OutlierDetection, {"maxEjectionPercent": "x"}, "maxEjectionPercent", "must be an integer"),
        (OutlierDetection, {"maxEjectionPercent": 1.5}, "maxEjectionPercent", "must be an integer"),
        (OutlierDetection, {"maxEjectionPercent": True}, "maxEjectionPercent", "must be an integer"),
        (OutlierDetection, {"consecutive5xxErrors": -1}, "consecutive5xxErrors", "must be in 0..4294967295"),
        (ConnectionPool, {"http": {"useClientProtocol": 1}}, "http.useClientProtocol", "must be true or false"),
        (DestinationRule, {"host": 5}, "host", QUOTE),
        (DestinationRule, {"subsets": {}}, "subsets", "must be a list"),
        (DestinationRule, {"subsets": [{"labels": {"v": 1}}]}, "subsets[0].labels.v", QUOTE),
        (DestinationRule, {"trafficPolicy": []}, "trafficPolicy", "must be an object (TrafficPolicy)"),
        (HttpSettings, {"h2UpgradePolicy": "NO"}, "h2UpgradePolicy", "must be one of DEFAULT, DO_NOT_UPGRADE, UPGRADE"),
        (WorkloadEntry, {"ports": {80: 80}}, "ports.80", "keys must be strings; quote it in YAML"),
        (WorkloadEntry, {"ports": []}, "ports", "must be an object"),
        (TcpSettings, {"maxConnections": 2**31}, "maxConnections", "must be in -2147483648..2147483647"),
    ],
)
def test_a_wrong_type_is_an_error_at_its_path(message, value, path, rule):
    _, issues = read(message, value)

    assert issues == [(path, rule)]


def test_reading_goes_on_after_an_error():
    _, issues = read(OutlierDetection, {"interval": 10, "baseEjectionTime": 20})

    assert [path for path, _ in issues] == ["interval", "baseEjectionTime"]


@pytest.mark.parametrize("value", ["RANDOM", 2])
def test_enums_are_read_by_name_and_number(value):
    block, issues = read(LoadBalancer, {"simple": value})

    assert (block.simple, issues) == (SimpleLb.RANDOM, [])


@pytest.mark.parametrize("value", [7, 7.0, "7"])
def test_integers_are_read_from_strings_and_whole_floats(value):
    block, issues = read(OutlierDetection, {"maxEjectionPercent": value})

    assert (block.max_ejection_percent, issues) == (7, [])


def test_a_null_message_in_a_list_stays_for_the_validator():
    rule, issues = read(DestinationRule, {"subsets": [None]})

    assert (rule.subsets, issues) == ((None,), [])


def test_a_structure_that_holds_itself_is_read_to_its_depth():
    loop = {}
    loop["trafficPolicy"] = loop

    _, issues = read(DestinationRule, loop)

    assert [path for path, _ in issues] == ["trafficPolicy.trafficPolicy"]
