"""Hosts that come and go, and what is told of each change, in which order."""

from outlier import EjectionType, Result

R = Result


# Membership


def test_removed_host_leaves_the_gauge_without_an_event(cluster):
    host = cluster.hosts[0]
    cluster.eject(host)
    told, changes = len(cluster.events), len(cluster.changes)
    cluster.detector.remove_host(host)

    assert (cluster.stats.ejections_active, len(cluster.events), len(cluster.changes)) == (0, told, changes)
    assert host not in cluster.detector


def test_removing_twice_counts_once(cluster):
    cluster.eject(cluster.hosts[0])
    cluster.eject(cluster.hosts[1])
    cluster.detector.remove_host(cluster.hosts[0])
    cluster.detector.remove_host(cluster.hosts[0])

    assert cluster.stats.ejections_active == 1


def test_removed_host_is_judged_no_more(cluster):
    host = cluster.hosts[0]
    cluster.detector.remove_host(host)
    cluster.eject(host)

    assert (host.ejected, cluster.events) == (False, [])


def test_address_that_returns_is_a_new_host(cluster):
    cluster.eject(cluster.hosts[0])
    cluster.detector.remove_host(cluster.hosts[0])
    fresh = cluster.detector.add_host(cluster.hosts[0].address)

    assert (fresh.ejected, fresh.num_ejections, fresh.backoff, fresh.last_ejection_ms) == (False, 0, 0, None)


def test_closing_lowers_the_gauge_by_the_ejected_hosts(cluster):
    for host in cluster.hosts[:3]:
        cluster.eject(host)
    cluster.detector.close()

    assert (cluster.stats.ejections_active, cluster.detector.hosts) == (0, ())


def test_detection_that_waits_for_the_main_thread_is_dropped_with_its_host(cluster):
    waiting = []
    cluster.detector._post = waiting.append
    host = cluster.hosts[0]
    cluster.eject(host)
    cluster.detector.remove_host(host)
    for task in waiting:
        task()

    assert (len(waiting), cluster.events, host.ejected) == (1, [], False)


def test_callback_may_remove_hosts(make_cluster):
    subject = make_cluster(
        hosts=5, success_rate_request_volume=10, success_rate_stdev_factor=100, enforcing_consecutive_5xx=0
    )
    last = subject.hosts[4]
    subject.detector._on_change = lambda _monitor: subject.detector.remove_host(last)
    for host in subject.hosts:
        subject.load_requests(host, 10, 500 if host in (subject.hosts[0], last) else 200)
    subject.sweep(10_000)

    assert subject.ejected() == ["10.0.0.0:80"]
    assert (last.ejected, subject.stats.ejections_active) == (False, 1)


# Callbacks and events


def test_change_is_told_before_the_event(make_cluster):
    subject = make_cluster(hosts=1)
    order = []
    subject.detector._on_change = lambda monitor: order.append(f"ejected {monitor.ejected}")
    subject.detector._event_log._on_event = lambda event: order.append(event.action.value)
    subject.eject(subject.hosts[0])
    subject.sweep(30_000)

    assert order == ["ejected True", "EJECT", "ejected False", "UNEJECT"]


def test_degraded_mark_is_told_after_its_event(make_cluster):
    subject = make_cluster(hosts=1, detect_degraded_hosts=True)
    order = []
    subject.detector._on_change = lambda monitor: order.append(f"degraded {monitor.degraded}")
    subject.detector._event_log._on_event = lambda event: order.append(event.action.value)
    subject.hosts[0].put_result(R.EXT_ORIGIN_REQUEST_DEGRADED, 200)
    subject.sweep(30_000)

    assert order == ["EJECT", "degraded True", "UNEJECT", "degraded False"]


def test_seconds_since_last_action_are_whole_and_absent_at_first(make_cluster):
    subject = make_cluster(hosts=1, base_ejection_time_ms=1_999)
    subject.eject(subject.hosts[0])
    subject.sweep(1_999)
    subject.time.set_ms(4_999)
    subject.eject(subject.hosts[0])

    assert [event.secs_since_last_action for event in subject.events] == [None, 1, 3]


def test_unejection_names_what_it_ends(make_cluster):
    subject = make_cluster(hosts=1, enforcing_consecutive_gateway_failure=100)
    subject.load_requests(subject.hosts[0], 5, 503)
    subject.sweep(30_000)

    assert subject.events[-1].type is EjectionType.CONSECUTIVE_GATEWAY_FAILURE
    assert (subject.events[-1].unejection.out_ms, subject.events[-1].unejection.ejection_time_ms) == (30_000, 30_000)
