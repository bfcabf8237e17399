"""The key `health_checks` of the bootstrap file: what it says, what is refused, and whom it is for."""

from pathlib import Path

import pytest

from outlier import ConfigError
from proxy.config.bootstrap_loader import load_bootstrap
from proxy.config.health_check import (
    CheckMethod,
    HealthCheck,
    HealthCheckRule,
    HealthCheckRules,
    HttpHealthCheck,
    TcpHealthCheck,
)

REQUIRED = {"timeout": "1s", "interval": "5s", "unhealthy_threshold": "3", "healthy_threshold": "2"}
LEAST = """
health_checks:
- hosts: "*.default.svc.cluster.local"
  timeout: 1s
  interval: 5s
  unhealthy_threshold: 3
  healthy_threshold: 2
  http: {path: /healthz}
"""


def load(tmp_path, text):
    file = tmp_path / "boot.yaml"
    file.write_text(text)
    return load_bootstrap(file, {}, {}).health_checks


def load_one(tmp_path, **fields):
    members = REQUIRED | {"hosts": "a.example"} | fields
    lines = "".join(f"  {name}: {value}\n" for name, value in members.items())
    (rule,) = load(tmp_path, "health_checks:\n-" + lines[1:])
    return rule.health_check


def test_a_rule_with_the_required_fields_has_envoys_defaults(tmp_path):
    (rule,) = load(tmp_path, LEAST)

    assert (rule.host, rule.port) == ("*.default.svc.cluster.local", None)
    assert rule.health_check == HealthCheck(
        check=HttpHealthCheck(path="/healthz", host="", method=CheckMethod.GET),
        timeout_ms=1_000,
        interval_ms=5_000,
        unhealthy_threshold=3,
        healthy_threshold=2,
        initial_jitter_ms=0,
        interval_jitter_ms=0,
        interval_jitter_percent=0,
        no_traffic_interval_ms=60_000,
        no_traffic_healthy_interval_ms=60_000,
        unhealthy_interval_ms=5_000,
        unhealthy_edge_interval_ms=5_000,
        healthy_edge_interval_ms=5_000,
        reuse_connection=True,
        event_log_path=None,
    )


def test_intervals_that_are_not_given_follow_their_neighbours(tmp_path):
    check = load_one(tmp_path, http="{path: /}", unhealthy_interval="7s", no_traffic_interval="9s")

    assert (check.unhealthy_edge_interval_ms, check.healthy_edge_interval_ms) == (7_000, 5_000)
    assert check.no_traffic_healthy_interval_ms == 9_000


def test_every_field_of_an_http_check_is_read(tmp_path):
    check = load_one(
        tmp_path,
        http="{path: '/a?b', host: h, method: POST, expected_statuses: [200-299, '304'], retriable_statuses: '503', "
        "request_headers_to_add: {X-Probe: '1'}}",
        interval_jitter="250ms",
        interval_jitter_percent="10",
        initial_jitter="2s",
        reuse_connection="false",
        always_log_health_check_failures="true",
        always_log_health_check_success="true",
        event_log_path="log/checks.jsonl",
        ignore_new_hosts_until_first_hc="true",
    )

    assert check.check == HttpHealthCheck(
        path="/a?b",
        host="h",
        method=CheckMethod.POST,
        expected_statuses=((200, 299), (304, 304)),
        retriable_statuses=((503, 503),),
        request_headers_to_add=(("x-probe", "1"),),
    )
    assert (check.interval_jitter_ms, check.interval_jitter_percent, check.initial_jitter_ms) == (250, 10, 2_000)
    assert not check.reuse_connection
    assert check.always_log_health_check_failures
    assert check.always_log_health_check_success
    assert check.event_log_path == tmp_path / "log/checks.jsonl"
    assert check.ignore_new_hosts_until_first_hc


@pytest.mark.parametrize(
    ("tcp", "expected"),
    [
        ("{}", TcpHealthCheck()),
        ("", TcpHealthCheck()),
        ("{send: 50494e47, receive: [50, 4f4E47]}", TcpHealthCheck(send=(b"PING",), receive=(b"P", b"ONG"))),
    ],
)
def test_a_tcp_check_is_read(tmp_path, tcp, expected):
    assert load_one(tmp_path, tcp=tcp).check == expected


@pytest.mark.parametrize("name", ["hosts", *REQUIRED])
def test_a_required_field_is_missed(tmp_path, name):
    lines = [line for line in LEAST.splitlines() if f" {name}:" not in line]
    if name == "hosts":
        lines[2:3] = ["- timeout: 1s"]

    with pytest.raises(ConfigError, match=rf"boot.yaml: health_checks\[0\].{name} = nothing; is required"):
        load(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    ("fields", "path", "rule"),
    [
        ({"http": "{path: /}", "tcp": "{}"}, "", "must have either http or tcp"),
        ({}, "", "must have either http or tcp"),
        ({"http": "{}"}, ".http.path", "is required"),
        ({"http": "{path: healthz}"}, ".http.path", "must start with / and have no spaces"),
        ({"http": "{path: '/a b'}"}, ".http.path", "must start with / and have no spaces"),
        ({"http": "{path: /, method: CONNECT}"}, ".http.method", "must be one of GET, HEAD"),
        ({"http": "{path: /, expected_statuses: 99}"}, ".http.expected_statuses", "must be a status in 100..599"),
        ({"http": "{path: /, expected_statuses: 600}"}, ".http.expected_statuses", "must be a status in 100..599"),
        ({"http": "{path: /, expected_statuses: 300-200}"}, ".http.expected_statuses", "must be a status in 100..599"),
        ({"http": "{path: /, request_headers_to_add: {'a b': c}}"}, ".http.request_headers_to_add", "name of a header"),
        ({"tcp": "{send: xyz}"}, ".tcp.send", "must be bytes in hexadecimal"),
        ({"tcp": "{}", "timeout": "0s"}, ".timeout", "must be at least 1ms"),
        ({"tcp": "{}", "timeout": "5"}, ".timeout", "must be a duration with a unit"),
        ({"tcp": "{}", "interval": "-1s"}, ".interval", "must be a duration with a unit"),
        ({"tcp": "{}", "healthy_threshold": "-1"}, ".healthy_threshold", "must be an integer in 0..4294967295"),
        ({"tcp": "{}", "port": "0"}, ".port", "must be an integer in 1..65535"),
        ({"tcp": "{}", "port": "65536"}, ".port", "must be an integer in 1..65535"),
        ({"tcp": "{}", "reuse_connection": "maybe"}, ".reuse_connection", "must be true or false"),
        ({"tcp": "{}", "hosts": "'a.*.b'"}, ".hosts", "'\\*' is no DNS label"),
        ({"tcp": "{}", "intervall": "1s"}, ".intervall", "is unknown; known are hosts, port, http"),
    ],
)
def test_a_wrong_value_is_refused_at_its_place(tmp_path, fields, path, rule):
    with pytest.raises(ConfigError, match=rule) as refused:
        load_one(tmp_path, **fields)

    assert refused.value.path == f"{tmp_path}/boot.yaml: health_checks[0]{path}"


def test_two_rules_for_the_same_hosts_are_refused(tmp_path):
    rule = LEAST.partition("health_checks:")[2]

    with pytest.raises(ConfigError, match=r"health_checks\[1\].hosts = .* has a health check already"):
        load(tmp_path, "health_checks:" + rule + rule)


def test_several_hosts_share_a_rule(tmp_path):
    rules = load(tmp_path, LEAST.replace('"*.default.svc.cluster.local"', "[a.example, b.example]"))

    assert [rule.host for rule in rules] == ["a.example", "b.example"]
    assert rules[0].health_check is rules[1].health_check


def rule_for(host, port=None, path="/"):
    check = HealthCheck(
        check=HttpHealthCheck(path=path), timeout_ms=1, interval_ms=1, unhealthy_threshold=1, healthy_threshold=1
    )
    return HealthCheckRule(host, port, check)


RULES = HealthCheckRules(
    [
        rule_for("*", path="/any"),
        rule_for("*.example", 9090, path="/metrics"),
        rule_for("*.example", path="/example"),
        rule_for("a.example", path="/a"),
    ]
)


@pytest.mark.parametrize(
    ("host", "port", "path"),
    [
        ("a.example", 80, "/a"),
        ("a.example", 9090, "/a"),
        ("b.example", 80, "/example"),
        ("b.example", 9090, "/metrics"),
        ("c.test", 9090, "/any"),
    ],
)
def test_the_most_specific_host_wins_and_then_the_port(host, port, path):
    assert RULES.find(host, port).check.path == path


def test_a_service_without_a_rule_has_no_check():
    assert HealthCheckRules([rule_for("a.example")]).find("b.example", 80) is None


@pytest.mark.parametrize(("status", "expected"), [(199, False), (200, True), (201, False)])
def test_without_expected_statuses_only_200_is_well(status, expected):
    assert HttpHealthCheck(path="/").expects(status) is expected


@pytest.mark.parametrize(("status", "expected"), [(199, False), (200, True), (299, True), (300, False)])
def test_both_ends_of_a_range_are_in_it(status, expected):
    check = HttpHealthCheck(path="/", expected_statuses=((200, 299),), retriable_statuses=((200, 299),))

    assert (check.expects(status), check.retries(status)) == (expected, expected)


def test_without_the_key_nobody_is_checked():
    assert load_bootstrap(None, {}, {}).health_checks == ()


def test_paths_are_kept_when_absolute(tmp_path):
    assert load_one(tmp_path, tcp="{}", event_log_path="/var/log/hc").event_log_path == Path("/var/log/hc")


DOCUMENT = Path(__file__).parents[3] / "docs" / "health-checks.md"


def test_the_example_of_the_documentation_is_read(tmp_path):
    example = DOCUMENT.read_text().partition("```yaml\n")[2].partition("```")[0]

    http, tcp = load(tmp_path, example)

    assert http.health_check.check.path == "/healthz"
    assert tcp.health_check.check == TcpHealthCheck(send=(b"PING\r\n",), receive=(b"+PONG",))


def test_every_field_is_documented(tmp_path):
    known = []
    for fields in ({"x": "1", "tcp": "{}"}, {"http": "{x: 1}"}, {"tcp": "{x: 1}"}):
        with pytest.raises(ConfigError) as refused:
            load_one(tmp_path, **fields)
        known += refused.value.rule.partition("known are ")[2].split(", ")

    assert [name for name in known if f"`{name}`" not in DOCUMENT.read_text()] == []
