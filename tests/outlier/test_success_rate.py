import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlier import EnvoyRelease, Origin, Result
from outlier.success_rate import ejection_threshold


def test_deviation_divides_by_all_hosts():
    """Envoy: OutlierUtility.SRThreshold."""
    found = ejection_threshold([50.0, 100.0, 100.0, 100.0, 100.0], 1900)

    assert (found.average, found.deviation, found.threshold, found.hosts) == (90.0, 20.0, 52.0, 5)


def test_threshold_needs_rates():
    with pytest.raises(ValueError, match="no success rates"):
        ejection_threshold([], 1900)


@given(st.floats(0, 100), st.integers(1, 50), st.integers(0, 5000))
def test_equal_rates_make_no_outlier(rate, hosts, factor):
    found = ejection_threshold([rate] * hosts, factor)

    assert not rate < found.threshold - 1e-9


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.integers(0, 5000))
def test_threshold_is_at_most_the_average(rates, factor):
    found = ejection_threshold(rates, factor)

    assert found.threshold <= found.average
    assert 0.0 <= found.deviation <= 50.0 + 1e-9


@pytest.mark.parametrize(("bad", "of", "outliers"), [(1, 5, 1), (1, 4, 0), (2, 9, 0), (2, 10, 2)])
def test_equally_bad_hosts_mask_each_other(make_cluster, bad, of, outliers):
    """With k of n hosts down the score is sqrt((n - k) / k) deviations, whatever their rate."""
    subject = make_cluster(hosts=of, success_rate_request_volume=10, success_rate_minimum_hosts=1, consecutive_5xx=0)
    for i, host in enumerate(subject.hosts):
        subject.load_requests(host, 10, 500 if i < bad else 200)
    subject.sweep(10_000)

    assert subject.stats.ejections_detected_success_rate == outliers


def test_nearly_perfect_host_is_an_outlier_among_perfect_ones(make_cluster):
    subject = make_cluster(hosts=5)
    for host in subject.hosts:
        subject.load_requests(host, 999, 200)
        subject.load_requests(host, 1, 500 if host is subject.hosts[2] else 200)
    subject.sweep(10_000)

    assert subject.ejected() == [subject.hosts[2].address]


@pytest.mark.parametrize(("failures", "ejected"), [(84, False), (85, True), (86, True)], ids=["below", "at", "above"])
def test_failure_percentage_at_the_threshold_is_enough(make_cluster, failures, ejected):
    subject = make_cluster(
        hosts=1, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100, consecutive_5xx=0
    )
    subject.load_requests(subject.hosts[0], failures, 500)
    subject.load_requests(subject.hosts[0], 100 - failures, 200)
    subject.sweep(10_000)

    assert subject.hosts[0].ejected is ejected


def test_success_rate_at_the_threshold_is_not_an_outlier(make_cluster):
    subject = make_cluster(
        hosts=2, success_rate_stdev_factor=1000, success_rate_minimum_hosts=1, success_rate_request_volume=1
    )
    subject.load_requests(subject.hosts[0], 1, 200)
    subject.load_requests(subject.hosts[1], 1, 500)
    subject.sweep(10_000)

    assert subject.detector.success_rate_ejection_threshold == 0.0
    assert subject.ejected() == []


@pytest.mark.parametrize(("requests", "judged"), [(99, 0), (100, 1)])
def test_success_rate_needs_its_volume(make_cluster, requests, judged):
    subject = make_cluster(hosts=5)
    for host in subject.hosts:
        subject.load_requests(host, requests, 200)
    subject.sweep(10_000)

    assert (subject.detector.threshold(Origin.EXTERNAL) is not None) == bool(judged)


@pytest.mark.parametrize(("requests", "detected"), [(49, 0), (50, 5)])
def test_failure_percentage_needs_its_volume(make_cluster, requests, detected):
    subject = make_cluster(hosts=5, consecutive_5xx=0)
    for host in subject.hosts:
        subject.load_requests(host, requests, 500)
    subject.sweep(10_000)

    assert subject.stats.ejections_detected_failure_percentage == detected


@pytest.mark.parametrize(("busy", "computed"), [(4, False), (5, True)])
def test_minimum_hosts_counts_those_with_enough_volume(make_cluster, busy, computed):
    subject = make_cluster(hosts=8)
    for host in subject.hosts[:busy]:
        subject.load_requests(host, 100, 200)
    subject.sweep(10_000)

    assert (subject.detector.threshold(Origin.EXTERNAL) is not None) is computed


def test_few_members_are_not_judged_at_all(make_cluster):
    """The early exit looks at all members, so not even a rate is shown."""
    subject = make_cluster(hosts=4)
    for host in subject.hosts:
        subject.load_requests(host, 200, 200)
    subject.sweep(10_000)

    assert [host.success_rate for host in subject.hosts] == [-1.0] * 4


@pytest.mark.parametrize("name", ["success_rate_minimum_hosts", "failure_percentage_minimum_hosts"])
def test_either_minimum_lets_the_rates_be_shown(make_cluster, name):
    subject = make_cluster(hosts=4, **{name: 4})
    for host in subject.hosts:
        subject.load_requests(host, 200, 200)
    subject.sweep(10_000)

    assert [host.success_rate for host in subject.hosts] == [100.0] * 4


@pytest.mark.parametrize(("requests", "shown"), [(29, -1.0), (30, 100.0)])
@pytest.mark.parametrize(
    "volumes", [(30, 100), (100, 30)], ids=["success rate's is smaller", "failure percentage's is smaller"]
)
def test_rate_is_shown_from_the_smaller_volume(make_cluster, requests, shown, volumes):
    subject = make_cluster(
        hosts=5, success_rate_request_volume=volumes[0], failure_percentage_request_volume=volumes[1]
    )
    subject.load_requests(subject.hosts[0], requests, 200)
    subject.sweep(10_000)

    assert subject.hosts[0].success_rate == shown


def test_ejected_hosts_are_left_out_of_the_average(make_cluster):
    subject = make_cluster(hosts=6)
    subject.eject(subject.hosts[0])
    for host in subject.hosts:
        subject.load_requests(host, 100, 500 if host is subject.hosts[0] else 200)
    subject.sweep(10_000)

    assert (subject.detector.success_rate_average, subject.detector.threshold(Origin.EXTERNAL).hosts) == (100.0, 5)


def test_idle_hosts_are_left_out_even_with_volume_zero(make_cluster):
    subject = make_cluster(hosts=6, success_rate_request_volume=0)
    for host in subject.hosts[:5]:
        subject.load_requests(host, 1, 200)
    subject.sweep(10_000)

    assert (subject.detector.success_rate_average, subject.hosts[5].success_rate) == (100.0, -1.0)


def test_idle_host_spoils_the_average_with_volume_zero_in_1_8(make_cluster):
    subject = make_cluster(hosts=6, success_rate_request_volume=0, release=EnvoyRelease.V1_8)
    for host in subject.hosts[:4]:
        subject.load_requests(host, 10, 200)
    subject.load_requests(subject.hosts[4], 4, 500)
    subject.sweep(10_000)

    assert math.isnan(subject.detector.success_rate_average)
    assert subject.ejected() == []


def test_local_origin_is_judged_by_its_own_results(make_cluster):
    subject = make_cluster(
        hosts=5, split_external_local_origin_errors=True, enforcing_consecutive_local_origin_failure=0
    )
    for host in subject.hosts:
        for _ in range(100):
            bad = host is subject.hosts[3]
            host.put_result(Result.LOCAL_ORIGIN_CONNECT_FAILED if bad else Result.LOCAL_ORIGIN_CONNECT_SUCCESS)
    subject.sweep(10_000)

    assert subject.told()[-2] == "EJECT 10.0.0.3:80 SUCCESS_RATE_LOCAL_ORIGIN"
    assert subject.detector.local_origin_success_rate_average == 80.0
    assert (subject.hosts[3].local_origin_success_rate, subject.hosts[3].success_rate) == (0.0, -1.0)
    assert (subject.stats.ejections_success_rate, subject.stats.ejections_total) == (1, 0)


def test_runtime_thresholds_apply_to_the_sweep(make_cluster):
    subject = make_cluster(hosts=5, consecutive_5xx=0)
    subject.override(failure_percentage_threshold=10, enforcing_failure_percentage=100, success_rate_stdev_factor=9000)
    for host in subject.hosts:
        subject.load_requests(host, 90, 200)
        subject.load_requests(host, 10, 500 if host is subject.hosts[0] else 200)
    subject.sweep(10_000)

    assert subject.told() == ["EJECT 10.0.0.0:80 FAILURE_PERCENTAGE"]


def test_success_rate_is_judged_before_failure_percentage(make_cluster):
    subject = make_cluster(hosts=5, consecutive_5xx=0, max_ejection_percent=20, enforcing_failure_percentage=100)
    for host in subject.hosts:
        subject.load_requests(host, 100, 500 if host is subject.hosts[4] else 200)
    subject.sweep(10_000)

    assert [(d.type.value, d.outcome.value) for d in subject.detections] == [
        ("SUCCESS_RATE", "ejected"),
        ("FAILURE_PERCENTAGE", "over the limit"),
    ]
