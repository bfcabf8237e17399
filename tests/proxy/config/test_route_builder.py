"""Routes; the vectors of `route` cover retries, weights and destinations."""

import pytest

from proxy.config.hash_policy import CookieHash, HeaderHash, QueryParameterHash, SourceIpHash
from proxy.config.node import NodeConfig
from proxy.config.route_config import (
    ANY_REQUEST,
    DirectResponse,
    Fault,
    HeaderMatcher,
    HeaderOperations,
    MatchKind,
    Mirror,
    QueryParameterMatcher,
    Redirect,
    RegexRewrite,
    StringMatcher,
)
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot_builder import SnapshotBuilder
from tests.proxy.config.resources import routes, rule, service

EXACT, PREFIX, REGEX, PRESENT = MatchKind.EXACT, MatchKind.PREFIX, MatchKind.REGEX, MatchKind.PRESENT


def build(http, *resources, node=None):
    """Return the routes of service `a` under these http routes."""
    builder = SnapshotBuilder(ConversionContext(node=node or NodeConfig()))
    everything = [service("a", "10.0.0.1"), service("b", "10.0.0.1"), routes("a", {"hosts": ["a"], "http": http})]
    builder.update([(None, resource) for resource in [*everything, *resources]])
    return next(host for host in builder.snapshot.routes.virtual_hosts if host.service_host[0] == "a").routes


def one(**fields):
    (route,) = build([{"route": [{"destination": {"host": "b"}}]} | fields])
    return route


def test_a_route_without_match_takes_everything_and_ends_the_list():
    found = build(
        [
            {"name": "first", "route": [{"destination": {"host": "b"}}]},
            {"name": "never", "route": [{"destination": {"host": "a"}}]},
        ]
    )

    assert [(route.name, route.match) for route in found] == [("first", ANY_REQUEST)]


def test_each_match_is_a_route_of_its_own():
    match = [{"name": "x", "uri": {"exact": "/x"}}, {"uri": {"prefix": "/y"}}]
    found = build([{"name": "r", "match": match, "route": [{"destination": {"host": "b"}}]}])

    assert [(route.name, route.match.path) for route in found] == [
        ("r.x", StringMatcher(EXACT, "/x")),
        ("r", StringMatcher(PREFIX, "/y")),
    ]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({"headers": {"X-A": {"exact": "1"}}}, HeaderMatcher("x-a", StringMatcher(EXACT, "1"))),
        ({"headers": {"a": {}}}, HeaderMatcher("a", StringMatcher(PRESENT))),
        ({"headers": {"a": None}}, HeaderMatcher("a", StringMatcher(PRESENT))),
        ({"headers": {"a": {"regex": "*"}}}, HeaderMatcher("a", StringMatcher(PRESENT))),
        ({"headers": {"a": {"regex": "b+"}}}, HeaderMatcher("a", StringMatcher(REGEX, "b+"))),
        ({"withoutHeaders": {"a": {}}}, HeaderMatcher("a", StringMatcher(PRESENT), invert=True)),
        (
            {"withoutHeaders": {"a": {"prefix": "b"}}},
            HeaderMatcher("a", StringMatcher(PREFIX, "b"), invert=True, missing_is_empty=True),
        ),
        ({"method": {"exact": "GET"}}, HeaderMatcher(":method", StringMatcher(EXACT, "GET"))),
        ({"authority": {"prefix": "a"}}, HeaderMatcher(":authority", StringMatcher(PREFIX, "a"))),
    ],
)
def test_header_matches(match, expected):
    assert one(match=[match]).match.headers == (expected,)


def test_query_and_case():
    match = one(match=[{"uri": {"exact": "/A"}, "ignoreUriCase": True, "queryParams": {"q": {"exact": "1"}}}]).match

    assert match.path == StringMatcher(EXACT, "/A", True)
    assert match.query_parameters == (QueryParameterMatcher("q", StringMatcher(EXACT, "1")),)


@pytest.mark.parametrize(
    ("match", "kept"),
    [
        ({"port": 80}, True),
        ({"port": 81}, False),
        ({"sourceLabels": {"app": "x"}}, True),
        ({"sourceLabels": {"app": "y"}}, False),
        ({"sourceNamespace": "default"}, True),
        ({"sourceNamespace": "other"}, False),
        ({"gateways": ["public"]}, False),
        ({"gateways": ["mesh"], "sourceLabels": {"app": "y"}}, True),
    ],
)
def test_matches_for_other_clients_are_left_out(match, kept):
    node = NodeConfig(labels={"app": "x", "v": "1"})
    found = build([{"match": [match], "route": [{"destination": {"host": "b"}}]}], node=node)

    assert len(found) == kept


def test_rewrites():
    assert one(rewrite={"uri": "/v2", "authority": "x"}).action.prefix_rewrite == "/v2"
    assert one(rewrite={"uri": "/v2", "authority": "x"}).action.host_rewrite == "x"
    assert one(rewrite={"uriRegexRewrite": {"match": "a", "rewrite": "b"}}).action.regex_rewrite == RegexRewrite(
        "a", "b"
    )


def test_setting_the_host_header_is_a_rewrite_and_pseudo_headers_are_left_alone():
    route = one(headers={"request": {"set": {"Host": "x", "a": "1"}, "add": {":path": "/"}, "remove": ["host", "b"]}})

    assert route.action.host_rewrite == "x"
    assert route.request_headers == HeaderOperations(set=(("a", "1"),), remove=("b",))


def test_headers_of_a_single_destination_belong_to_the_route():
    headers = {"response": {"add": {"a": "1"}}}
    route = one(route=[{"destination": {"host": "b"}, "headers": headers}], headers={"response": {"set": {"b": "2"}}})

    assert route.response_headers == HeaderOperations(set=(("b", "2"),), add=(("a", "1"),))


def test_headers_of_several_destinations_stay_with_them():
    headers = {"request": {"add": {"a": "1"}}}
    targets = [
        {"destination": {"host": "a"}, "weight": 1, "headers": headers},
        {"destination": {"host": "b"}, "weight": 2},
    ]

    clusters = one(route=targets).action.weighted_clusters

    assert [(cluster.weight, cluster.request_headers.add) for cluster in clusters] == [(1, (("a", "1"),)), (2, ())]


def test_redirects():
    assert one(route=[], redirect={"uri": "/x", "redirectCode": 307}).redirect == Redirect(status=307, path="/x")
    assert one(route=[], redirect={"authority": "x", "derivePort": "FROM_REQUEST_PORT"}).redirect == Redirect(
        host="x", port=80
    )


@pytest.mark.parametrize(
    ("body", "expected"), [({"string": "é"}, "é".encode()), ({"bytes": "AAE="}, b"\0\1"), ({"bytes": "?"}, b"")]
)
def test_direct_responses(body, expected):
    route = one(route=[], directResponse={"status": 503, "body": body})

    assert route.direct_response == DirectResponse(status=503, body=expected)


def test_faults():
    fault = one(
        fault={
            "delay": {"fixedDelay": "1s", "percent": 5},
            "abort": {"grpcStatus": "ABORTED", "percentage": {"value": 0.00019}},
        }
    ).fault

    assert fault == Fault(delay_ms=1000, delay_per_million=50_000, abort_grpc_status="ABORTED", abort_per_million=1)


def test_mirrors():
    mirrors = [{"destination": {"host": "b"}}, {"destination": {"host": "b"}, "percentage": {"value": 0}}]

    assert one(mirrors=mirrors).action.mirrors == (Mirror(cluster="outbound|80||b.default.svc.cluster.local"),)


@pytest.mark.parametrize(
    ("key", "policies"),
    [
        ({"httpHeaderName": "x"}, (HeaderHash(name="x"),)),
        ({"useSourceIp": True}, (SourceIpHash(),)),
        ({"useSourceIp": False}, ()),
        ({"httpQueryParameterName": "q"}, (QueryParameterHash(name="q"),)),
        ({"httpCookie": {"name": "c", "ttl": "0s", "path": "/"}}, (CookieHash(name="c", ttl_s=0, path="/"),)),
        (
            {"httpCookie": {"name": "c", "attributes": [{"name": "Secure", "value": ""}]}},
            (CookieHash(name="c", attributes=(("Secure", ""),)),),
        ),
        ({}, ()),
    ],
)
def test_the_key_of_a_consistent_hash_is_part_of_the_route(key, policies):
    hashed = rule("b", {"host": "b", "trafficPolicy": {"loadBalancer": {"consistentHash": key}}})

    (route,) = build([{"route": [{"destination": {"host": "b"}}]}], hashed)

    assert route.action.hash_policy == policies
    assert route.action.retry.previous_hosts is False


def test_the_hash_of_a_subset_counts_for_routes_to_it():
    policy = {"loadBalancer": {"consistentHash": {"httpHeaderName": "x"}}}
    subsets = [{"name": "v1", "trafficPolicy": policy}, {"name": "v2"}]
    hashed = rule("b", {"host": "b", "subsets": subsets})

    def hash_policy(subset):
        target = [{"destination": {"host": "b", "subset": subset}}]
        return build([{"route": target}], hashed)[0].action.hash_policy

    assert (hash_policy("v1"), hash_policy("v2")) == ((HeaderHash(name="x"),), ())
