import pytest

from outlier import ScenarioError, SeededRandom
from outlier.traffic import Answer, Balancer, HostBehaviour, Traffic, availability, put_request, read_behaviours


@pytest.mark.parametrize(
    ("sentence", "behaviour"),
    [
        ("a fails with 503", HostBehaviour(503, False, 100, 0, None)),
        ("a answers 404 from 1s", HostBehaviour(404, False, 100, 1000, None)),
        ("a answers degraded to 2s", HostBehaviour(200, True, 100, 0, 2000)),
        ("a refuses connections from 10s to 40s", HostBehaviour(Answer.REFUSES, False, 100, 10_000, 40_000)),
        ("a resets connections in 5 % of requests", HostBehaviour(Answer.RESETS, False, 5, 0, None)),
        ("a times out in 20% of requests from 1m", HostBehaviour(Answer.TIMES_OUT, False, 20, 60_000, None)),
    ],
)
def test_sentence_means(sentence, behaviour):
    assert read_behaviours([sentence], ["a"]).by_host == {"a": (behaviour,)}


def test_hosts_come_and_go_in_order_of_time():
    found = read_behaviours(["a is removed at 9s", "b is added at 3s", "b fails with 500"], ["a"])

    assert [(change.at_ms, change.host, change.added) for change in found.memberships] == [
        (3000, "b", True),
        (9000, "a", False),
    ]
    assert len(found.by_host["b"]) == 1


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("a sleeps", "is not understood"),
        ("a fails with 50", "is not understood"),
        ("a fails with 500 from 10", "is not a duration"),
        ("b fails with 500", "'b' is neither in hosts nor added later"),
        ({"a": "fails"}, "is not a sentence"),
        ("b is removed at 1s", "'b' is neither in hosts nor added later"),
    ],
)
def test_sentence_that_means_nothing_is_refused(sentence, reason):
    with pytest.raises(ScenarioError, match=reason):
        read_behaviours([sentence], ["a"])


@pytest.mark.parametrize(
    ("now_ms", "draw", "applies"),
    [(999, 0, False), (1000, 0, True), (1999, 0, True), (2000, 0, False), (1500, 29, True), (1500, 30, False)],
)
def test_behaviour_applies_from_start_to_before_end_and_to_its_share(now_ms, draw, applies):
    assert HostBehaviour(500, False, 30, 1000, 2000).applies(now_ms, draw) is applies


@pytest.mark.parametrize(
    ("answer", "succeeded", "success", "total"),
    [
        (200, True, 1, 1),
        (499, True, 1, 1),
        (500, False, 0, 1),
        (Answer.REFUSES, False, 0, 1),
        (Answer.RESETS, False, 0, 1),
        (Answer.TIMES_OUT, False, 0, 1),
    ],
)
def test_request_is_reported_as_the_host_answers(make_cluster, answer, succeeded, success, total):
    (host,) = make_cluster(hosts=1).hosts
    behaviour = HostBehaviour(answer, False, 100, 0, None)

    assert put_request(host, [behaviour], now_ms=0, draw=0) is succeeded
    assert (host.external.success, host.external.total) == (success, total)


@pytest.mark.parametrize(
    ("answer", "local"),
    [(200, (1, 1)), (Answer.REFUSES, (0, 1)), (Answer.RESETS, (1, 2)), (Answer.TIMES_OUT, (1, 2))],
)
def test_connection_is_reported_apart_in_split_mode(make_cluster, answer, local):
    (host,) = make_cluster(hosts=1, split_external_local_origin_errors=True).hosts
    put_request(host, [HostBehaviour(answer, False, 100, 0, None)], now_ms=0, draw=0)

    assert (host.local.success, host.local.total) == local


@pytest.mark.parametrize(("status", "succeeded"), [(429, False), (503, True), (200, True)])
def test_error_codes_replace_the_rule_of_500(make_cluster, status, succeeded):
    (host,) = make_cluster(hosts=1).hosts
    behaviour = HostBehaviour(status, False, 100, 0, None)

    assert put_request(host, [behaviour], now_ms=0, draw=0, error_codes=frozenset({429})) is succeeded
    assert host.external.success == int(succeeded)


def test_first_behaviour_that_applies_decides(make_cluster):
    (host,) = make_cluster(hosts=1).hosts
    behaviours = [HostBehaviour(500, False, 100, 10, None), HostBehaviour(404, False, 100, 0, None)]

    assert [put_request(host, behaviours, now_ms=now_ms, draw=0) for now_ms in (9, 10)] == [True, False]


def hosts_with(make_cluster, *, healthy=0, degraded=0, ejected=0):
    hosts = make_cluster(hosts=healthy + degraded + ejected).hosts
    for host in hosts[healthy : healthy + degraded]:
        host.degraded = True
    for host in hosts[healthy + degraded :]:
        host.ejected = True
    return hosts


@pytest.mark.parametrize(
    ("healthy", "degraded", "ejected", "threshold", "load", "panic"),
    [
        (3, 0, 0, 50, 100, False),
        (2, 0, 2, 50, 100, False),  # exactly 50 % is not panic
        (1, 0, 2, 50, 100, True),
        (1, 0, 2, 33, 100, False),
        (1, 0, 2, 34, 100, True),
        (1, 0, 2, 0, 100, False),
        (5, 0, 2, 100, 100, False),  # 140 % of 5/7 is enough, whatever the threshold
        (4, 0, 2, 100, 100, True),
        (1, 1, 0, 50, 70, False),
        (1, 2, 0, 50, 46, False),
        (0, 2, 0, 50, 0, False),
        (0, 1, 2, 50, 100, True),
    ],
)
def test_load_and_panic_of_one_priority(make_cluster, healthy, degraded, ejected, threshold, load, panic):
    """Envoy splits by 140 % of each share, in whole numbers; the remainder goes to the healthy."""
    found = availability(hosts_with(make_cluster, healthy=healthy, degraded=degraded, ejected=ejected), threshold)

    assert (found.healthy_load, found.panic) == (load, panic)


def test_panic_means_everyone(make_cluster):
    hosts = hosts_with(make_cluster, healthy=1, ejected=3)

    assert list(availability(hosts, 50).healthy) == hosts


def traffic(**data):
    return Traffic.from_dict({"duration": "1s", **data}, read_behaviours([], []))


def test_round_robin_takes_turns_among_the_healthy(make_cluster):
    balancer = Balancer(traffic(), SeededRandom(1))
    hosts = hosts_with(make_cluster, healthy=3, ejected=1)
    balancer.refresh(hosts)
    chosen = [balancer.choose() for _ in range(6)]

    assert chosen[:3] == chosen[3:]
    assert set(chosen) == set(hosts[:3])


def test_random_reaches_every_healthy_host(make_cluster):
    balancer = Balancer(traffic(balancer="random"), SeededRandom(1))
    hosts = hosts_with(make_cluster, healthy=3, ejected=1)
    balancer.refresh(hosts)

    assert {balancer.choose() for _ in range(100)} == set(hosts[:3])


def test_degraded_hosts_take_what_the_healthy_cannot(make_cluster):
    balancer = Balancer(traffic(), SeededRandom(1))
    hosts = hosts_with(make_cluster, healthy=1, degraded=1)
    balancer.refresh(hosts)
    chosen = [balancer.choose() for _ in range(1000)]

    assert 650 < chosen.count(hosts[0]) < 750


@pytest.mark.parametrize("ejected", [0, 2])
def test_nobody_to_choose(make_cluster, ejected):
    balancer = Balancer(traffic(panic_threshold=0), SeededRandom(1))
    balancer.refresh(hosts_with(make_cluster, ejected=ejected))

    assert balancer.choose() is None


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"rate": -1}, "rate"),
        ({"rate": "x"}, "rate"),
        ({"balancer": "hash"}, "balancer"),
        ({"panic_threshold": 101}, "panic_threshold"),
        ({"panic_threshold": 0.5}, "panic_threshold"),
        ({"duration": "1"}, "duration"),
        ({"error_codes": [99]}, "error_codes"),
        ({"error_codes": [600]}, "error_codes"),
        ({"expect": [{}]}, "expect[0]"),
        ({"expect": [{"at": "1s", "between": ["1s", "2s"]}]}, "expect[0]"),
        ({"expect": [{"at": "now"}]}, "expect[0].at"),
        ({"expect": ["at 1s"]}, "expect[0]"),
        ({"expect": [{"event": {}, "between": ["1s"]}]}, "expect[0].between"),
    ],
)
def test_refused_value_names_its_place(data, path):
    with pytest.raises(ScenarioError) as caught:
        traffic(**data)

    assert caught.value.path == path


def test_duration_is_needed():
    with pytest.raises(ScenarioError, match="duration: is missing"):
        Traffic.from_dict({}, read_behaviours([], []))
