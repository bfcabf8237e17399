import pytest

from proxy.config.delegate import merge_routes
from proxy.config.issue import Report
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.config.virtual_service import HttpRoute
from tests.proxy.config.resources import routes, service

ROOT = "{hosts: [a], http: [{name: root, match: [{uri: {prefix: /shop}}], delegate: {name: leaf}}]}"
LEAF = "{http: [{name: leaf, match: [{uri: {prefix: /shop/cart}}], route: [{destination: {host: b}}]}]}"


def read(body):
    return HttpRoute.read(body, (), Report())


def merged(root, leaf):
    target = {"route": [{"destination": {"host": "b"}}]}
    return list(merge_routes(read({"delegate": {"name": "x"}} | root), [read(target | leaf)]))


def build(*resources):
    builder = SnapshotBuilder(ConversionContext())
    builder.update([(None, resource) for resource in (service("a", "10.0.0.1"), *resources)])
    return builder


def found(builder):
    return [(route.name, route.match.path.value, route.action.cluster) for route in routes_of(builder.snapshot)]


def routes_of(snapshot):
    return next(host.routes for host in snapshot.routes.virtual_hosts if host.service_host.startswith("a."))


def test_delegated_routes_take_the_place_of_the_delegating_one():
    builder = build(routes("root", ROOT), routes("leaf", LEAF))

    assert found(builder) == [("root-leaf", "/shop/cart", "outbound|80||b.default.svc.cluster.local")]


def test_short_names_count_from_the_namespace_of_the_delegate():
    root = ROOT.replace("name: leaf}", "name: leaf, namespace: team}")
    builder = build(routes("root", root), routes("leaf", LEAF, "team"))

    assert found(builder)[0][2] == "outbound|80||b.team.svc.cluster.local"


def test_a_change_of_the_delegate_changes_the_routes():
    leaf = routes("leaf", LEAF)
    builder = build(routes("root", ROOT), leaf)

    builder.update([(leaf, routes("leaf", LEAF.replace("host: b", "host: c")))])
    changed = found(builder)
    builder.update([(leaf, None)])

    assert changed[0][2] == "outbound|80||c.default.svc.cluster.local"
    assert found(builder) == []


def test_a_delegate_that_is_not_exported_is_not_found():
    root = ROOT.replace("name: leaf}", "name: leaf, namespace: team}")
    builder = build(routes("root", root), routes("leaf", LEAF.replace("{http", "{exportTo: ['.'], http"), "team"))

    assert found(builder) == []


def test_what_the_delegate_leaves_unset_is_inherited():
    root = {"timeout": "1s", "retries": {"attempts": 1}, "headers": {"request": {"remove": ["x"]}}, "mirrorPercent": 0}

    (route,) = merged(root, {"timeout": "2s"})

    assert (route.timeout, route.retries.attempts, route.mirror_percent) == (2_000_000_000, 1, 0)
    assert route.headers.request.remove == ("x",)


def test_matches_are_joined():
    root = {"match": [{"name": "r", "uri": {"prefix": "/"}, "headers": {"a": {"exact": "1"}}, "port": 80}]}
    leaf = {"match": [{"name": "l", "uri": {"exact": "/x"}, "headers": {"b": {"exact": "2"}}}]}

    (route,) = merged(root, leaf)
    (match,) = route.match

    assert (match.name, match.uri.exact, sorted(match.headers), match.port) == ("r-l", "/x", ["a", "b"], 80)


@pytest.mark.parametrize(
    ("root", "leaf", "fits"),
    [
        ({"uri": {"prefix": "/a"}}, {"uri": {"prefix": "/a/b"}}, True),
        ({"uri": {"prefix": "/a"}}, {"uri": {"exact": "/ab"}}, True),
        ({"uri": {"prefix": "/a"}}, {"uri": {"prefix": "/b"}}, False),
        ({"uri": {"exact": "/a"}}, {"uri": {"exact": "/a"}}, True),
        ({"uri": {"exact": "/a"}}, {"uri": {"exact": "/b"}}, False),
        ({"uri": {"exact": "/a"}}, {"uri": {"prefix": "/a"}}, False),
        ({"uri": {"regex": "/a"}}, {"uri": {"exact": "/a"}}, False),
        ({"uri": {"regex": "/a"}}, {}, True),
        ({}, {"uri": {"regex": "/a"}}, True),
        ({"headers": {"x": {"exact": "1"}}}, {"headers": {"x": {"exact": "2"}}}, False),
        ({"headers": {"x": {"exact": "1"}}}, {"withoutHeaders": {"x": {"exact": "2"}}}, False),
        ({"queryParams": {"x": {"exact": "1"}}}, {"queryParams": {"x": {"exact": "2"}}}, False),
        ({"port": 80}, {"port": 81}, False),
        ({"port": 80}, {"port": 80}, True),
        ({"ignoreUriCase": True}, {}, False),
    ],
)
def test_a_delegated_match_must_lie_within_a_delegating_one(root, leaf, fits):
    assert bool(merged({"match": [root]}, {"match": [leaf]})) is fits


def test_one_fitting_match_of_several_is_enough():
    root = {"match": [{"uri": {"prefix": "/a"}}, {"uri": {"prefix": "/b"}}]}

    (route,) = merged(root, {"match": [{"uri": {"prefix": "/b/c"}}]})

    assert [match.uri.prefix for match in route.match] == ["/b/c"]


def test_delegates_do_not_delegate_further():
    assert list(merge_routes(read({"delegate": {"name": "x"}}), [read({"delegate": {"name": "y"}}), None])) == []
