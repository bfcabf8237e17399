"""Membership by priority, lists by health, and the statistics of both."""

import pytest

from proxy.config.cluster_config import Endpoint, HealthStatus, Locality
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.priority_set import PrioritySet


def host(port: int, priority: int = 0, zone: str = "", status: HealthStatus = HealthStatus.UNKNOWN) -> Host:
    return Host(
        Endpoint(address=f"10.0.0.1:{port}", priority=priority, locality=Locality(zone=zone), health_status=status)
    )


def test_starts_with_an_empty_priority_0():
    priority_set = PrioritySet()

    assert [(each.priority, each.hosts) for each in priority_set.host_sets] == [(0, ())]


def test_a_gap_between_priorities_is_an_empty_set():
    priority_set = PrioritySet()
    first, third = host(1, 0), host(2, 2)

    priority_set.update_hosts([first, third])

    assert [each.hosts for each in priority_set.host_sets] == [(first,), (), (third,)]


def test_a_priority_that_loses_its_hosts_stays():
    priority_set = PrioritySet()
    first = host(1, 0)
    priority_set.update_hosts([first, host(2, 1)])

    priority_set.update_hosts([first])

    assert [len(each.hosts) for each in priority_set.host_sets] == [1, 0]


def test_update_tells_who_came_and_who_went():
    priority_set = PrioritySet()
    old, stays, new = host(1), host(2), host(3)
    priority_set.update_hosts([old, stays])

    assert priority_set.update_hosts([stays, new]) == ([new], [old])


@pytest.mark.parametrize(
    ("status", "lists"),
    [
        (HealthStatus.HEALTHY, (1, 0, 0)),
        (HealthStatus.UNHEALTHY, (0, 0, 0)),
        (HealthStatus.TIMEOUT, (0, 0, 0)),
        (HealthStatus.DEGRADED, (0, 1, 0)),
        (HealthStatus.DRAINING, (0, 0, 1)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_lists_by_configured_health(status, lists):
    priority_set = PrioritySet()

    priority_set.update_hosts([host(1, status=status)])

    gauges = (priority_set.membership_healthy, priority_set.membership_degraded, priority_set.membership_excluded)
    assert priority_set.membership_total == 1
    assert gauges == lists


def test_flags_count_only_after_a_refresh():
    priority_set = PrioritySet()
    ejected, other = host(1), host(2)
    priority_set.update_hosts([ejected, other])
    ejected.set_flag(HealthFlag.FAILED_OUTLIER_CHECK)

    assert priority_set.host_sets[0].healthy_hosts == (ejected, other)
    priority_set.refresh_health(0)
    assert priority_set.host_sets[0].healthy_hosts == (other,)


def test_lists_keep_the_order_of_the_configuration():
    priority_set = PrioritySet()
    hosts = [host(port) for port in (3, 1, 2)]
    priority_set.update_hosts(hosts)
    hosts[0].set_flag(HealthFlag.FAILED_OUTLIER_CHECK)
    priority_set.refresh_health(0)
    hosts[0].clear_flag(HealthFlag.FAILED_OUTLIER_CHECK)
    priority_set.refresh_health(0)

    assert priority_set.host_sets[0].healthy_hosts == tuple(hosts)


def test_membership_change_counts_updates_of_a_priority_but_no_health_flip():
    """Recorded on Envoy: four hosts in priorities 0 and 2 count 2."""
    priority_set = PrioritySet()
    hosts = [host(1), host(2), host(3), host(4, 2)]

    priority_set.update_hosts(hosts)
    assert priority_set.membership_change == 2
    priority_set.refresh_health(0)
    priority_set.update_hosts(hosts)
    assert priority_set.membership_change == 2
    priority_set.update_hosts(hosts[1:])
    assert priority_set.membership_change == 3


def test_localities_are_in_lexical_order_and_keep_the_order_within():
    priority_set = PrioritySet()
    hosts = [host(1, zone="b"), host(2, zone="a"), host(3, zone="b", status=HealthStatus.UNHEALTHY)]

    priority_set.update_hosts(hosts)

    first, second = priority_set.host_sets[0].localities
    assert (first.locality.zone, first.hosts) == ("a", (hosts[1],))
    assert (second.locality.zone, second.hosts, second.healthy_hosts) == ("b", (hosts[0], hosts[2]), (hosts[0],))


def test_listeners_hear_of_each_rebuilt_priority_until_removed():
    priority_set = PrioritySet()
    heard: list[int] = []
    priority_set.add_listener(heard.append)

    priority_set.update_hosts([host(1), host(2, 1)])
    priority_set.refresh_health(1)
    priority_set.remove_listener(heard.append)
    priority_set.refresh_health(0)

    assert heard == [0, 1, 1]
