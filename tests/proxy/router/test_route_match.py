"""Every expectation here is what Envoy 1.40 answered for the same match and request."""

import pytest

from proxy.config.route_config import (
    ANY_REQUEST,
    HeaderMatcher,
    MatchKind,
    QueryParameterMatcher,
    RouteMatch,
    StringMatcher,
)
from proxy.router.route_match import compile_match, query_parameter
from tests.proxy.router.heads import request_head

EXACT, PREFIX, REGEX, PRESENT = MatchKind.EXACT, MatchKind.PREFIX, MatchKind.REGEX, MatchKind.PRESENT


def matches(match, head):
    condition = compile_match(match)
    assert condition is not None
    return condition(head)


def path_match(kind, value, *, ignore_case=False):
    return RouteMatch(path=StringMatcher(kind, value, ignore_case))


def header_match(name, kind, value="", *, ignore_case=False, **options):
    return RouteMatch(headers=(HeaderMatcher(name, StringMatcher(kind, value, ignore_case), **options),))


def query_match(name, kind, value=""):
    return RouteMatch(query_parameters=(QueryParameterMatcher(name, StringMatcher(kind, value)),))


def test_what_matches_everything_needs_no_function():
    assert compile_match(ANY_REQUEST) is None


@pytest.mark.parametrize(
    ("kind", "value", "path", "expected"),
    [
        (EXACT, "/a", "/a", True),
        (EXACT, "/a", "/a?x=1", True),
        (EXACT, "/a", "/a/", False),
        (EXACT, "/a", "/A", False),
        (PREFIX, "/a", "/a", True),
        (PREFIX, "/a", "/ab", True),
        (PREFIX, "/a", "/A", False),
        (PREFIX, "/a", "/b/a", False),
        (PREFIX, "/a?x", "/a?x=1", False),
        (REGEX, "/a", "/a?q", True),
        (REGEX, "/a", "/ab", False),
        (REGEX, "/a$", "/a", True),
        (REGEX, "/(a|ab)", "/ab", True),
        (REGEX, "(?i)/A", "/a", True),
        (REGEX, "/(?<name>a)", "/a", True),
        (REGEX, "/(?P<name>a)", "/a", True),
        (REGEX, "/[^/]+/b", "/x/b", True),
    ],
)
def test_path_is_compared_without_its_query(kind, value, path, expected):
    assert matches(path_match(kind, value), request_head(path)) is expected


@pytest.mark.parametrize(
    ("kind", "value", "path", "expected"),
    [(EXACT, "/Ab", "/aB", True), (EXACT, "/Ab", "/aBc", False), (PREFIX, "/A/", "/a/b", True)],
)
def test_case_is_ignored_where_asked_for(kind, value, path, expected):
    assert matches(path_match(kind, value, ignore_case=True), request_head(path)) is expected


def test_any_path_matches_presence():
    assert matches(path_match(PRESENT, ""), request_head("/anything"))


def test_all_conditions_must_hold():
    match = RouteMatch(
        path=StringMatcher(PREFIX, "/a"),
        headers=(HeaderMatcher("x-a", StringMatcher(EXACT, "1")), HeaderMatcher("x-b", StringMatcher(PRESENT))),
        query_parameters=(QueryParameterMatcher("q", StringMatcher(EXACT, "1")),),
    )

    assert matches(match, request_head("/a?q=1", "X-A: 1", "X-B: 2"))
    assert not matches(match, request_head("/b?q=1", "X-A: 1", "X-B: 2"))
    assert not matches(match, request_head("/a?q=2", "X-A: 1", "X-B: 2"))
    assert not matches(match, request_head("/a?q=1", "X-A: 1"))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [(EXACT, "1", True), (EXACT, "2", True), (EXACT, "1,2", False), (REGEX, "[^,]", True), (EXACT, "3", False)],
)
def test_one_line_of_several_is_enough(kind, value, expected):
    head = request_head("/", "x-a: 1", "x-a: 2")

    assert matches(header_match("x-a", kind, value), head) is expected
    assert matches(header_match("x-a", kind, value, invert=True), head) is not expected


def test_headers_that_envoy_joins_are_compared_as_a_whole():
    head = request_head("/", "accept: a", "accept: b")

    assert matches(header_match("accept", EXACT, "a,b"), head)
    assert not matches(header_match("accept", EXACT, "a"), head)


@pytest.mark.parametrize(
    ("options", "lines", "expected"),
    [
        ({}, (), False),
        ({"invert": True}, (), False),
        ({"invert": True, "missing_is_empty": True}, (), True),
        ({"missing_is_empty": True}, (), False),
        ({"invert": True}, ("x-a: 2",), True),
        ({"invert": True}, ("x-a: 1",), False),
    ],
)
def test_missing_header_never_matches_unless_it_counts_as_empty(options, lines, expected):
    assert matches(header_match("x-a", EXACT, "1", **options), request_head("/", *lines)) is expected


def test_missing_header_as_empty_may_match():
    assert matches(header_match("x-a", REGEX, "a?", missing_is_empty=True), request_head())


@pytest.mark.parametrize(
    ("options", "with_header", "without"),
    [
        ({}, True, False),
        ({"invert": True}, False, True),
        ({"missing_is_empty": True}, True, True),
        ({"missing_is_empty": True, "invert": True}, False, False),
    ],
)
def test_presence(options, with_header, without):
    match = header_match("x-a", PRESENT, **options)

    assert matches(match, request_head("/", "x-a:")) is with_header
    assert matches(match, request_head()) is without


def test_header_case_is_ignored_where_asked_for():
    assert matches(header_match("x-a", PREFIX, "AB", ignore_case=True), request_head("/", "x-a: abc"))


def test_expressions_see_characters_and_ascii_classes():
    head = request_head("/", "x-a: é")

    assert matches(header_match("x-a", REGEX, "."), head)
    assert matches(header_match("x-a", REGEX, "[é]"), head)
    assert not matches(header_match("x-a", REGEX, r"\w"), head)


def test_pseudo_headers_name_parts_of_the_request():
    head = request_head(method="POST", authority="Service:80")

    assert matches(header_match(":method", EXACT, "POST"), head)
    assert matches(header_match(":authority", PREFIX, "Serv"), head)
    assert matches(header_match("host", EXACT, "Service:80"), head)


@pytest.mark.parametrize(
    ("forwarded_proto", "scheme"), [("https", "https"), ("HTTPS", "https"), ("http", "http"), ("ftp", "http")]
)
def test_scheme_is_what_the_forwarded_protocol_says(forwarded_proto, scheme):
    head = request_head("/", f"x-forwarded-proto: {forwarded_proto}")

    assert matches(header_match(":scheme", EXACT, scheme), head)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/", None),
        ("/?q", b""),
        ("/?q=", b""),
        ("/?a=2&q=12&q=1", b"12"),
        ("/?q=%31", b"%31"),
        ("/?x=q", None),
        ("/?q=1?q=2", b"1?q=2"),
    ],
)
def test_query_parameter_is_the_first_of_its_name_undecoded(path, value):
    assert query_parameter(path.encode(), b"q") == value


def test_query_parameter_present_or_compared():
    assert matches(query_match("q", PRESENT), request_head("/?q"))
    assert not matches(query_match("q", PRESENT), request_head("/"))
    assert matches(query_match("q", PREFIX, "1"), request_head("/?q=12"))
    assert not matches(query_match("q", EXACT, "1"), request_head("/?q=12&q=1"))
    assert matches(query_match("q", REGEX, "[^1]*"), request_head("/?q="))
