"""What the detector makes of reports: runs of failures, the limit, the chance of enforcement."""

import pytest

from outlier import ListedRandom, Outcome, Result

R = Result


# Runs of failures


def test_fifth_5xx_in_a_row_ejects(cluster):
    """Envoy: OutlierDetectorImplTest.BasicFlow5xxViaHttpCodes."""
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 500)
    before = cluster.ejected()
    cluster.load_requests(host, 1, 500)

    assert (before, cluster.ejected()) == ([], [host.address])


def test_success_resets_consecutive_5xx(cluster):
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 500)
    cluster.load_requests(host, 1, 200)
    cluster.load_requests(host, 4, 500)

    assert cluster.ejected() == []


def test_gateway_is_judged_before_5xx(cluster):
    cluster.load_requests(cluster.hosts[0], 5, 503)

    assert cluster.told() == [
        "EJECT 10.0.0.0:80 CONSECUTIVE_GATEWAY_FAILURE?",
        "EJECT 10.0.0.0:80 CONSECUTIVE_5XX",
    ]


def test_5xx_vanishes_when_the_same_answer_made_the_gateway_detector_eject(make_cluster):
    """Envoy 1.40, recorded; the 5xx run keeps counting until the host returns."""
    subject = make_cluster(hosts=1, enforcing_consecutive_gateway_failure=100)
    host = subject.hosts[0]
    subject.load_requests(host, 5, 503)

    assert subject.told() == ["EJECT 10.0.0.0:80 CONSECUTIVE_GATEWAY_FAILURE"]
    assert (subject.stats.ejections_detected_consecutive_5xx, host.consecutive_5xx) == (0, 5)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"enforcing_consecutive_5xx": 0}, "not enforced"),
        ({"max_ejection_percent": 0}, "over the limit"),
        ({}, "ejected"),
    ],
)
def test_run_starts_afresh_whatever_became_of_the_detection(make_cluster, config, name):
    subject = make_cluster(hosts=1, consecutive_gateway_failure=0, **config)
    host = subject.hosts[0]
    subject.load_requests(host, 5, 503)

    assert (subject.detections[-1].outcome.value, host.consecutive_5xx) == (name, 0)


def test_own_run_is_reset_and_the_other_left(make_cluster):
    subject = make_cluster(hosts=1, consecutive_gateway_failure=3)
    host = subject.hosts[0]
    subject.load_requests(host, 3, 503)

    assert (host.consecutive_gateway_failure, host.consecutive_5xx) == (0, 3)


def test_local_run_is_reset_after_detection(make_cluster):
    subject = make_cluster(
        hosts=1, split_external_local_origin_errors=True, enforcing_consecutive_local_origin_failure=0
    )
    for _ in range(10):
        subject.hosts[0].put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)

    assert subject.stats.ejections_detected_consecutive_local_origin_failure == 2


def test_failures_while_ejected_are_not_detected(cluster):
    """Envoy: Consecutive_5xxAlreadyEjected."""
    host = cluster.hosts[0]
    cluster.load_requests(host, 5, 500)
    cluster.load_requests(host, 1, 200)
    cluster.load_requests(host, 5, 500)

    assert cluster.stats.ejections_detected_consecutive_5xx == 1
    assert host.consecutive_5xx == 5


def test_return_clears_every_run(make_cluster):
    subject = make_cluster(hosts=1, split_external_local_origin_errors=True)
    host = subject.hosts[0]
    subject.load_requests(host, 7, 503)
    host.put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)
    subject.sweep(30_000)

    assert not host.ejected
    assert host.consecutive_5xx == host.consecutive_gateway_failure == host.consecutive_local_origin_failure == 0


# The limit and the chance


def test_limit_saves_the_second_host_without_an_event(make_cluster):
    subject = make_cluster(hosts=2, max_ejection_percent=50)
    for host in subject.hosts:
        subject.eject(host)

    assert subject.ejected() == ["10.0.0.0:80"]
    assert (len(subject.events), subject.stats.ejections_overflow, subject.stats.ejections_total) == (1, 1, 1)
    assert subject.stats.ejections_consecutive_5xx == 2


def test_limit_uses_its_own_count_and_not_the_gauge(make_cluster):
    subject = make_cluster(hosts=2, max_ejection_percent=50)
    subject.stats.ejections_active = 2
    subject.eject(subject.hosts[0])

    assert subject.ejected() == ["10.0.0.0:80"]
    assert subject.stats.ejections_active == 3


def test_always_eject_one_host_needs_nobody_ejected(make_cluster):
    subject = make_cluster(hosts=3, max_ejection_percent=10, always_eject_one_host=True)
    for host in subject.hosts:
        subject.eject(host)

    assert (subject.ejected(), subject.stats.ejections_overflow) == (["10.0.0.0:80"], 2)


def test_enforcement_is_drawn_for_each_detection(make_cluster):
    """The jitter's draw comes between: 1.40 uses up a number for it even without a bound."""
    subject = make_cluster(hosts=3, enforcing_consecutive_5xx=50, random=ListedRandom([50, 49, 0, 99]))
    for host in subject.hosts:
        subject.eject(host)

    assert [detection.enforcement.draw for detection in subject.detections] == [50, 49, 99]
    assert subject.ejected() == ["10.0.0.1:80"]


def test_unenforced_detection_is_logged_with_the_old_count(make_cluster):
    subject = make_cluster(hosts=1, enforcing_consecutive_5xx=0)
    subject.eject(subject.hosts[0])

    assert (subject.events[0].enforced, subject.events[0].num_ejections) == (False, 0)
    assert (subject.stats.ejections_total, subject.stats.ejections_enforced_total) == (1, 0)
    assert subject.changes == []


def test_gateway_ejection_is_not_in_the_deprecated_total(make_cluster):
    subject = make_cluster(hosts=1, enforcing_consecutive_gateway_failure=100, enforcing_consecutive_5xx=0)
    subject.load_requests(subject.hosts[0], 5, 503)

    assert (subject.stats.ejections_total, subject.stats.ejections_enforced_total) == (0, 1)
    assert subject.stats.ejections_enforced_consecutive_gateway_failure == 1


# What is told


def test_detections_are_told_with_their_outcome(make_cluster):
    subject = make_cluster(hosts=2, max_ejection_percent=50)
    subject.load_requests(subject.hosts[0], 5, 503)
    subject.eject(subject.hosts[1])

    assert [(d.type.value, d.outcome) for d in subject.detections] == [
        ("CONSECUTIVE_GATEWAY_FAILURE", Outcome.NOT_ENFORCED),
        ("CONSECUTIVE_5XX", Outcome.EJECTED),
        ("CONSECUTIVE_5XX", Outcome.OVERFLOW),
    ]


def test_repr_counts_hosts_and_ejections(cluster):
    cluster.eject(cluster.hosts[0])

    assert repr(cluster.detector) == "Detector(c, 10 hosts, 1 ejected)"
