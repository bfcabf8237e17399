"""Headers that the connection manager adds, keeps and removes on the way to a host.

Expected values: Envoy 1.40's default listener (`use_remote_address: false`), rows of the recorded `headers.yaml`.
"""

import re

import pytest

from outlier import ListedRandom, SeededRandom
from proxy.http.request_headers import uuid4
from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import Sidecar

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


async def upstream_headers(*lines: str, **route) -> list[tuple[str, str]]:
    """Return what the upstream gets besides Host when a client sends these lines."""
    async with FaultyUpstream() as upstream, Sidecar(upstream, route=route) as sidecar:
        assert (await (await sidecar.client()).get("/", *lines)).status == 200
        first, *others = upstream.requests[0].headers
        assert first == ("host", "service")
        return others


async def test_row_hdr_many_main():
    sent = """
        Connection: keep-alive, x-drop|X-Drop: 1|Keep-Alive: timeout=5|Proxy-Connection: keep-alive|TE: trailers
        Proxy-Authorization: Basic x|Proxy-Authenticate: x|Trailer: X-T|Upgrade-Insecure-Requests: 1
        X-Forwarded-For: 1.2.3.4|X-Forwarded-Proto: https|X-Forwarded-Host: fh.example|X-Request-Id: my-id-1|Via: 1.1 up
        X-Envoy-Upstream-Rq-Timeout-Ms: 5000|X-Envoy-Internal: true|X-Envoy-Attempt-Count: 9
        x-envoy-external-address: 7.7.7.7|x-envoy-retry-on: 5xx|x-envoy-foo: bar|x-envoy-expected-rq-timeout-ms: 1
        MiXeD-CaSe: V|Date: x|Server: y|dup: 1|dup: 2
    """
    received = """
        te: trailers|proxy-authorization: Basic x|proxy-authenticate: x|trailer: X-T|upgrade-insecure-requests: 1
        x-forwarded-for: 1.2.3.4|x-forwarded-proto: https|x-forwarded-host: fh.example|x-request-id: my-id-1|via: 1.1 up
        x-envoy-attempt-count: 9|x-envoy-external-address: 7.7.7.7|x-envoy-foo: bar
        mixed-case: V|date: x|server: y|dup: 1|dup: 2|x-envoy-expected-rq-timeout-ms: 15000
    """

    headers = await upstream_headers(*_lines(sent), timeout_ms=15_000)

    assert [f"{name}: {value}" for name, value in headers] == _lines(received)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in re.split(r"[|\n]", text) if line.strip()]


async def test_what_nobody_sent_is_added_in_order():
    headers = await upstream_headers("accept: */*", timeout_ms=15_000)

    assert [name for name, _ in headers] == [
        *("accept", "x-forwarded-proto", "x-request-id", "x-envoy-expected-rq-timeout-ms")
    ]
    assert dict(headers)["x-forwarded-proto"] == "http"
    assert dict(headers)["x-envoy-expected-rq-timeout-ms"] == "15000"
    assert UUID.fullmatch(dict(headers)["x-request-id"])


async def test_without_a_timeout_none_is_expected():
    assert [name for name, _ in await upstream_headers()] == ["x-forwarded-proto", "x-request-id"]


@pytest.mark.parametrize(
    "name",
    [
        *("x-envoy-internal", "x-envoy-expected-rq-timeout-ms", "x-envoy-retry-on", "x-envoy-retry-grpc-on"),
        *("x-envoy-max-retries", "x-envoy-retriable-status-codes", "x-envoy-retriable-header-names"),
        *("x-envoy-upstream-rq-timeout-ms", "x-envoy-upstream-rq-per-try-timeout-ms"),
        *("x-envoy-upstream-rq-timeout-alt-response", "x-envoy-hedge-on-per-try-timeout"),
        *("x-envoy-upstream-alt-stat-name", "x-envoy-force-trace", "x-envoy-ip-tags"),
        "x-envoy-upstream-stream-duration-ms",
    ],
)
async def test_control_headers_of_an_external_caller_are_removed(name):
    headers = await upstream_headers(f"{name.title()}: 1", "x-after: 2")

    assert name not in dict(headers)
    assert ("x-after", "2") in headers


async def test_a_request_id_that_connection_takes_away_is_made_anew():
    headers = dict(await upstream_headers("Connection: x-request-id", "X-Request-Id: mine"))

    assert UUID.fullmatch(headers["x-request-id"])


async def test_request_ids_differ():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        for _ in range(50):
            await client.get()

        assert len({request.header("x-request-id") for request in upstream.requests}) == 50


async def test_nothing_of_the_request_is_on_the_response():
    async with FaultyUpstream() as upstream, Sidecar(upstream, route={"timeout_ms": 1_000}) as sidecar:
        response = await (await sidecar.client()).get("/", "X-Request-Id: mine")

        assert response.header_names == ["content-length", "x-envoy-upstream-service-time", "date", "server"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0, 0], b"00000000-0000-4000-8000-000000000000"),
        ([2**64 - 1, 2**64 - 1], b"ffffffff-ffff-4fff-bfff-ffffffffffff"),
    ],
)
def test_uuid_has_version_4_and_the_standard_variant(numbers, text):
    assert uuid4(ListedRandom(numbers)) == text


def test_uuids_are_well_formed():
    random = SeededRandom(1)

    assert all(UUID.fullmatch(uuid4(random).decode()) for _ in range(1_000))
