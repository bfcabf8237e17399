import json

import pytest

from outlier import EnvoyRelease
from outlier.events import timestamp


@pytest.mark.parametrize(
    ("system_ms", "text"),
    [
        (1545123600000, "2018-12-18T09:00:00Z"),
        (1545123600001, "2018-12-18T09:00:00.001Z"),
        (1545123600999, "2018-12-18T09:00:00.999Z"),
        (0, "1970-01-01T00:00:00Z"),
    ],
)
def test_timestamp_has_milliseconds_unless_zero(system_ms, text):
    assert timestamp(system_ms) == text


def test_old_timestamp_always_has_milliseconds():
    assert timestamp(0, always_ms=True) == "1970-01-01T00:00:00.000Z"


def unequal_rates(make_cluster, release):
    """One of five hosts at 2/3; average 93.33, deviation 13.33, threshold 67.33."""
    subject = make_cluster(
        hosts=5, success_rate_request_volume=3, success_rate_stdev_factor=1950, consecutive_5xx=0, release=release
    )
    for host in subject.hosts:
        subject.load_requests(host, 2, 200)
        subject.load_requests(host, 1, 500 if host is subject.hosts[0] else 200)
    subject.sweep(10_000)
    return subject.events[0]


def test_rates_are_cut_to_whole_percents_in_the_log_and_exact_in_the_record(make_cluster):
    event = unequal_rates(make_cluster, EnvoyRelease.V1_40)

    assert json.loads(event.to_json())["eject_success_rate_event"] == {
        "host_success_rate": 66,
        "cluster_average_success_rate": 93,
        "cluster_success_rate_ejection_threshold": 67,
    }
    evidence = event.detection.evidence
    assert evidence.success_rate == pytest.approx(66.6667, abs=1e-4)
    assert evidence.average == pytest.approx(93.3333, abs=1e-4)
    assert evidence.deviation == pytest.approx(13.3333, abs=1e-4)
    assert evidence.threshold == pytest.approx(67.3333, abs=1e-4)


def test_timestamp_comes_last_in_1_27(make_cluster):
    line = unequal_rates(make_cluster, EnvoyRelease.V1_27).to_json()

    assert list(json.loads(line))[-2:] == ["eject_success_rate_event", "timestamp"]


def test_line_of_1_8_is_quoted(make_cluster):
    line = unequal_rates(make_cluster, EnvoyRelease.V1_8).to_json()

    assert line == (
        '{"time": "1970-01-01T00:00:10.000Z", "secs_since_last_action": "-1", "cluster": "c", '
        '"upstream_url": "10.0.0.0:80", "action": "eject", "type": "SuccessRate", "num_ejections": "1", '
        '"enforced": "true", "host_success_rate": "66.6667", "cluster_average_success_rate": "93.3333", '
        '"cluster_success_rate_ejection_threshold": "67.3333"}'
    )


def test_unejection_line_always_says_consecutive_5xx(make_cluster):
    """Envoy 1.40, recorded: the enum's zero is printed."""
    subject = make_cluster(hosts=1, enforcing_consecutive_gateway_failure=100)
    subject.load_requests(subject.hosts[0], 5, 503)
    subject.sweep(31_234)

    assert subject.events[1].to_json() == (
        '{"type":"CONSECUTIVE_5XX","timestamp":"1970-01-01T00:00:31.234Z","secs_since_last_action":"31",'
        '"cluster_name":"c","upstream_url":"10.0.0.0:80","action":"UNEJECT","num_ejections":1,"enforced":false}'
    )


def test_failure_percentage_line_shows_the_success_rate(make_cluster):
    subject = make_cluster(hosts=5, consecutive_5xx=0)
    for host in subject.hosts:
        subject.load_requests(host, 7, 200)
        subject.load_requests(host, 53, 500)
    subject.sweep(10_000)

    line = json.loads(subject.events[0].to_json())
    assert (line["type"], line["eject_failure_percentage_event"]) == ("FAILURE_PERCENTAGE", {"host_success_rate": 11})


def test_no_receiver_no_events(make_cluster):
    subject = make_cluster(hosts=1)
    subject.detector._event_log._on_event = None
    subject.eject(subject.hosts[0])
    subject.sweep(30_000)

    assert (subject.events, subject.hosts[0].num_ejections) == ([], 1)
