"""Every expectation here is what Envoy 1.40 answered for the same policy and request."""

import pytest

from proxy.config.route_config import CorsPolicy, MatchKind, StringMatcher
from proxy.router.cors import compile_cors
from tests.proxy.router.heads import lines, request_head, response_head

ONE = StringMatcher(MatchKind.EXACT, "http://one.com")
FULL = CorsPolicy(
    allow_origins=(
        ONE,
        StringMatcher(MatchKind.PREFIX, "http://two"),
        StringMatcher(MatchKind.REGEX, r"http://[a-z]+\.re"),
    ),
    allow_methods=("GET", "POST"),
    allow_headers=("x-a", "x-b"),
    expose_headers=("x-e", "x-f"),
    max_age_s=600,
    allow_credentials=True,
    forward_unmatched_preflights=False,
)
STAR = CorsPolicy(
    allow_origins=(StringMatcher(MatchKind.EXACT, "*"),),
    allow_methods=("*",),
    allow_headers=("*",),
    expose_headers=("*",),
    allow_credentials=False,
)
ASKS_GET = "access-control-request-method: GET"


def preflight(policy, *request_lines, method="OPTIONS"):
    head = request_head("/", *request_lines, method=method)
    cors = compile_cors(policy)
    assert cors is not None
    reply = cors.preflight_reply(head, cors.allowed_origin(head))
    if reply is not None:
        assert (reply.status, reply.end_stream) == (200, True)
    return reply and lines(reply.headers)


def response(policy, origin, *response_lines):
    head = request_head("/", f"origin: {origin}")
    cors = compile_cors(policy)
    assert cors is not None
    allowed = cors.allowed_origin(head)
    answer = response_head(*response_lines)
    if allowed is not None:
        cors.apply_to_response(answer, allowed)
    return lines(answer.headers)


def test_no_policy_is_none():
    assert compile_cors(None) is None


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://one.com", True),
        ("HTTP://ONE.COM", False),
        ("http://twofold", True),
        ("http://abc.re", True),
        ("http://abc.re.evil", False),
        ("http://no.com", False),
        ("", False),
    ],
)
def test_origin_is_matched_as_a_whole(origin, allowed):
    cors = compile_cors(FULL)
    assert cors is not None

    assert cors.allowed_origin(request_head("/", f"origin: {origin}")) == (origin.encode() if allowed else None)


def test_preflight_of_an_allowed_origin():
    assert preflight(FULL, "origin: http://one.com", ASKS_GET) == [
        "access-control-allow-origin: http://one.com",
        "access-control-allow-credentials: true",
        "access-control-allow-methods: GET,POST",
        "access-control-allow-headers: x-a,x-b",
        "access-control-max-age: 600",
        "access-control-expose-headers: x-e,x-f",
    ]


def test_preflight_of_another_origin_is_answered_without_leave():
    assert preflight(FULL, "origin: http://no.com", ASKS_GET) == [
        "access-control-allow-credentials: true",
        "access-control-allow-methods: GET,POST",
        "access-control-allow-headers: x-a,x-b",
        "access-control-max-age: 600",
    ]


def test_preflight_of_another_origin_is_forwarded_where_told():
    policy = CorsPolicy(allow_origins=(ONE,))

    assert preflight(policy, "origin: http://no.com", ASKS_GET) is None
    assert preflight(policy, "origin: http://one.com", ASKS_GET) == ["access-control-allow-origin: http://one.com"]


def test_star_echoes_what_is_asked_for():
    assert preflight(STAR, "origin: http://x", ASKS_GET, "access-control-request-headers: q") == [
        "access-control-allow-origin: http://x",
        "access-control-allow-methods: GET",
        "access-control-allow-headers: q",
        "access-control-expose-headers: *",
    ]


def test_star_echoes_empty_headers_too():
    answer = preflight(STAR, "origin: http://x", "origin: http://y", ASKS_GET, "access-control-request-method: PUT")

    assert answer == [
        "access-control-allow-origin: http://x,http://y",
        "access-control-allow-methods: GET,PUT",
        "access-control-allow-headers: ",
        "access-control-expose-headers: *",
    ]


@pytest.mark.parametrize(
    ("method", "request_lines"),
    [
        ("GET", ("origin: http://one.com", ASKS_GET)),
        ("OPTIONS", ("origin: http://one.com",)),
        ("OPTIONS", ("origin: http://one.com", "access-control-request-method:")),
        ("OPTIONS", (ASKS_GET,)),
        ("OPTIONS", ("origin:", ASKS_GET)),
    ],
)
def test_what_is_no_preflight_is_forwarded(method, request_lines):
    assert preflight(FULL, *request_lines, method=method) is None


def test_response_gets_leave_behind_its_own_headers():
    assert response(FULL, "http://one.com", "x-backend: 1") == [
        "x-backend: 1",
        "access-control-allow-origin: http://one.com",
        "access-control-allow-credentials: true",
        "access-control-expose-headers: x-e,x-f",
    ]
    assert response(STAR, "http://x") == ["access-control-allow-origin: http://x", "access-control-expose-headers: *"]


def test_what_the_host_says_is_replaced_in_place():
    answer = response(
        FULL,
        "http://one.com",
        *("access-control-allow-origin: mine", "access-control-allow-origin: yours"),
        *("access-control-expose-headers: z", "access-control-allow-credentials: false", "x-z: 1"),
    )

    assert answer == [
        "access-control-allow-origin: http://one.com",
        "access-control-expose-headers: x-e,x-f",
        "access-control-allow-credentials: true",
        "x-z: 1",
    ]


def test_response_to_another_origin_is_left_alone():
    assert response(FULL, "http://no.com", "access-control-allow-origin: mine") == ["access-control-allow-origin: mine"]


def test_name_that_would_end_its_line_is_left_out():
    policy = CorsPolicy(allow_origins=(ONE,), allow_headers=("x-a", "x\r\ny: z"), expose_headers=("x\ny",))

    assert preflight(policy, "origin: http://one.com", ASKS_GET) == [
        "access-control-allow-origin: http://one.com",
        "access-control-allow-headers: x-a",
    ]
