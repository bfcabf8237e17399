import pytest

from outlier import EjectionType, EnvoyRelease, ListedRandom, Origin, Result


def reasons(subject, host, **kwargs):
    return subject.detector.verdict(host, **kwargs).reasons()


def test_host_that_is_in_shows_how_far_its_runs_are(make_cluster):
    subject = make_cluster(hosts=3, max_ejection_percent=10)
    subject.load_requests(subject.hosts[0], 3, 503)
    verdict = subject.detector.verdict(subject.hosts[0])

    assert (verdict.ejected, verdict.time_left, verdict.last_detection) == (False, None, None)
    assert {run.type: (run.run, run.threshold) for run in verdict.runs} == {
        EjectionType.CONSECUTIVE_5XX: (3, 5),
        EjectionType.CONSECUTIVE_GATEWAY_FAILURE: (3, 5),
    }
    assert verdict.reasons() == (
        "In: not ejected.",
        "CONSECUTIVE_5XX: 3 of 5 in a row.",
        "CONSECUTIVE_GATEWAY_FAILURE: 3 of 5 in a row.",
        "No external-origin results in the last interval.",
        "3 hosts, cap 10 %, one more ejection would make it 33.3 %.",
    )


def test_local_runs_and_rates_belong_to_split_mode(make_cluster):
    subject = make_cluster(hosts=1, split_external_local_origin_errors=True)
    subject.hosts[0].put_result(Result.LOCAL_ORIGIN_TIMEOUT)
    verdict = subject.detector.verdict(subject.hosts[0])

    assert EjectionType.CONSECUTIVE_LOCAL_ORIGIN_FAILURE in {run.type for run in verdict.runs}
    assert [rate.origin for rate in verdict.rates] == [Origin.EXTERNAL, Origin.LOCAL]


@pytest.mark.parametrize(
    ("at_ms", "left_ms", "sweep_ms"),
    [(1_000, 29_000, 30_000), (9_999, 20_001, 30_000)],
    ids=["early", "before the first sweep"],
)
def test_ejected_host_shows_the_time_left_and_the_sweep_that_ends_it(make_cluster, at_ms, left_ms, sweep_ms):
    subject = make_cluster(hosts=1)
    subject.eject(subject.hosts[0])
    subject.time.set_ms(at_ms)
    left = subject.detector.verdict(subject.hosts[0]).time_left

    assert (left.since_ms, left.lasts_ms, left.left_ms, left.sweep_ms) == (0, 30_000, left_ms, sweep_ms)


@pytest.mark.parametrize(("lasts_ms", "sweep_ms"), [(9_999, 10_000), (10_000, 10_000), (10_001, 20_000)])
def test_ejection_ends_with_the_sweep_at_or_after_its_time(make_cluster, lasts_ms, sweep_ms):
    subject = make_cluster(hosts=1, base_ejection_time_ms=lasts_ms)
    subject.eject(subject.hosts[0])

    assert subject.detector.verdict(subject.hosts[0]).time_left.sweep_ms == sweep_ms


def test_host_whose_time_is_over_waits_for_the_sweep(make_cluster):
    subject = make_cluster(hosts=1, base_ejection_time_ms=2_000)
    subject.eject(subject.hosts[0])
    subject.time.set_ms(7_500)

    assert reasons(subject, subject.hosts[0])[0] == (
        "Ejected: CONSECUTIVE_5XX (5 in a row, threshold 5), for 2 s; "
        "its time is over, the sweep in 2.5 s brings it back."
    )


def test_panic_is_told_for_a_host_that_is_out(make_cluster):
    subject = make_cluster(hosts=2)
    subject.eject(subject.hosts[0])

    panic = "Panic: too few hosts are healthy, so it gets requests all the same."
    assert panic in reasons(subject, subject.hosts[0], panic=True)
    assert panic not in reasons(subject, subject.hosts[0], panic=False)
    assert panic not in reasons(subject, subject.hosts[1], panic=True)


def test_host_that_the_cap_saved_says_so(make_cluster):
    subject = make_cluster(hosts=3, max_ejection_percent=10)
    subject.eject(subject.hosts[0])
    subject.time.set_ms(2_500)

    assert reasons(subject, subject.hosts[0])[1] == (
        "Last detection, 2.5 s ago: CONSECUTIVE_5XX (5 in a row, threshold 5), but the cap forbids it: "
        "3 hosts, cap 10 %, one more ejection would make it 33.3 %."
    )


def test_limit_of_an_old_release_is_told_by_its_own_rule(make_cluster):
    subject = make_cluster(hosts=10, max_ejection_percent=10, release=EnvoyRelease.V1_8)
    fresh = reasons(subject, subject.hosts[0])[-1]
    subject.eject(subject.hosts[0])

    assert fresh == "10 hosts, 0 % are below the cap of 10 %."
    assert reasons(subject, subject.hosts[1])[-1] == "10 hosts, 1 ejected, 10 % are not below the cap of 10 %."


def test_exception_of_the_limit_is_named(make_cluster):
    subject = make_cluster(hosts=3, max_ejection_percent=10, always_eject_one_host=True)

    assert reasons(subject, subject.hosts[0])[-1] == "3 hosts, cap 10 %, one may go by always_eject_one_host."


@pytest.mark.parametrize(
    ("percent", "randoms", "told"),
    [(0, [], "but enforced at 0 % only"), (40, [63], "but enforced at 40 % only, 63 was drawn")],
)
def test_unenforced_detection_tells_its_chance(make_cluster, percent, randoms, told):
    subject = make_cluster(hosts=1, enforcing_consecutive_5xx=percent, random=ListedRandom(randoms))
    subject.eject(subject.hosts[0])

    assert told in reasons(subject, subject.hosts[0])[1]


def test_success_rate_verdict_has_the_exact_numbers(make_cluster):
    subject = make_cluster(hosts=5, success_rate_request_volume=3, consecutive_5xx=0)
    for host in subject.hosts:
        subject.load_requests(host, 2, 200)
        subject.load_requests(host, 1, 500 if host is subject.hosts[0] else 200)
    subject.sweep(10_000)

    assert reasons(subject, subject.hosts[0])[0].startswith(
        "Ejected: SUCCESS_RATE (66.7 % of 3 succeeded; 5 hosts average 93.3 %, deviation 13.33, threshold 68"
    )
    assert any(
        line.startswith("External origin: 100 % of 3 succeeded, the cluster's threshold is 68")
        for line in reasons(subject, subject.hosts[1])
    )


def test_failure_percentage_verdict_has_the_exact_numbers(make_cluster):
    subject = make_cluster(
        hosts=1, failure_percentage_minimum_hosts=1, enforcing_failure_percentage=100, consecutive_5xx=0
    )
    subject.load_requests(subject.hosts[0], 51, 500)
    subject.load_requests(subject.hosts[0], 9, 200)
    subject.sweep(10_000)

    assert reasons(subject, subject.hosts[0])[0].startswith(
        "Ejected: FAILURE_PERCENTAGE (85 % of 60 failed, threshold 85 %)"
    )


@pytest.mark.parametrize(
    ("requests", "hosts", "told"),
    [
        (99, 5, "External origin: 100 % of 99 succeeded, too few for a success rate (100)."),
        (100, 1, "External origin: 100 % of 100 succeeded, but too few hosts had enough results for a success rate."),
    ],
)
def test_rate_that_was_not_judged_says_why(make_cluster, requests, hosts, told):
    subject = make_cluster(hosts=hosts)
    subject.load_requests(subject.hosts[0], requests, 200)
    subject.sweep(10_000)

    assert told in reasons(subject, subject.hosts[0])


def test_detector_that_is_off_says_so(make_cluster):
    subject = make_cluster(hosts=1, consecutive_gateway_failure=0)

    assert "CONSECUTIVE_GATEWAY_FAILURE: off, its threshold is 0." in reasons(subject, subject.hosts[0])


def test_degraded_host_shows_how_long(make_cluster):
    subject = make_cluster(hosts=1, detect_degraded_hosts=True)
    subject.hosts[0].put_result(Result.EXT_ORIGIN_REQUEST_DEGRADED, 200)

    assert reasons(subject, subject.hosts[0])[1:3] == (
        "Marked degraded; 30 s left, the sweep in 30 s brings it back.",
        "Last detection, 0 s ago: DEGRADED, marked for 30 s.",
    )


def test_host_that_returned_says_how_often_it_was_out(make_cluster):
    subject = make_cluster(hosts=1)
    subject.eject(subject.hosts[0])
    subject.sweep(30_000)

    assert reasons(subject, subject.hosts[0])[0] == "In: ejected once before."


def test_host_that_is_no_member_has_no_limit(make_cluster):
    subject = make_cluster(hosts=1)
    subject.detector.remove_host(subject.hosts[0])

    assert subject.detector.verdict(subject.hosts[0]).limit is None


def test_average_that_is_no_number_is_told(make_cluster):
    """1.8 with a request volume of 0 and an idle host."""
    subject = make_cluster(
        hosts=2, success_rate_request_volume=0, success_rate_minimum_hosts=1, release=EnvoyRelease.V1_8
    )
    subject.load_requests(subject.hosts[0], 1, 200)
    subject.sweep(10_000)

    assert "External origin: 100 % of 1 succeeded, the cluster's threshold is nan %." in reasons(
        subject, subject.hosts[0]
    )
