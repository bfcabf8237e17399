"""Every expectation here is what Envoy 1.40 sent to its upstream for the same route and request."""

import pytest

from proxy.config.route_config import MatchKind, RegexRewrite, RouteAction, StringMatcher
from proxy.router.rewrite import compile_rewrite
from tests.proxy.router.heads import lines, request_head

EXACT, PREFIX, REGEX, PRESENT = MatchKind.EXACT, MatchKind.PREFIX, MatchKind.REGEX, MatchKind.PRESENT
ROOT = StringMatcher(PREFIX, "/")


def rewritten(action, *request_lines, path="/", matched=ROOT):
    head = request_head(path, *request_lines)
    compile_rewrite(matched, action)(head)
    return head


def test_nothing_to_rewrite_is_none():
    assert compile_rewrite(ROOT, RouteAction()) is None


@pytest.mark.parametrize(
    ("matched", "replacement", "path", "expected"),
    [
        (StringMatcher(PREFIX, "/p/"), "/", "/p/x?q=1", "/x?q=1"),
        (StringMatcher(PREFIX, "/p/"), "/", "/p/", "/"),
        (StringMatcher(PREFIX, "/Case", ignore_case=True), "/n", "/cASe/x?y", "/n/x?y"),
        (StringMatcher(EXACT, "/exact"), "/other", "/exact?k=v", "/other?k=v"),
        (StringMatcher(EXACT, "/exact"), "/other?z=1", "/exact?k=v", "/other?z=1?k=v"),
        (StringMatcher(EXACT, "/exact"), "/other?z=1", "/exact", "/other?z=1"),
        (StringMatcher(REGEX, "/re/[0-9]+.*"), "/whole", "/re/12/x?k=v", "/whole?k=v"),
        (ROOT, "/bar", "/foo", "/barfoo"),
        (StringMatcher(PRESENT), "/bar", "/foo", "/barfoo"),
    ],
)
def test_prefix_rewrite_replaces_what_has_matched(matched, replacement, path, expected):
    head = rewritten(RouteAction(prefix_rewrite=replacement), path=path, matched=matched)

    assert head.path == expected.encode()
    assert lines(head.headers) == ["host: service", f"x-envoy-original-path: {path}"]


@pytest.mark.parametrize(
    ("pattern", "substitution", "path", "expected"),
    [
        ("^/rx1/([^/]+)(/.*)?$", r"\2/inst/\1", "/rx1/foo/v1/api?a=one", "/v1/api/inst/foo?a=one"),
        ("^/rx1/([^/]+)(/.*)?$", r"\2/inst/\1", "/rx1/foo", "/inst/foo"),
        ("a*", r"<\0>", "/rx2/baac", "<>/<>r<>x<>2<>/<>b<aa>c<>"),
        ("nomatch", "y", "/rx3/a", "/rx3/a"),
        ("/(x)(y)?", r"/[\1][\2]\\", "/rx4/xy/x", "/rx4/[x][y]\\/[x][]\\"),
        ("one", "two", "/rx5/one/one?one", "/rx5/two/two?one"),
        ("x", r"\9", "/x/", "//"),
    ],
)
def test_regex_rewrite_replaces_every_match_before_the_query(pattern, substitution, path, expected):
    head = rewritten(RouteAction(regex_rewrite=RegexRewrite(pattern, substitution)), path=path)

    assert head.path == expected.encode()


def test_host_rewrite_keeps_the_original():
    head = rewritten(RouteAction(host_rewrite="h.example:80"), "x-envoy-original-host: mine", "x-z: 1")

    assert head.authority == b"h.example:80"
    assert lines(head.headers) == ["host: h.example:80", "x-envoy-original-host: service", "x-z: 1"]


def test_host_comes_before_path_and_nothing_need_change():
    head = rewritten(RouteAction(host_rewrite="service", prefix_rewrite="/"), path="/x")

    assert lines(head.headers) == ["host: service", "x-envoy-original-host: service", "x-envoy-original-path: /x"]


@pytest.mark.parametrize("text", ["/a b", "/a\r\nx: y", "/a\0", "/a\t", "/\x7f"])
def test_rewrite_that_would_break_the_request_line_is_left_out(text):
    action = RouteAction(prefix_rewrite=text, regex_rewrite=RegexRewrite("x", text), host_rewrite=text)

    assert compile_rewrite(ROOT, action) is None
