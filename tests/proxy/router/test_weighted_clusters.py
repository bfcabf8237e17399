from collections import Counter

import pytest

from outlier import SeededRandom
from proxy.config.route_config import HeaderOperations, Route, RouteAction, WeightedCluster
from proxy.router.weighted_clusters import WeightedClusters
from tests.proxy.router.heads import lines, request_head
from tests.proxy.router.stream import stream


def weighted(*weights, **options):
    clusters = tuple(WeightedCluster(cluster=name, weight=weight) for name, weight in zip("abc", weights, strict=False))
    return WeightedClusters(Route(action=RouteAction(weighted_clusters=clusters), **options))


@pytest.mark.parametrize(
    ("random_value", "cluster"),
    [(0, "a"), (29, "a"), (30, "b"), (89, "b"), (90, "c"), (90 + 10, "a"), (2**64 - 1, "a"), (100 * 7 + 95, "c")],
)
def test_intervals_of_the_sum_of_weights(random_value, cluster):
    """2**64 - 1 is 15 modulo 100."""
    assert weighted(30, 60, 10).choose(random_value).cluster == cluster


def test_weight_of_zero_is_never_chosen():
    clusters = weighted(0, 1, 0)

    assert {clusters.choose(value).cluster for value in range(10)} == {"b"}


def test_shares_are_those_of_the_weights():
    clusters = weighted(30, 60)
    random = SeededRandom(1)
    chosen = Counter(clusters.choose(random.random()).cluster for _ in range(6_000))

    assert chosen["a"] == pytest.approx(2_000, abs=120)


def test_single_cluster_needs_no_chance():
    clusters = WeightedClusters(Route(action=RouteAction(cluster="x")))

    assert clusters.only is not None
    assert clusters.only.cluster == "x"
    assert clusters.choose(12345).cluster == "x"
    assert weighted(1, 1).only is None


def test_operations_of_the_cluster_come_before_those_of_the_route():
    entry = WeightedCluster(
        cluster="a",
        weight=1,
        request_headers=HeaderOperations(set=(("x-by", "cluster"),), add=(("x-from", "cluster"),)),
    )
    route = Route(
        action=RouteAction(weighted_clusters=(entry,)),
        request_headers=HeaderOperations(set=(("x-by", "route"),), add=(("x-from", "route"),)),
    )
    choice = WeightedClusters(route).choose(0)
    head = request_head()
    assert choice.request_edits is not None

    choice.request_edits.apply_to_request(head, stream(head))

    assert lines(head.headers) == ["host: service", "x-from: cluster", "x-by: route", "x-from: route"]
    assert choice.response_edits is None
