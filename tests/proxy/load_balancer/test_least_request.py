"""Least request: few drawn at random, all scanned, or a schedule that load slows down."""

import pytest

from outlier.sources import ListedRandom
from proxy.config.cluster_config import LbPolicy, SelectionMethod


@pytest.mark.parametrize(("active", "picked"), [((1, 0), 1), ((1, 1), 0), ((0, 1), 0)], ids=["fewer", "tie", "more"])
def test_the_first_drawn_stays_unless_the_second_has_fewer_requests(cluster, active, picked):
    clients = cluster(LbPolicy.LEAST_REQUEST, weights=[1, 1], random=ListedRandom([9, 0, 1]))
    for host, requests in zip(clients.hosts, active, strict=True):
        host.rq_active = requests

    assert clients.pick() == picked


def test_hosts_are_drawn_with_replacement(cluster):
    clients = cluster(LbPolicy.LEAST_REQUEST, weights=[1, 1], random=ListedRandom([9, 0, 2]))
    clients.hosts[0].rq_active = 5

    assert clients.pick() == 0


def test_choice_count_draws_more_hosts(cluster):
    clients = cluster(
        LbPolicy.LEAST_REQUEST, random=ListedRandom([9, 0, 1, 2]), weights=[1, 1, 1], least_request_choice_count=3
    )
    for host, requests in zip(clients.hosts, (3, 2, 1), strict=True):
        host.rq_active = requests

    assert clients.pick() == 2


def test_full_scan_finds_the_least_busy_of_all(cluster):
    clients = cluster(LbPolicy.LEAST_REQUEST, weights=[1] * 6, least_request_selection_method=SelectionMethod.FULL_SCAN)
    for host in clients.hosts:
        host.rq_active = 4
    clients.hosts[3].rq_active = 1

    assert clients.picks(5) == [3] * 5


def test_full_scan_shares_ties_out_evenly(cluster):
    clients = cluster(LbPolicy.LEAST_REQUEST, weights=[1] * 4, least_request_selection_method=SelectionMethod.FULL_SCAN)
    clients.hosts[1].rq_active = 1

    counts = clients.counts(900)

    assert counts[1] == 0
    for number in (0, 2, 3):
        assert counts[number] == pytest.approx(300, abs=60)


@pytest.mark.parametrize(
    ("bias", "shares"), [(0.0, [200, 400]), (1.0, [400, 200]), (2.0, [533, 67])], ids=["none", "linear", "square"]
)
def test_a_busy_heavy_host_is_weighed_down_by_the_bias(cluster, bias, shares):
    """Weights 1 and 2, the heavier with 3 active requests: 1 against 2 / 4 ** bias."""
    clients = cluster(LbPolicy.LEAST_REQUEST, weights=[1, 2], least_request_active_request_bias=bias)
    clients.hosts[1].rq_active = 3
    clients.picks(2)  # entries are weighed again when they are picked

    assert clients.counts(600) == pytest.approx(shares, abs=3)
