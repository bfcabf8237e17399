"""Every expectation here is what Envoy 1.40 answered, unless said."""

import pytest

from proxy.config.route_config import (
    DirectResponse,
    MatchKind,
    Redirect,
    Route,
    RouteAction,
    RouteMatch,
    StringMatcher,
)
from proxy.router.local_reply import LocalReply
from proxy.router.redirect import compile_direct_reply
from tests.proxy.router.heads import request_head

EXACT, PREFIX, REGEX = MatchKind.EXACT, MatchKind.PREFIX, MatchKind.REGEX
HTTP, HTTPS = "x-forwarded-proto: http", "x-forwarded-proto: https"


def location(redirect, path, authority="a", line=HTTP, matched=None):
    match = RouteMatch(path=matched) if matched is not None else RouteMatch()
    reply = compile_direct_reply(Route(match=match, action=RouteAction(), redirect=redirect))
    assert reply is not None
    assert reply[1] is not None
    return reply[1](request_head(path, line, authority=authority)).decode()


def direct(status, body=b""):
    return compile_direct_reply(Route(action=RouteAction(), direct_response=DirectResponse(status=status, body=body)))


def test_route_that_forwards_has_no_reply_of_its_own():
    assert compile_direct_reply(Route(action=RouteAction(cluster="a"))) is None


@pytest.mark.parametrize(
    ("redirect", "path", "expected"),
    [
        (Redirect(host="new.example"), "/x?q=1", "http://new.example/x?q=1"),
        (Redirect(path="/new?z=1"), "/path?k=v", "http://a/new?z=1"),
        (Redirect(path="/new"), "/path?k=v", "http://a/new?k=v"),
        (Redirect(path="/new"), "/path", "http://a/new"),
        (Redirect(scheme="https", host="h", port=8443, path="/p"), "/all/x?k=v", "https://h:8443/p?k=v"),
    ],
)
def test_empty_parts_stay_those_of_the_request(redirect, path, expected):
    assert location(redirect, path) == expected


@pytest.mark.parametrize(
    ("matched", "path", "expected"),
    [
        (StringMatcher(PREFIX, "/pre"), "/pre/x?k=v", "http://a/new/x?k=v"),
        (StringMatcher(EXACT, "/exact"), "/exact?k=v", "http://a/new?k=v"),
        (StringMatcher(REGEX, "/r.*"), "/r/x?k=v", "http://a/new?k=v"),
    ],
)
def test_prefix_rewrite_replaces_what_has_matched(matched, path, expected):
    assert location(Redirect(prefix_rewrite="/new"), path, matched=matched) == expected


@pytest.mark.parametrize(
    ("redirect", "authority", "line", "expected"),
    [
        (Redirect(scheme="https"), "a:80", HTTP, "https://a/x"),
        (Redirect(scheme="https"), "a:443", HTTP, "https://a:443/x"),
        (Redirect(scheme="https"), "a:443", HTTPS, "https://a:443/x"),
        (Redirect(scheme="https"), "a:8080", HTTP, "https://a:8080/x"),
        (Redirect(scheme="https"), "[::1]:80", HTTP, "https://[::1]/x"),
        (Redirect(scheme="https"), "[::1]", HTTP, "https://[::1]/x"),
        (Redirect(scheme="http"), "a:80", HTTP, "http://a:80/x"),
        (Redirect(scheme="http"), "a:443", HTTPS, "http://a/x"),
        (Redirect(scheme="http"), "a:80", "x-forwarded-proto: HTTP", "http://a/x"),
        (Redirect(port=8080), "a:80", HTTP, "http://a:8080/x"),
        (Redirect(port=8080), "a", HTTPS, "https://a:8080/x"),
        (Redirect(port=8080), "[::1]:80", HTTP, "http://[::1]:8080/x"),
        (Redirect(port=8080), "[::1]", HTTP, "http://[::1]:8080/x"),
    ],
)
def test_port_of_the_request_goes_when_it_has_lost_its_meaning(redirect, authority, line, expected):
    assert location(redirect, "/x", authority, line) == expected


def test_redirect_is_empty():
    reply = compile_direct_reply(Route(action=RouteAction(), redirect=Redirect(status=307, host="b")))

    assert reply is not None
    assert reply[0] == LocalReply(307, b"", None, "direct_response")


def test_direct_response():
    assert direct(503, b"body") == (LocalReply(503, b"body", None, "direct_response"), None)
    assert direct(200) == (LocalReply(200, b"", None, "direct_response"), None)


@pytest.mark.parametrize("status", [204, 304])
def test_status_without_body_drops_it(status):
    """Differs from Envoy, which sends it."""
    assert direct(status, b"body")[0] == LocalReply(status, b"", None, "direct_response")


@pytest.mark.parametrize(("status", "expected"), [(299, False), (300, True), (304, True), (399, True), (400, False)])
def test_direct_response_in_the_300s_names_the_request_itself(status, expected):
    _, where = direct(status)

    assert (where is not None) is expected
    assert where is None or where(request_head("/x?q", HTTP)) == b"http://service/x?q"


def test_part_that_would_break_the_header_is_left_out():
    assert location(Redirect(path="/a\r\nx: y"), "/x") == "http://a/x"
    assert location(Redirect(prefix_rewrite="/a\nb"), "/x") == "http://a/x"
    assert location(Redirect(host="h\r\nx: y"), "/x") == "http://a/x"
