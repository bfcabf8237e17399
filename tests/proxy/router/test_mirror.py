"""Heads are what Envoy 1.40 sent to a mirror for the same request."""

import pytest

from proxy.config.route_config import Mirror
from proxy.router.mirror import is_mirrored, mirrored_authority, mirrored_head
from tests.proxy.router.heads import lines, request_head


@pytest.mark.parametrize(
    ("authority", "mirrored"),
    [
        ("svc", "svc-shadow"),
        ("a:8080", "a-shadow:8080"),
        ("A.b", "A.b-shadow"),
        ("a:", "a-shadow:"),
        ("[::1]", "[::1]-shadow"),
        ("[::1]:90", "[::1]-shadow:90"),
    ],
)
def test_authority_tells_that_it_is_a_copy(authority, mirrored):
    assert mirrored_authority(authority.encode()) == mirrored.encode()


def test_mirror_gets_what_the_host_gets():
    head = request_head("/n?q", "x-a: 1", "content-length: 3", "x-forwarded-for: 1.1.1.1", method="POST")
    headers = [*head.headers, (b"x-envoy-expected-rq-timeout-ms", b"10000")]
    before = list(headers)

    mirrored = mirrored_head(head, headers, b"192.0.2.2")

    assert lines(mirrored.headers) == [
        "host: service-shadow",
        "x-a: 1",
        "content-length: 3",
        "x-forwarded-for: 1.1.1.1,192.0.2.2",
        "x-envoy-expected-rq-timeout-ms: 10000",
        "x-envoy-internal: true",
    ]
    assert (mirrored.method, mirrored.path, mirrored.authority) == (b"POST", b"/n?q", b"service-shadow")
    assert (mirrored.content_length, mirrored.chunked, mirrored.end_stream) == (3, False, False)
    assert headers == before
    assert head.authority == b"service"


def test_own_address_goes_behind_the_mark_when_there_is_no_other():
    head = request_head("/", "x-a: 1")

    assert lines(mirrored_head(head, head.headers, b"192.0.2.2").headers)[-2:] == [
        "x-envoy-internal: true",
        "x-forwarded-for: 192.0.2.2",
    ]
    assert lines(mirrored_head(head, head.headers, b"").headers)[-1] == "x-envoy-internal: true"


@pytest.mark.parametrize(
    ("per_million", "random_value", "mirrored"),
    [
        (1_000_000, 999_999, True),
        (500_000, 499_999, True),
        (500_000, 500_000, False),
        (1, 2_000_000, True),
        (1, 1, False),
    ],
)
def test_share_is_mirrored(per_million, random_value, mirrored):
    assert is_mirrored(Mirror(cluster="m", per_million=per_million), random_value) is mirrored
