"""Health checks in what `outlier envoy` prints, also in the eyes of a real Envoy."""

from pathlib import Path

import pytest

from proxy.config.health_check import CheckMethod, HealthCheck, HealthCheckRule, HttpHealthCheck, TcpHealthCheck
from tests.proxy.config.resources import service
from tests.proxy.config.test_envoy_bootstrap import bootstrap, clusters, validate

REQUIRED = {"timeout_ms": 1_000, "interval_ms": 5_000, "unhealthy_threshold": 3, "healthy_threshold": 2}
SINK = "type.googleapis.com/envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink"


def with_check(host="*", **fields):
    check = HealthCheck(**(REQUIRED | fields))
    return bootstrap(service("a"), health_checks=(HealthCheckRule(host, None, check),))


def only_check(message):
    (cluster,) = clusters(message).values()
    (check,) = cluster["health_checks"]
    return check


def test_an_http_check_with_everything(envoy, tmp_path):
    message = with_check(
        check=HttpHealthCheck(
            path="/healthz",
            host="h.example",
            method=CheckMethod.POST,
            expected_statuses=((200, 299),),
            retriable_statuses=((503, 503),),
            request_headers_to_add=(("x-share", "50%"),),
        ),
        initial_jitter_ms=100,
        interval_jitter_percent=10,
        reuse_connection=False,
        always_log_health_check_failures=True,
        event_log_path=Path("/tmp/checks.jsonl"),
        ignore_new_hosts_until_first_hc=True,
    )

    assert only_check(message) == {
        "timeout": "1s",
        "interval": "5s",
        "unhealthy_threshold": 3,
        "healthy_threshold": 2,
        "initial_jitter": "0.1s",
        "interval_jitter_percent": 10,
        "no_traffic_healthy_interval": "60s",
        "unhealthy_interval": "5s",
        "unhealthy_edge_interval": "5s",
        "healthy_edge_interval": "5s",
        "reuse_connection": False,
        "always_log_health_check_failures": True,
        "event_logger": [
            {
                "name": "envoy.health_check.event_sinks.file",
                "typed_config": {"@type": SINK, "event_log_path": "/tmp/checks.jsonl"},
            }
        ],
        "http_health_check": {
            "path": "/healthz",
            "host": "h.example",
            "method": "POST",
            "expected_statuses": [{"start": 200, "end": 300}],
            "retriable_statuses": [{"start": 503, "end": 504}],
            "request_headers_to_add": [{"header": {"key": "x-share", "value": "50%%"}}],
        },
    }
    (cluster,) = clusters(message).values()
    assert cluster["common_lb_config"]["ignore_new_hosts_until_first_hc"] is True
    assert cluster["ignore_health_on_host_removal"] is True
    validate(envoy, message, tmp_path)


def test_a_tcp_check(envoy, tmp_path):
    message = with_check(check=TcpHealthCheck(send=(b"PING",), receive=(b"P", b"ONG")))

    assert only_check(message)["tcp_health_check"] == {
        "send": {"text": "50494e47"},
        "receive": [{"text": "50"}, {"text": "4f4e47"}],
    }
    validate(envoy, message, tmp_path)


@pytest.mark.parametrize("host", ["elsewhere.example", "*.elsewhere"])
def test_a_service_without_a_rule_has_no_check(host):
    (cluster,) = clusters(with_check(host, check=TcpHealthCheck())).values()

    assert "health_checks" not in cluster
