"""What a balancer says about itself."""

import pytest

from outlier.sources import ListedRandom
from proxy.config.cluster_config import HealthStatus, LbPolicy, Locality
from tests.proxy.load_balancer.cluster import Context, make_host


def test_healthy_cluster(cluster):
    explanation = cluster(weights=[1, 1]).load_balancer.explain()

    (choice,) = explanation.choices
    assert (choice.share, choice.priority, choice.which, choice.method) == (100, 0, "healthy", "in turn")
    assert choice.hosts == ("127.0.0.1:21101", "127.0.0.1:21102")
    assert explanation.policy == "ROUND_ROBIN"


def test_panic_is_given_with_its_reason(cluster):
    clients = cluster(weights=[1, 1, 1, 1])
    clients.eject(0, 1, 2)

    explanation = clients.load_balancer.explain()

    (priority,) = explanation.priorities
    assert priority.panic
    assert priority.reason.startswith("1 of 4 hosts available: 25 % is below the panic threshold of 50 %")
    assert [choice.which for choice in explanation.choices] == ["all"]


def test_lists_are_given_with_their_shares(cluster):
    hosts = [make_host(0), *(make_host(number, health_status=HealthStatus.DEGRADED) for number in range(1, 5))]

    explanation = cluster(hosts=hosts).load_balancer.explain()

    assert [(choice.share, choice.which, len(choice.hosts)) for choice in explanation.choices] == [
        (28, "healthy", 1),
        (72, "degraded", 4),
    ]


@pytest.mark.parametrize(
    ("policy", "weights", "method"),
    [
        (LbPolicy.ROUND_ROBIN, [1, 2], "earliest deadline first, by weight"),
        (LbPolicy.LEAST_REQUEST, [1, 1], "least active requests of 2 drawn at random"),
        (LbPolicy.RANDOM, [1, 2], "at random, weights ignored"),
        (LbPolicy.RING_HASH, [1, 1], "hash ring"),
        (LbPolicy.MAGLEV, [1, 1], "maglev table"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_method_of_each_policy(cluster, policy, weights, method):
    assert cluster(policy, weights=weights).load_balancer.explain().choices[0].method == method


def test_localities_are_given_with_their_weights(cluster):
    localities = [Locality(zone="a"), Locality(zone="b")]
    clients = cluster(
        hosts=[make_host(number, locality=locality) for number, locality in enumerate(localities)],
        locality_weighted=True,
        locality_weights={(0, localities[0]): 1, (0, localities[1]): 3},
    )

    (choice,) = clients.load_balancer.explain().choices

    assert choice.method == "locality by weight (/a 1, /b 3), then in turn"


def test_a_hash_narrows_the_choice_to_its_host(cluster):
    clients = cluster(LbPolicy.RING_HASH, hosts=[make_host(0), make_host(1, priority=1)])

    explanation = clients.load_balancer.explain(Context(12345))

    assert explanation.hash == 12345
    assert explanation.host == "127.0.0.1:21101"
    assert [(choice.share, choice.priority) for choice in explanation.choices] == [(100, 0)]


def test_a_destination_is_the_choice(cluster):
    clients = cluster(LbPolicy.CLUSTER_PROVIDED)

    assert clients.load_balancer.explain(Context(destination="10.0.0.9:80")).choices[0].hosts == ("10.0.0.9:80",)
    assert clients.load_balancer.explain().choices[0].hosts == ()


def test_asking_changes_nothing(cluster):
    clients = cluster(weights=[1, 2], random=ListedRandom([0]))
    asked = cluster(weights=[1, 2], random=ListedRandom([0]))
    asked.load_balancer.explain()

    assert asked.picks(9) == clients.picks(9)
    assert asked.stats.lb_healthy_panic == 0
