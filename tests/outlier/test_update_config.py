"""New settings for a running detector: what stays, and what follows at once."""

import attrs
import pytest

from outlier import OutlierDetection, Result

BASE = {"max_ejection_percent": 100, "consecutive_5xx": 5, "interval_ms": 10_000, "base_ejection_time_ms": 30_000}


def update(cluster, **changes):
    cluster.detector.update_config(attrs.evolve(cluster.detector.config, **changes))


def test_an_ejected_host_stays_out_and_keeps_its_multiplier(make_cluster):
    cluster = make_cluster(hosts=2, **BASE)
    host = cluster.hosts[0]
    cluster.eject(host)

    update(cluster, consecutive_5xx=3)

    assert cluster.ejected() == [host.address]
    assert (host.num_ejections, host.backoff) == (1, 1)
    assert cluster.stats.ejections_active == 1
    assert cluster.told() == [f"EJECT {host.address} CONSECUTIVE_5XX"]


@pytest.mark.parametrize(("base_ejection_time_ms", "out"), [(20_000, False), (20_001, True)])
def test_the_time_out_is_that_of_the_new_settings(make_cluster, base_ejection_time_ms, out):
    cluster = make_cluster(hosts=2, **BASE)
    cluster.eject(cluster.hosts[0])

    update(cluster, base_ejection_time_ms=base_ejection_time_ms)
    cluster.sweep(20_000)

    assert (cluster.ejected() != []) is out


def test_a_run_goes_on(make_cluster):
    cluster = make_cluster(hosts=2, **BASE)
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 500)

    update(cluster, base_ejection_time_ms=60_000)
    cluster.load_requests(host, 1, 500)

    assert cluster.ejected() == [host.address]


@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_a_run_as_long_as_a_lowered_threshold_ejects_with_its_next_failure(make_cluster, threshold):
    cluster = make_cluster(hosts=2, **BASE)
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 500)

    update(cluster, consecutive_5xx=threshold)

    assert cluster.ejected() == []
    cluster.load_requests(host, 1, 500)
    assert cluster.ejected() == [host.address]


def test_a_threshold_of_0_leaves_the_run_alone(make_cluster):
    cluster = make_cluster(hosts=2, **BASE)
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 500)

    update(cluster, consecutive_5xx=0)
    cluster.load_requests(host, 1, 500)

    assert (host.consecutive_5xx, cluster.ejected()) == (5, [])


def test_a_lowered_limit_returns_nobody(make_cluster):
    cluster = make_cluster(hosts=4, **BASE)
    for host in cluster.hosts[:3]:
        cluster.eject(host)

    update(cluster, max_ejection_percent=10)

    assert len(cluster.ejected()) == 3


def test_split_mode_begins_for_present_and_future_hosts(make_cluster):
    cluster = make_cluster(hosts=2, **BASE)

    update(cluster, split_external_local_origin_errors=True)
    hosts = [*cluster.hosts, cluster.detector.add_host("10.0.0.9:80")]
    for host in hosts:
        host.put_result(Result.LOCAL_ORIGIN_CONNECT_FAILED)

    assert [(host.consecutive_local_origin_failure, host.consecutive_5xx) for host in hosts] == [(1, 0)] * 3


def test_split_mode_ends_without_leaving_figures_of_local_origin(make_cluster):
    config = BASE | {
        "split_external_local_origin_errors": True,
        "success_rate_minimum_hosts": 1,
        "success_rate_request_volume": 1,
    }
    cluster = make_cluster(hosts=2, **config)
    host = cluster.hosts[0]
    host.put_result(Result.LOCAL_ORIGIN_CONNECT_SUCCESS)
    cluster.sweep(10_000)
    host.put_result(Result.LOCAL_ORIGIN_CONNECT_FAILED)

    update(cluster, split_external_local_origin_errors=False)

    assert host.local_origin_success_rate == -1
    assert host.consecutive_local_origin_failure == 0
    assert cluster.detector.local_origin_success_rate_average == -1
    host.put_result(Result.LOCAL_ORIGIN_CONNECT_FAILED)
    assert host.consecutive_5xx == 1


def test_the_running_period_ends_when_it_was_to_end(make_cluster):
    cluster = make_cluster(hosts=1, **BASE)
    cluster.time.set_ms(4_000)

    update(cluster, interval_ms=1_000)

    assert (cluster.detector.next_sweep_ms, cluster.detector.interval_ms) == (10_000, 1_000)


def test_the_same_settings_change_nothing(make_cluster):
    cluster = make_cluster(hosts=2, **BASE)
    host = cluster.hosts[0]
    cluster.load_requests(host, 4, 503)

    cluster.detector.update_config(OutlierDetection(**BASE))

    assert (host.consecutive_5xx, host.consecutive_gateway_failure) == (4, 4)
    assert host.external.total == 4
