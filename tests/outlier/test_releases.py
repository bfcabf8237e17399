"""Every switch of the table shows in behaviour, and would be noticed if it were flipped in its release.

An observer turns on what its switch needs to be visible at all: no jitter shows where the backoff has no cap.
"""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlier import Behaviour, EnvoyRelease, EventLogFormat, ListedRandom, Result
from outlier.reporting import report_connected, report_overflow, report_response, report_timeout
from tests.outlier.conftest import Cluster

RELEASES = {release.value: release.behaviour for release in EnvoyRelease}
SWITCHES = [field.name for field in attrs.fields(Behaviour)]


def limit_counts_this_ejection(behaviour, n):
    """Whether one of `n` hosts may go at a limit of one percent below its share."""
    subject = Cluster(hosts=n, release=behaviour, max_ejection_percent=100 // n - 1)
    subject.eject(subject.hosts[0])
    return subject.ejected() == []


def limit_reads_gauge(behaviour, n):
    """Whether a gauge that somebody else filled up saves everyone."""
    subject = Cluster(hosts=n, release=behaviour)
    subject.stats.ejections_active = n
    subject.eject(subject.hosts[0])
    return subject.ejected() == []


def always_eject_one_host(behaviour, n):
    """Whether the option lets one go where the limit is zero."""
    subject = Cluster(hosts=n, release=behaviour, max_ejection_percent=0, always_eject_one_host=True)
    subject.eject(subject.hosts[0])
    return len(subject.ejected()) == 1


def capped_backoff(behaviour, n):
    """Whether `n` ejections in a row end within the maximum."""
    subject = Cluster(hosts=1, release=behaviour, base_ejection_time_ms=1000, max_ejection_time_ms=1000)
    for _ in range(n):
        subject.eject(subject.hosts[0])
        subject.sweep(subject.time.monotonic_ms() + 1000)
        if subject.ejected():
            return False
    return True


def decay_needs_full_interval(behaviour, n):
    """Whether the multiplier survives a sweep right after the host's return."""
    capped = attrs.evolve(behaviour, capped_backoff=True)
    subject = Cluster(hosts=1, release=capped, base_ejection_time_ms=1000 * n)
    subject.eject(subject.hosts[0])
    subject.sweep(1000 * n)
    subject.sweep(1000 * n + 1)
    return subject.hosts[0].backoff == 1


def jitter(behaviour, n):
    """Whether a drawn jitter lengthens the ejection."""
    capped = attrs.evolve(behaviour, capped_backoff=True)
    subject = Cluster(hosts=1, release=capped, max_ejection_time_jitter_ms=n, random=ListedRandom([n]))
    subject.eject(subject.hosts[0])
    return subject.detector.backoff.ejection_time_ms(subject.hosts[0]) == 30_000 + n


def split_local_origin(behaviour, n):
    """Whether `n` refused connections leave the external results alone in split mode."""
    subject = Cluster(hosts=1, release=behaviour, split_external_local_origin_errors=True)
    for _ in range(n):
        subject.hosts[0].put_result(Result.LOCAL_ORIGIN_CONNECT_FAILED)
    return (subject.hosts[0].external.total, subject.hosts[0].local.total) == (0, n)


def split_keeps_code(behaviour, n):
    """Whether `n` reports of a 500 are kept from the gateway detector in split mode."""
    split = attrs.evolve(behaviour, split_local_origin=True)
    subject = Cluster(hosts=1, release=split, split_external_local_origin_errors=True, consecutive_gateway_failure=0)
    for _ in range(n):
        subject.hosts[0].put_result(Result.EXT_ORIGIN_REQUEST_FAILED, 500)
    return subject.hosts[0].consecutive_gateway_failure == 0


def failure_percentage(behaviour, n):
    """Whether a host of which everything fails is found by percentage."""
    subject = Cluster(
        hosts=n, release=behaviour, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100,
        consecutive_5xx=0, success_rate_request_volume=10_000,
    )  # fmt: skip
    subject.load_requests(subject.hosts[0], 50, 500)
    subject.sweep(10_000)
    return subject.ejected() == ["10.0.0.0:80"]


def idle_hosts_have_rate(behaviour, n):
    """Whether an idle host spoils the average of `n` busy ones where no volume is asked for."""
    subject = Cluster(hosts=n + 1, release=behaviour, success_rate_request_volume=0, success_rate_minimum_hosts=1)
    for host in subject.hosts[:n]:
        subject.load_requests(host, 1, 200)
    subject.sweep(10_000)
    return subject.detector.success_rate_average != 100.0


def check(behaviour, *, healthy, option):
    subject = Cluster(
        hosts=1, release=behaviour, active_health_checker=True, successful_active_health_check_uneject_host=option
    )
    subject.eject(subject.hosts[0])
    subject.detector.on_active_health_check(subject.hosts[0], healthy=healthy, failed_active_hc=False)
    return subject.ejected() == []


def active_hc_unejects(behaviour, n):
    """Whether a healthy check brings a host back."""
    return check(behaviour, healthy=True, option=True)


def active_hc_uneject_configurable(behaviour, n):
    """Whether the option keeps it out, where checks bring hosts back at all."""
    return not check(attrs.evolve(behaviour, active_hc_unejects=True), healthy=True, option=False)


def active_hc_must_be_healthy(behaviour, n):
    """Whether a failing check leaves it out, where checks bring hosts back at all."""
    return not check(attrs.evolve(behaviour, active_hc_unejects=True), healthy=False, option=True)


def degraded_hosts(behaviour, n):
    """Whether `n` degraded answers mark a host once."""
    subject = Cluster(hosts=1, release=behaviour, detect_degraded_hosts=True)
    for _ in range(n):
        subject.hosts[0].put_result(Result.EXT_ORIGIN_REQUEST_DEGRADED, 200)
    return (subject.hosts[0].degraded, subject.hosts[0].num_degradations) == (True, 1)


def router_reports_results(behaviour, n):
    """Whether `n` ready connections are told to a host in split mode."""
    split = attrs.evolve(behaviour, split_local_origin=True)
    subject = Cluster(hosts=1, release=split, split_external_local_origin_errors=True)
    for _ in range(n):
        report_connected(subject.hosts[0])
    return subject.hosts[0].local.total == n


def router_reports_response_result(behaviour, n):
    """Whether a 200 is told as a result: before 1.36's split mode that counted a local success too."""
    split = attrs.evolve(behaviour, split_local_origin=True, split_keeps_code=False)
    subject = Cluster(hosts=1, release=split, split_external_local_origin_errors=True)
    for _ in range(n):
        report_response(subject.hosts[0], 200)
    return subject.hosts[0].local.total == n


def error_matcher(behaviour, n):
    """Whether `n` answers that the matcher calls errors are failures."""
    subject = Cluster(hosts=1, release=behaviour)
    for _ in range(n):
        report_response(subject.hosts[0], 404, matched=True)
    return subject.hosts[0].external.success == 0


def overflow_is_failure(behaviour, n):
    """Whether `n` overflows are charged to the host."""
    subject = Cluster(hosts=1, release=behaviour, consecutive_5xx=0)
    for _ in range(n):
        report_overflow(subject.hosts[0])
    return subject.hosts[0].consecutive_5xx == n


def late_timeout_is_failure(behaviour, n):
    """Whether `n` timeouts after response headers are charged to the host."""
    subject = Cluster(hosts=1, release=behaviour, consecutive_5xx=0)
    for _ in range(n):
        report_timeout(subject.hosts[0], responding=True)
    return subject.hosts[0].consecutive_5xx == n


def event_log_format(behaviour, n):
    """Which of the three the line of an ejection is."""
    subject = Cluster(hosts=1, release=behaviour)
    subject.eject(subject.hosts[0])
    keys = list(json.loads(subject.events[0].to_json()))
    if keys[0] == "time":
        return EventLogFormat.HAND_MADE
    return EventLogFormat.TIMESTAMP_LAST if keys[-1] == "timestamp" else EventLogFormat.FIELD_ORDER


def observe(switch, behaviour, n):
    return globals()[switch](behaviour, n)


def flipped(behaviour, switch):
    if switch == "event_log_format":
        formats = list(EventLogFormat)
        following = formats[(formats.index(behaviour.event_log_format) + 1) % len(formats)]
        return attrs.evolve(behaviour, event_log_format=following)
    return attrs.evolve(behaviour, **{switch: not getattr(behaviour, switch)})


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("release", RELEASES)
@given(n=st.integers(2, 12))
def test_switch_shows_in_behaviour(release, switch, n):
    behaviour = RELEASES[release]

    assert observe(switch, behaviour, n) == getattr(behaviour, switch)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("release", RELEASES)
def test_flipped_switch_would_be_noticed(release, switch):
    behaviour = RELEASES[release]

    assert observe(switch, behaviour, 3) != observe(switch, flipped(behaviour, switch), 3)


def test_table_of_differences():
    """The releases differ where Envoy's changelog says so; a changed cell must be changed here too."""
    v1_8, v1_27, v1_40 = RELEASES.values()
    differences = [
        {name for name in SWITCHES if getattr(one, name) != getattr(other, name)}
        for one, other in ((v1_8, v1_27), (v1_27, v1_40))
    ]

    assert differences == [
        {
            "limit_reads_gauge", "capped_backoff", "jitter", "split_local_origin", "failure_percentage",
            "idle_hosts_have_rate", "active_hc_unejects", "router_reports_results", "overflow_is_failure",
            "late_timeout_is_failure", "event_log_format",
        },
        {
            "limit_counts_this_ejection", "always_eject_one_host", "decay_needs_full_interval", "split_keeps_code",
            "active_hc_uneject_configurable", "active_hc_must_be_healthy", "degraded_hosts",
            "router_reports_response_result", "error_matcher", "event_log_format",
        },
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "ejected"), [("1.8", 2), ("1.27", 2), ("1.40", 1)])
def test_ten_hosts_at_eleven_percent(version, ejected):
    """What the articles on Istio 1.0 describe, and what 1.40 does."""
    subject = Cluster(hosts=10, release=EnvoyRelease(version), max_ejection_percent=11)
    for host in subject.hosts[:3]:
        subject.eject(host)

    assert len(subject.ejected()) == ejected


def test_behaviour_between_two_releases_can_be_mixed():
    subject = Cluster(
        hosts=1, release=attrs.evolve(EnvoyRelease.V1_27.behaviour, jitter=False), random=ListedRandom([9])
    )
    subject.eject(subject.hosts[0])

    assert subject.hosts[0].jitter_ms == 0
