"""Clusters whose endpoints are names, by the rules of Envoy 1.40's `DnsClusterImpl`; `tests/oracle` runs it beside."""

import pytest
from structlog.testing import capture_logs

from outlier import ListedRandom, OutlierDetection
from proxy.config.cluster_config import ClusterType, Endpoint, Http2Options, Locality, TlsMode, UpstreamTls
from proxy.config.health_check import HealthCheck, HealthCheckRule, HealthCheckRules, TcpHealthCheck
from proxy.upstream.health_checker_probe import CheckResult
from proxy.upstream.host import Host
from tests.proxy.cluster.environment import ClusterUnderTest, config

STRICT, LOGICAL = ClusterType.STRICT_DNS, ClusterType.LOGICAL_DNS
REFRESH_MS = 7_000
DETECTION = OutlierDetection(consecutive_5xx=2, max_ejection_percent=100)


def cluster(*names: str, kind: ClusterType = STRICT, **fields) -> ClusterUnderTest:
    fields.setdefault("outlier_detection", DETECTION)
    random = fields.pop("random", None)
    return ClusterUnderTest(config(*names, type=kind, dns_refresh_ms=REFRESH_MS, **fields), random=random)


def addresses(subject: ClusterUnderTest) -> list[str]:
    return [host.address for host in subject.hosts]


def counters(subject: ClusterUnderTest) -> dict[str, int]:
    """Return what was counted, without the zeros and Envoy's prefix."""
    assert subject.cluster.discovery is not None
    return {name.removeprefix("update_"): value for name, value in subject.cluster.discovery.stats.items() if value}


def facts(host: Host) -> tuple[str, str, int, int, str, dict[str, str]]:
    endpoint = host.endpoint
    return host.address, endpoint.hostname, host.weight, host.priority, str(host.locality), dict(endpoint.labels)


def test_every_name_is_looked_up_at_once():
    subject = cluster("one.test:80", "two.test:80")

    assert subject.resolver.asked == ["one.test", "two.test"]
    assert (addresses(subject), subject.cluster.initialized) == ([], False)


def test_every_address_is_a_host_with_what_its_endpoint_says():
    place = Locality("r", "z", "")
    subject = cluster(
        endpoints=(
            Endpoint(address="one.test:80", weight=3, locality=place, labels={"v": "1"}),
            Endpoint(address="two.test:81", priority=1, hostname="two.test"),
        )
    )
    subject.resolver.answer("two.test", "::1")
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2")

    assert [facts(host) for host in subject.hosts] == [
        ("10.0.0.1:80", "one.test", 3, 0, "r/z", {"v": "1"}),
        ("10.0.0.2:80", "one.test", 3, 0, "r/z", {"v": "1"}),
        ("[::1]:81", "two.test", 1, 1, "", {}),
    ]
    assert counters(subject) == {"attempt": 2, "success": 2}


def test_an_address_twice_in_an_answer_is_one_host_and_of_two_names_two():
    subject = cluster("one.test:80", "two.test:80")
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2", "10.0.0.1")
    subject.resolver.answer("two.test", "10.0.0.2")

    assert addresses(subject) == ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.2:80"]


def test_a_name_twice_is_looked_up_twice():
    subject = cluster("one.test:80", "one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1")
    subject.resolver.answer("one.test", "10.0.0.1")

    assert addresses(subject) == ["10.0.0.1:80", "10.0.0.1:80"]


@pytest.mark.parametrize(
    ("answer", "wait_ms"),
    [
        ((["10.0.0.1"], 3), 3_000),
        ((["10.0.0.1"], 0), REFRESH_MS),
        (([], 0), REFRESH_MS),
    ],
    ids=["time to live", "none given", "no address"],
)
def test_a_name_is_looked_up_again_when_its_answer_has_served_its_time(answer, wait_ms):
    found, ttl_s = answer
    subject = cluster("one.test:80", random=ListedRandom([250] * 9))
    subject.resolver.answer("one.test", *found, ttl_s=ttl_s)
    wait_ms += 250 % 100  # jitter

    subject.loop.advance(wait_ms - 1)
    assert subject.resolver.open == []

    subject.loop.advance(1)
    assert subject.resolver.open == ["one.test"]


def test_the_shortest_time_to_live_counts():
    subject = cluster("one.test:80")
    question = subject.resolver
    question.answer("one.test", "10.0.0.1", ttl_s=9)
    subject.loop.advance(9_000)
    question.answer_records("one.test", ("10.0.0.1", 9), ("10.0.0.2", 2))
    subject.loop.advance(2_000)

    assert question.open == ["one.test"]


def test_a_failure_keeps_the_hosts_and_waits_without_jitter():
    subject = cluster("one.test:80", random=ListedRandom([50] * 9))
    subject.resolver.answer("one.test", "10.0.0.1", ttl_s=1)
    subject.loop.advance(1_050)
    subject.resolver.fail("one.test")

    assert addresses(subject) == ["10.0.0.1:80"]
    assert counters(subject) == {"attempt": 2, "success": 1, "failure": 1}
    subject.loop.advance(REFRESH_MS - 1)
    assert subject.resolver.open == []
    subject.loop.advance(1)
    assert subject.resolver.open == ["one.test"]


def test_an_answer_without_addresses_takes_the_hosts_away():
    subject = cluster("one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1", ttl_s=1)
    subject.loop.advance(1_000)
    subject.resolver.answer("one.test")

    assert addresses(subject) == []
    assert counters(subject) == {"attempt": 2, "success": 2}


def test_an_answer_that_changes_nothing_is_counted_so():
    subject = cluster("one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2", ttl_s=1)
    changes = subject.cluster.priority_set.membership_change
    subject.loop.advance(1_000)
    subject.resolver.answer("one.test", "10.0.0.2", "10.0.0.1")

    assert counters(subject) == {"attempt": 2, "success": 2, "no_rebuild": 1}
    assert (changes, subject.cluster.priority_set.membership_change) == (1, 1)


def test_a_host_that_stays_keeps_its_ejection_and_one_that_returns_does_not():
    subject = cluster("one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2", ttl_s=1)
    kept, left = subject.hosts
    subject.eject(kept)
    subject.eject(left)

    subject.loop.advance(1_000)
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.3", ttl_s=1)
    assert subject.hosts[0] is kept
    assert [host.monitor.ejected for host in subject.hosts] == [True, False]

    subject.loop.advance(1_000)
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2", ttl_s=1)
    assert subject.hosts[1] is not left
    assert [host.monitor.ejected for host in subject.hosts] == [True, False]


def test_a_cluster_can_serve_once_one_of_its_names_has_an_answer():
    subject = cluster("one.test:80", "two.test:80")
    before = subject.cluster.initialized
    subject.resolver.answer("two.test", "10.0.0.1")

    assert (before, subject.cluster.initialized) == (False, True)


def test_a_failure_is_an_answer_to_waiting():
    subject = cluster("one.test:80")
    subject.resolver.fail("one.test")

    assert subject.cluster.initialized


def test_a_cluster_without_names_waits_for_none():
    assert cluster().cluster.initialized


async def test_waiting_ends_with_the_first_answer_or_with_the_cluster():
    answered, removed = cluster("one.test:80"), cluster("one.test:80")
    answered.resolver.answer("one.test", "10.0.0.1")
    removed.cluster.remove()

    await answered.cluster.wait_initialized()
    await removed.cluster.wait_initialized()


def test_a_removed_cluster_asks_no_more():
    waiting, asking = cluster("one.test:80"), cluster("two.test:80")
    waiting.resolver.answer("one.test", "10.0.0.1", ttl_s=1)
    waiting.cluster.remove()
    asking.cluster.remove()
    waiting.loop.advance(REFRESH_MS)

    assert (waiting.resolver.open, asking.resolver.open) == ([], [])


def test_the_log_tells_once_that_a_name_has_no_address_and_each_failure():
    subject = cluster("one.test:80")
    with capture_logs() as logs:
        for addresses_found in ([], [], ["10.0.0.1"], []):
            subject.resolver.answer("one.test", *addresses_found)
            subject.loop.advance(REFRESH_MS)
        for _ in range(2):
            subject.resolver.fail("one.test")
            subject.loop.advance(REFRESH_MS)

    assert [log["event"] for log in logs] == ["dns.address_not_found"] * 2 + ["dns.lookup_failed"] * 2
    assert {log["name"] for log in logs} == {"one.test"}


# New configurations


def test_a_new_configuration_keeps_what_is_known_of_its_names():
    subject = cluster("one.test:80", "two.test:80")
    subject.resolver.answer("one.test", "10.0.0.1", ttl_s=5)
    subject.resolver.answer("two.test", "10.0.0.2", ttl_s=5)
    one, _ = subject.hosts
    subject.eject(one)

    subject.update(endpoints=(Endpoint(address="new.test:80"), Endpoint(address="one.test:80", weight=4)))

    assert subject.hosts == (one,)
    assert (one.weight, one.monitor.ejected) == (4, True)
    assert subject.resolver.open == ["new.test"]
    subject.resolver.answer("new.test", "10.0.0.3")
    assert addresses(subject) == ["10.0.0.3:80", "10.0.0.1:80"]
    subject.loop.advance(5_000)
    assert subject.resolver.open == ["one.test"]


def test_hosts_of_before_serve_until_new_names_are_answered():
    subject = cluster("one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1")

    subject.update(endpoints=(Endpoint(address="two.test:80"), Endpoint(address="three.test:80")))
    assert addresses(subject) == ["10.0.0.1:80"]

    subject.resolver.answer("three.test", "10.0.0.3")
    assert addresses(subject) == ["10.0.0.3:80"]


@pytest.mark.parametrize(
    "change", [{"tls": UpstreamTls(mode=TlsMode.SIMPLE)}, {"h2_upstream": Http2Options()}], ids=["tls", "protocol"]
)
def test_hosts_of_before_serve_until_new_names_are_answered_for_connections_of_another_kind(change):
    subject = cluster("one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1")
    (before,) = subject.hosts

    subject.update(endpoints=(Endpoint(address="two.test:80"),), **change)
    assert subject.hosts == (before,)

    subject.resolver.answer("two.test", "10.0.0.1", "10.0.0.2")
    assert addresses(subject) == ["10.0.0.1:80", "10.0.0.2:80"]
    assert before not in subject.hosts
    kept = subject.hosts
    subject.update(endpoints=(Endpoint(address="two.test:80", weight=2),))
    assert subject.hosts == kept


def test_a_new_configuration_is_no_answer():
    subject = cluster("one.test:80")
    subject.update(endpoints=(Endpoint(address="one.test:80"), Endpoint(address="two.test:80")))
    assert not subject.cluster.initialized

    subject.resolver.answer("one.test", "10.0.0.1")
    subject.update(endpoints=(Endpoint(address="three.test:80"),))
    subject.update(endpoints=(Endpoint(address="three.test:80"), Endpoint(address="four.test:80")))
    assert addresses(subject) == ["10.0.0.1:80"]


def test_hosts_of_before_go_when_new_names_cannot_be_answered():
    subject = cluster("one.test:80")
    subject.resolver.answer("one.test", "10.0.0.1")
    subject.update(endpoints=(Endpoint(address="two.test:80"),))
    subject.resolver.fail("two.test")

    assert addresses(subject) == []


def test_addresses_become_names_without_a_gap_and_back():
    subject = ClusterUnderTest(config("10.0.0.1:80"))

    subject.update(type=STRICT, endpoints=(Endpoint(address="one.test:80"),))
    assert addresses(subject) == ["10.0.0.1:80"]
    subject.resolver.answer("one.test", "10.0.0.2", ttl_s=1)
    assert addresses(subject) == ["10.0.0.2:80"]

    subject.update(type=ClusterType.EDS, endpoints=(Endpoint(address="10.0.0.1:80"),))
    subject.loop.advance(REFRESH_MS)
    assert (addresses(subject), subject.resolver.open) == (["10.0.0.1:80"], [])


def test_a_new_refresh_rate_counts_from_the_next_answer_on():
    subject = cluster("one.test:80")
    subject.update(dns_refresh_ms=1_000)
    subject.resolver.fail("one.test")
    subject.loop.advance(1_000)

    assert subject.resolver.open == ["one.test"]


# One host for a name


def test_a_logical_host_is_its_first_address_and_knows_the_others():
    subject = cluster("one.test:80", kind=LOGICAL)
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2")
    (host,) = subject.hosts

    assert (host.address, host.endpoint.hostname, host.endpoint.alternates) == (
        "10.0.0.1:80",
        "one.test",
        ("10.0.0.2:80",),
    )


@pytest.mark.parametrize(
    ("second", "stays"),
    [
        (["10.0.0.1", "10.0.0.2"], True),
        (["10.0.0.2", "10.0.0.1"], False),
        (["10.0.0.1"], False),
        (["10.0.0.1", "10.0.0.3"], False),
    ],
    ids=["same", "turned", "fewer", "others behind it"],
)
def test_a_logical_host_and_its_ejection_last_as_long_as_its_list_of_addresses(second, stays):
    subject = cluster("one.test:80", kind=LOGICAL)
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2", ttl_s=1)
    (before,) = subject.hosts
    subject.eject(before)
    subject.loop.advance(1_000)
    subject.resolver.answer("one.test", *second)
    (after,) = subject.hosts

    assert (after is before, after.monitor.ejected) == (stays, stays)
    assert counters(subject) == {"attempt": 2, "success": 2} | ({"no_rebuild": 1} if stays else {})


def test_an_answer_without_addresses_leaves_a_logical_host_and_counts_as_failure():
    subject = cluster("one.test:80", kind=LOGICAL)
    subject.resolver.answer("one.test", "10.0.0.1", ttl_s=1)
    subject.loop.advance(1_000)
    subject.resolver.answer("one.test")

    assert addresses(subject) == ["10.0.0.1:80"]
    assert counters(subject) == {"attempt": 2, "success": 1, "failure": 1}


def test_the_first_address_decides_when_a_logical_name_is_looked_up_again():
    subject = cluster("one.test:80", kind=LOGICAL)
    subject.resolver.answer_records("one.test", ("10.0.0.1", 4), ("10.0.0.2", 2))
    subject.loop.advance(3_999)
    assert subject.resolver.open == []

    subject.loop.advance(1)
    assert subject.resolver.open == ["one.test"]


def test_addresses_of_a_name_are_checked_before_they_are_picked():
    check = HealthCheck(
        check=TcpHealthCheck(), timeout_ms=60_000, interval_ms=60_000, unhealthy_threshold=1, healthy_threshold=1
    )
    rules = HealthCheckRules([HealthCheckRule("*", None, check)])
    subject = ClusterUnderTest(config("one.test:80", type=STRICT), health_checks=rules)
    checker = subject.cluster.health_checker
    assert checker is not None
    waiting = [subject.cluster.initialized]
    subject.resolver.answer("one.test", "10.0.0.1", "10.0.0.2", ttl_s=1)
    waiting.append(subject.cluster.initialized)
    for host in subject.hosts:
        checker._checks[host]._finish(CheckResult())
    waiting.append(subject.cluster.initialized)

    subject.loop.advance(1_000)
    subject.resolver.answer("one.test", "10.0.0.2", "10.0.0.3")
    assert waiting == [False, False, True]
    assert [host.health_flags_text() for host in subject.hosts] == ["healthy", "/failed_active_hc"]
    assert [host.address for host in checker._checks] == ["10.0.0.2:80", "10.0.0.3:80"]
