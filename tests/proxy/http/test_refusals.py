"""Requests that are not HTTP/1.1 as it is accepted: a reply, a line in the access log, and the end.

Expected values: Envoy 1.40's, as recorded from a real one.
"""

import pytest

from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import ManualClock, Sidecar, arrived, logged, until

ERRORS = [
    ("http 1.0", b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", 426, b"Upgrade Required", "DPE", "low_version"),
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400, b"", "-", "missing_host_header"),
    ("fragment", b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, b"", "-", "path_normalization_failed"),
    ("not http", b"THIS IS NOT HTTP\r\n\r\n", 400, b"Bad Request", "DPE", "http1.codec_error"),
    (
        "NUL",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        400,
        b"Bad Request",
        "DPE",
        "http1.invalid_characters",
    ),
    (
        "both lengths",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
        b"Bad Request",
        "DPE",
        "http1.content_length_and_chunked_not_allowed",
    ),
    (
        "gzip",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        501,
        b"Not Implemented",
        "DPE",
        "http1.invalid_transfer_encoding",
    ),
    (
        "long head",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 62_000 + b"\r\n\r\n",
        431,
        b"Request Header Fields Too Large",
        "DPE",
        "http1.headers_too_large",
    ),
]


@pytest.mark.parametrize(
    ("data", "status", "body", "flags", "details"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS]
)
async def test_reply_and_close(data, status, body, flags, details):
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
        (reports,) = sidecar.record()
        client = await sidecar.client()
        response = await client.request(data)

        assert (response.status, response.body) == (status, body)
        framing = ["content-length", "content-type"] if body else []
        assert response.header_names[: len(framing) + 3] == [*framing, "date", "server", "connection"]
        assert response.header("connection") == "close"
        clock.advance(1_001)
        assert await client.read_to_end() == b""
        assert (upstream.request_count, reports) == (0, [])
        assert sidecar.http_stats.downstream_cx_protocol_error == 1


@pytest.mark.parametrize(
    ("data", "status", "flags", "details"), [(e[1], e[2], *e[4:]) for e in ERRORS], ids=[e[0] for e in ERRORS]
)
async def test_line_in_the_access_log(data, status, flags, details):
    """vectors/http-edge: attempts 0, no host."""
    async with Sidecar() as sidecar:
        await (await sidecar.client()).request(data)

        assert logged(sidecar) == (status, flags, details, 0)
        assert sidecar.log[0]["upstream_host"] is None


async def test_error_inside_a_body_ends_the_request():
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
        (reports,) = sidecar.record()
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await arrived(upstream, 1)
        client.send(b"zz\r\n")
        response = await client.response("POST")

        assert (response.status, response.body) == (400, b"Bad Request")
        assert logged(sidecar)[:3] == (400, "DPE", "http1.codec_error")
        await until(lambda: upstream.open_connections == 0)
        assert [result.name for result, _ in reports] == ["LOCAL_ORIGIN_CONNECT_SUCCESS"]


async def test_refusal_behind_a_head_request_has_its_body():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        await client.get(method="HEAD")

        assert (await client.request(b"garbage\r\n\r\n")).body == b"Bad Request"


async def test_requests_before_the_refused_one_are_answered_first():
    async with FaultyUpstream(body=b"ok") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET\r\n\r\n")

        assert [(await client.response()).status for _ in range(3)] == [200, 200, 400]
        assert [request.target for request in upstream.requests] == ["/1", "/2"]
