"""Hosts that say they are degraded."""

from outlier import EjectionType, ListedRandom, Result

R = Result


def degrade(host):
    host.put_result(R.EXT_ORIGIN_REQUEST_DEGRADED, 200)


def test_degraded_needs_its_option(make_cluster):
    subject = make_cluster(hosts=1)
    degrade(subject.hosts[0])

    assert (subject.hosts[0].degraded, subject.stats.ejections_detected_degradation) == (False, 0)


def test_degraded_knows_no_limit_and_no_ejection_count(make_cluster):
    subject = make_cluster(hosts=2, detect_degraded_hosts=True, max_ejection_percent=0)
    for host in subject.hosts:
        degrade(host)

    assert [host.degraded for host in subject.hosts] == [True, True]
    assert (subject.stats.ejections_detected_degradation, subject.stats.ejections_active) == (2, 0)
    assert (subject.stats.ejections_enforced_total, subject.hosts[0].num_ejections) == (0, 0)


def test_further_degraded_answers_change_nothing(make_cluster):
    subject = make_cluster(hosts=1, detect_degraded_hosts=True)
    degrade(subject.hosts[0])
    subject.time.set_ms(20_000)
    degrade(subject.hosts[0])
    subject.sweep(30_000)

    assert (subject.hosts[0].degraded, subject.hosts[0].num_degradations) == (False, 1)


def test_degraded_answers_that_wait_for_the_main_thread_mark_once(make_cluster):
    subject = make_cluster(hosts=1, detect_degraded_hosts=True)
    waiting = []
    subject.detector._post = waiting.append
    degrade(subject.hosts[0])
    degrade(subject.hosts[0])
    for task in waiting:
        task()

    assert (len(waiting), subject.hosts[0].num_degradations, len(subject.events)) == (2, 1, 1)


def test_degraded_mark_lasts_longer_each_time_and_recovers(make_cluster):
    subject = make_cluster(hosts=1, detect_degraded_hosts=True, base_ejection_time_ms=10_000)
    host = subject.hosts[0]
    lengths = []
    for start_ms in (0, 100_000):
        subject.time.set_ms(start_ms)
        degrade(host)
        lengths.append(subject.detector.backoff.degradation_time_ms(host))
        subject.sweep(start_ms + 50_000)
    subject.sweep(159_999)
    before = host.degrade_backoff
    subject.sweep(160_000)

    assert (lengths, before, host.degrade_backoff) == ([10_000, 20_000], 2, 1)


def test_degrading_replaces_the_jitter_of_an_ejection(make_cluster):
    """Envoy keeps both in one field."""
    subject = make_cluster(
        hosts=1, detect_degraded_hosts=True, max_ejection_time_jitter_ms=999, random=ListedRandom([10, 700])
    )
    host = subject.hosts[0]
    subject.eject(host)
    first = subject.detector.backoff.ejection_time_ms(host)
    degrade(host)

    assert (first, subject.detector.backoff.ejection_time_ms(host)) == (30_010, 30_700)


def test_degraded_return_has_no_last_action_unless_the_host_was_ejected(make_cluster):
    subject = make_cluster(hosts=2, detect_degraded_hosts=True)
    degrade(subject.hosts[0])
    degrade(subject.hosts[1])
    subject.eject(subject.hosts[1])
    subject.sweep(30_000)

    returns = [e for e in subject.events if e.type is EjectionType.DEGRADED and e.action.value == "UNEJECT"]
    assert [event.secs_since_last_action for event in returns] == [None, 30]


def test_active_health_check_does_not_end_a_degraded_mark(make_cluster):
    subject = make_cluster(hosts=1, detect_degraded_hosts=True, active_health_checker=True)
    degrade(subject.hosts[0])
    subject.detector.on_active_health_check(subject.hosts[0], healthy=True, failed_active_hc=False)

    assert subject.hosts[0].degraded
