import pytest

from outlier import NULL_MONITOR, EjectionType, EnvoyRelease, Result

R = Result


def counts(host):
    return (host.external.success, host.external.total, host.local.success, host.local.total)


def runs(host):
    return (host.consecutive_5xx, host.consecutive_gateway_failure, host.consecutive_local_origin_failure)


@pytest.mark.parametrize("code", [100, 200, 404, 499, 600, 0])
def test_status_outside_500_to_599_is_a_success_and_ends_both_runs(cluster, code):
    host = cluster.hosts[0]
    cluster.load_requests(host, 3, 503)
    host.put_http_response_code(code)

    assert (counts(host)[:2], runs(host)) == ((1, 4), (0, 0, 0))


@pytest.mark.parametrize(("code", "gateway"), [(500, 0), (501, 0), (502, 4), (503, 4), (504, 4), (505, 0), (599, 0)])
def test_gateway_run_is_broken_by_other_5xx(cluster, code, gateway):
    host = cluster.hosts[0]
    cluster.load_requests(host, 3, 503)
    host.put_http_response_code(code)

    assert runs(host)[:2] == (4, gateway)


@pytest.mark.parametrize(
    ("result", "code", "success", "total"),
    [
        (R.EXT_ORIGIN_REQUEST_SUCCESS, None, 1, 1),
        (R.EXT_ORIGIN_REQUEST_SUCCESS, 503, 0, 1),
        (R.EXT_ORIGIN_REQUEST_FAILED, None, 0, 1),
        (R.EXT_ORIGIN_REQUEST_FAILED, 200, 1, 1),
        (R.EXT_ORIGIN_REQUEST_DEGRADED, None, 1, 1),
        (R.LOCAL_ORIGIN_CONNECT_SUCCESS, None, 0, 0),
        (R.LOCAL_ORIGIN_CONNECT_SUCCESS, 200, 1, 1),
        (R.LOCAL_ORIGIN_CONNECT_SUCCESS_FINAL, None, 1, 1),
        (R.LOCAL_ORIGIN_CONNECT_FAILED, None, 0, 1),
        (R.LOCAL_ORIGIN_TIMEOUT, None, 0, 1),
        (R.LOCAL_ORIGIN_TIMEOUT, 204, 1, 1),
    ],
)
def test_result_without_split_counts_as_its_status(cluster, result, code, success, total):
    host = cluster.hosts[0]
    host.put_result(result, code)

    assert counts(host) == (success, total, 0, 0)


def test_bare_request_failure_is_no_gateway_failure_without_split(cluster):
    host = cluster.hosts[0]
    host.put_result(R.EXT_ORIGIN_REQUEST_FAILED)

    assert runs(host) == (1, 0, 0)


@pytest.mark.parametrize(
    ("result", "code", "expected", "expected_runs"),
    [
        (R.LOCAL_ORIGIN_CONNECT_SUCCESS, None, (0, 0, 1, 1), (0, 0, 0)),
        (R.LOCAL_ORIGIN_CONNECT_SUCCESS, 503, (0, 0, 1, 1), (0, 0, 0)),
        (R.LOCAL_ORIGIN_CONNECT_SUCCESS_FINAL, None, (0, 0, 1, 1), (0, 0, 0)),
        (R.LOCAL_ORIGIN_CONNECT_FAILED, None, (0, 0, 0, 1), (0, 0, 1)),
        (R.LOCAL_ORIGIN_TIMEOUT, 204, (0, 0, 0, 1), (0, 0, 1)),
        (R.EXT_ORIGIN_REQUEST_FAILED, None, (0, 1, 0, 0), (1, 1, 0)),
        (R.EXT_ORIGIN_REQUEST_FAILED, 500, (0, 1, 0, 0), (1, 0, 0)),
        (R.EXT_ORIGIN_REQUEST_SUCCESS, None, (1, 1, 0, 0), (0, 0, 0)),
        (R.EXT_ORIGIN_REQUEST_SUCCESS, 503, (0, 1, 0, 0), (1, 1, 0)),
        (R.EXT_ORIGIN_REQUEST_DEGRADED, None, (1, 1, 0, 0), (0, 0, 0)),
        (R.EXT_ORIGIN_REQUEST_DEGRADED, 503, (0, 1, 0, 0), (1, 1, 0)),
    ],
)
def test_split_keeps_origins_apart(make_cluster, result, code, expected, expected_runs):
    (host,) = make_cluster(hosts=1, split_external_local_origin_errors=True).hosts
    host.put_result(result, code)

    assert (counts(host), runs(host)) == (expected, expected_runs)


def test_split_before_1_36_ignores_the_status_and_counts_a_local_success(make_cluster):
    (host,) = make_cluster(hosts=1, split_external_local_origin_errors=True, release=EnvoyRelease.V1_27).hosts
    host.put_result(R.EXT_ORIGIN_REQUEST_FAILED, 500)
    failed = (counts(host), runs(host))
    host.put_result(R.EXT_ORIGIN_REQUEST_SUCCESS, 503)

    assert failed == ((0, 1, 0, 0), (1, 1, 0))
    assert (counts(host), runs(host)) == ((1, 2, 1, 1), (0, 0, 0))


def test_connect_success_breaks_a_local_run(make_cluster):
    (host,) = make_cluster(hosts=1, split_external_local_origin_errors=True).hosts
    for _ in range(4):
        host.put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)
    host.put_result(R.LOCAL_ORIGIN_CONNECT_SUCCESS)

    assert runs(host) == (0, 0, 0)


def test_answers_do_not_break_a_local_run(make_cluster):
    (host,) = make_cluster(hosts=1, split_external_local_origin_errors=True).hosts
    for _ in range(4):
        host.put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)
    host.put_result(R.EXT_ORIGIN_REQUEST_SUCCESS, 200)

    assert runs(host) == (0, 0, 4)


def test_threshold_is_met_by_equality_only(cluster):
    """Lowering a threshold below a run under way silences it until the run is broken."""
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 500)
    cluster.override(consecutive_5xx=3)
    cluster.load_requests(host, 20, 500)
    silent = cluster.ejected()
    cluster.load_requests(host, 1, 200)
    cluster.load_requests(host, 3, 500)

    assert (silent, cluster.ejected()) == ([], [host.address])


def test_response_time_changes_nothing(cluster):
    host = cluster.hosts[0]
    host.put_response_time(60_000)

    assert (counts(host), runs(host), cluster.events) == ((0, 0, 0, 0), (0, 0, 0), [])


def test_host_without_detector_counts_totals_but_no_runs(cluster):
    host = cluster.hosts[0]
    cluster.detector.close()
    cluster.load_requests(host, 7, 503)
    host.put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)
    host.put_result(R.EXT_ORIGIN_REQUEST_DEGRADED)

    assert (counts(host), runs(host), host.ejected) == ((1, 9, 0, 0), (0, 0, 0), False)


def test_host_without_detector_counts_local_totals_when_split(make_cluster):
    subject = make_cluster(hosts=1, split_external_local_origin_errors=True)
    subject.detector.close()
    subject.hosts[0].put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)

    assert (counts(subject.hosts[0]), runs(subject.hosts[0])) == ((0, 0, 0, 1), (0, 0, 0))


def test_null_monitor_is_deaf():
    NULL_MONITOR.put_http_response_code(503)
    NULL_MONITOR.put_result(R.LOCAL_ORIGIN_CONNECT_FAILED)
    NULL_MONITOR.put_response_time(1)

    assert counts(NULL_MONITOR) == (0, 0, 0, 0)
    assert (NULL_MONITOR.ejected, NULL_MONITOR.degraded, NULL_MONITOR.num_ejections) == (False, False, 0)
    assert (NULL_MONITOR.success_rate, NULL_MONITOR.local_origin_success_rate) == (-1, -1)


def test_repr_tells_the_state(cluster):
    cluster.eject(cluster.hosts[0])

    assert repr(cluster.hosts[0]) == "HostMonitor(10.0.0.0:80, ejected, 5xx=0, ejections=1)"
    assert repr(cluster.hosts[1]) == "HostMonitor(10.0.0.1:80, in, 5xx=0, ejections=0)"


def test_degraded_report_comes_before_its_status(make_cluster):
    """Envoy 1.40, recorded: degraded first, then 5xx ejects as usual."""
    subject = make_cluster(hosts=1, consecutive_5xx=1, detect_degraded_hosts=True)
    subject.hosts[0].put_result(R.EXT_ORIGIN_REQUEST_DEGRADED, 500)

    assert [event.type for event in subject.events] == [EjectionType.DEGRADED, EjectionType.CONSECUTIVE_5XX]
