"""Original destination: the host that the request names."""

from proxy.config.cluster_config import LbPolicy
from tests.proxy.load_balancer.cluster import Cluster, Context


def passthrough(cluster) -> Cluster:
    clients: Cluster = cluster(LbPolicy.CLUSTER_PROVIDED)
    clients.priority_set.update_hosts([])
    return clients


def test_a_named_address_becomes_a_host_and_stays_that_host(cluster):
    clients = passthrough(cluster)

    host = clients.load_balancer.choose_host(Context(destination="10.0.0.9:80"))

    assert host is not None
    assert host.address == "10.0.0.9:80"
    assert clients.priority_set.hosts == (host,)
    assert clients.load_balancer.choose_host(Context(destination="10.0.0.9:80")) is host


def test_no_address_gives_no_host(cluster):
    clients = passthrough(cluster)

    assert clients.load_balancer.choose_host() is None
    assert clients.load_balancer.choose_host(Context()) is None


def test_an_ejected_host_is_still_given(cluster):
    clients = passthrough(cluster)
    host = clients.load_balancer.choose_host(Context(destination="10.0.0.9:80"))
    clients.hosts = [host]

    clients.eject(0)

    assert clients.load_balancer.choose_host(Context(destination="10.0.0.9:80")) is host


def test_a_host_leaves_when_nobody_has_used_it_for_a_whole_interval(cluster):
    clients = passthrough(cluster)
    host = clients.load_balancer.choose_host(Context(destination="10.0.0.9:80"))

    assert clients.load_balancer.remove_unused() == []
    host.cx_active = 1
    assert clients.load_balancer.remove_unused() == []
    host.cx_active = 0
    assert clients.load_balancer.remove_unused() == [host]
    assert clients.priority_set.hosts == ()
    assert clients.load_balancer.choose_host(Context(destination="10.0.0.9:80")) is not host
