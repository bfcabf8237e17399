"""How hosts come back, and what each interval judges."""

import pytest

from outlier import EnvoyRelease, Origin, Result

R = Result


# Active health checks


@pytest.mark.parametrize(
    ("healthy", "failed_active_hc", "returns"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_healthy_check_of_a_host_that_passed_brings_it_back(make_cluster, healthy, failed_active_hc, returns):
    subject = make_cluster(hosts=1, active_health_checker=True)
    subject.eject(subject.hosts[0])
    subject.time.set_ms(1_000)
    subject.detector.on_active_health_check(subject.hosts[0], healthy=healthy, failed_active_hc=failed_active_hc)

    assert subject.hosts[0].ejected is not returns
    assert (subject.hosts[0].last_unejection_ms == 1_000) is returns


@pytest.mark.parametrize(
    ("checker", "option", "release"),
    [(False, True, EnvoyRelease.V1_40), (True, False, EnvoyRelease.V1_40), (True, True, EnvoyRelease.V1_8)],
    ids=["no checker", "option off", "before 1.26"],
)
def test_check_does_not_bring_a_host_back(make_cluster, checker, option, release):
    subject = make_cluster(
        hosts=1,
        active_health_checker=checker,
        successful_active_health_check_uneject_host=option,
        release=release,
    )
    subject.eject(subject.hosts[0])
    subject.detector.on_active_health_check(subject.hosts[0], healthy=True, failed_active_hc=False)

    assert subject.hosts[0].ejected


def test_check_of_a_host_that_is_in_or_removed_does_nothing(make_cluster):
    subject = make_cluster(hosts=2, active_health_checker=True)
    gone = subject.hosts[1]
    subject.eject(gone)
    subject.detector.remove_host(gone)
    for host in subject.hosts:
        subject.detector.on_active_health_check(host, healthy=True, failed_active_hc=False)

    assert (subject.stats.ejections_active, gone.ejected, len(subject.events)) == (0, True, 1)


# The sweep


def test_only_the_interval_that_ended_is_judged(make_cluster):
    subject = make_cluster(
        hosts=1, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100, enforcing_consecutive_5xx=0
    )
    subject.load_requests(subject.hosts[0], 40, 500)
    subject.sweep(10_000)
    subject.load_requests(subject.hosts[0], 40, 500)
    subject.sweep(20_000)

    assert subject.ejected() == []


def test_host_that_returns_is_judged_by_the_same_sweep(make_cluster):
    subject = make_cluster(hosts=1, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100)
    subject.eject(subject.hosts[0])
    subject.load_requests(subject.hosts[0], 50, 500)
    subject.sweep(30_000)

    assert subject.told() == [
        "EJECT 10.0.0.0:80 CONSECUTIVE_5XX",
        "UNEJECT 10.0.0.0:80",
        "EJECT 10.0.0.0:80 FAILURE_PERCENTAGE",
    ]


def test_host_ejected_by_external_origin_is_not_judged_by_local(make_cluster):
    subject = make_cluster(
        hosts=1,
        split_external_local_origin_errors=True,
        failure_percentage_minimum_hosts=1,
        enforcing_failure_percentage=100,
        enforcing_consecutive_5xx=0,
        enforcing_consecutive_local_origin_failure=0,
    )
    for _ in range(60):
        subject.hosts[0].put_result(R.EXT_ORIGIN_REQUEST_FAILED, 500)
        subject.hosts[0].put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)
    subject.sweep(10_000)

    assert subject.stats.ejections_detected_failure_percentage == 1
    assert subject.stats.ejections_detected_local_origin_failure_percentage == 0


def test_two_detectors_of_one_sweep_eject_twice_and_the_gauge_leaks(make_cluster):
    """Envoy 1.40, recorded: a bug, kept because users see its gauge."""
    subject = make_cluster(
        hosts=5, success_rate_request_volume=10, failure_percentage_request_volume=10, enforcing_failure_percentage=100
    )
    for host in subject.hosts[1:]:
        subject.load_requests(host, 10, 200)
    for _ in range(10):
        subject.hosts[0].put_http_response_code(500)
        subject.hosts[0].consecutive_5xx = 0
    subject.sweep(10_000)
    during = (subject.stats.ejections_active, subject.hosts[0].num_ejections, list(subject.changes))
    subject.sweep(70_000)

    assert during == (2, 2, ["10.0.0.0:80"] * 2)
    assert (subject.ejected(), subject.stats.ejections_active) == ([], 1)


def test_shown_rate_of_an_ejected_host_is_gone_one_sweep_later(make_cluster):
    subject = make_cluster(hosts=1, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100)
    subject.load_requests(subject.hosts[0], 3, 200)
    subject.load_requests(subject.hosts[0], 4, 500)
    subject.override(enforcing_consecutive_5xx=0)
    subject.load_requests(subject.hosts[0], 43, 500)
    subject.sweep(10_000)
    at_ejection = subject.hosts[0].success_rate
    subject.sweep(20_000)

    assert (subject.ejected(), at_ejection, subject.hosts[0].success_rate) == (["10.0.0.0:80"], 6.0, -1.0)


def test_interval_override_is_honoured_from_the_next_period(make_cluster):
    subject = make_cluster(hosts=1)
    subject.override(interval_ms=2_000)
    running = subject.detector.next_sweep_ms
    subject.sweep(10_000)

    assert (running, subject.detector.interval_ms, subject.detector.next_sweep_ms) == (10_000, 2_000, 12_000)


def test_cluster_figures_are_minus_one_until_computed(make_cluster):
    subject = make_cluster(hosts=5, success_rate_request_volume=1)
    before = (subject.detector.success_rate_average, subject.detector.success_rate_ejection_threshold)
    for host in subject.hosts:
        subject.load_requests(host, 1, 200)
    subject.sweep(10_000)
    computed = (subject.detector.success_rate_average, subject.detector.success_rate_ejection_threshold)
    subject.sweep(20_000)

    assert (before, computed) == ((-1, -1), (100, 100))
    assert (subject.detector.success_rate_average, subject.detector.threshold(Origin.EXTERNAL)) == (-1, None)
    assert subject.detector.local_origin_success_rate_average == -1
    assert subject.detector.local_origin_success_rate_ejection_threshold == -1
