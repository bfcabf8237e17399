"""Situations that users of other proxies reported: paths, framing, retries, codings, cookies, empty bodies, aborts.

HTTP-01 to HTTP-08 of the list of cases; limits and slow clients are in `test_cases_limits`, headers in
`test_cases_headers`. Ambiguous framing (HTTP-02) has its corpus in `tests/proxy/codec`; here is that none of it passes.
"""

import gzip

import pytest

from outlier import OutlierDetection, Result
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, arrived, post, until


@pytest.mark.parametrize(
    "target",
    [
        *("/%41/%7E/%27/%3A/%40", "/?q=%21", "/%2f", "/a/./c/../d", "/;%3B", "/%ZZ", "/[x]", "/%2F", "/%252F", "/%2B"),
        *("//a//b", "/a?b?c#".rstrip("#"), "/a+b%20c?d=e+f%2B"),
    ],
)
async def test_http_01_target_is_forwarded_unchanged(target):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        await (await sidecar.client()).get(target)

        assert upstream.requests[0].raw_head.startswith(f"GET {target} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 5"],
        ["Content-Length: 5", "Content-Length: 5"],
        ["Content-Length: +5"],
        ["Content-Length : 5"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: chunked\t, identity"],
        ["X: 1", " folded: 2"],
        ["Host: b"],
    ],
    ids=["CL.TE", "TE.CL", "CL.CL", "signed", "space before colon", "xchunked", "TE list", "fold", "two hosts"],
)
async def test_http_02_ambiguous_requests_never_reach_an_upstream(lines):
    request = "\r\n".join(["POST / HTTP/1.1", "Host: a", *lines, "", ""]).encode()
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(request + b"0\r\n\r\n" + GET)
        response = await client.response()
        clock.advance(1_001)
        rest = await client.read_to_end()

        assert response.status in {400, 501}
        assert (response.header("connection"), rest) == ("close", b"")
        assert upstream.request_count == 0


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 0x5\r\n",
        b"X : 1\r\nContent-Length: 0\r\n",
        b"X: a\0b\r\nContent-Length: 0\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
    ],
    ids=["CL.TE", "two lengths", "hex", "space before colon", "NUL", "gzip, chunked"],
)
async def test_http_02_ambiguous_responses_become_502(head):
    reply = {"garbage": b"HTTP/1.1 200 OK\r\n" + head + b"\r\nhello", "end": "hang"}
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream) as sidecar:
        (reports,) = sidecar.record()
        response = await (await sidecar.client()).request(GET)

        assert response.status == 502
        assert reports[-1] == (Result.LOCAL_ORIGIN_CONNECT_FAILED, None)


async def test_http_03_each_attempt_is_one_request_and_one_report():
    """The upstream closes every second request after reading it: nobody asks again behind our back."""
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        (reports,) = sidecar.record()
        upstream.sequence([Reply(), Reply(fault="close"), Reply(), Reply(fault="close")])
        client = await sidecar.client()
        statuses = [(await client.get()).status for _ in range(4)]

        assert statuses == [200, 503, 200, 503]
        assert upstream.request_count == 4
        assert [result.name for result, _ in reports if result is not Result.LOCAL_ORIGIN_CONNECT_SUCCESS] == [
            *("EXT_ORIGIN_REQUEST_SUCCESS", "LOCAL_ORIGIN_CONNECT_FAILED") * 2
        ]


async def test_http_03_a_connection_that_closed_while_idle_is_not_used():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        await client.get()
        upstream.drop_connections()
        await until(lambda: sidecar.stat("upstream_cx_active") == 0)

        assert (await client.request(post(b"x"))).status == 200
        assert upstream.connection_count == 2


GZIPPED = gzip.compress(b"hello" * 100)


@pytest.mark.parametrize("body", [GZIPPED, b"not gzip at all", gzip.compress(GZIPPED)], ids=["good", "bad", "twice"])
async def test_http_04_coded_request_bodies_pass_untouched(body):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        response = await (await sidecar.client()).request(post(body, "Content-Encoding: gzip"))
        await until(lambda: upstream.requests[0].complete)

        assert response.status == 200
        assert bytes(upstream.requests[0].body) == body
        assert upstream.requests[0].header("content-encoding") == "gzip"


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_http_04_coded_responses_pass_untouched(coding, framing):
    reply = Reply(body=GZIPPED, headers={"content-encoding": coding}, framing=framing)
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        upstream.set(reply)
        response = await (await sidecar.client()).get()

        assert (response.body, response.header("content-encoding")) == (GZIPPED, coding)


async def test_http_04_nothing_is_asked_for_in_the_clients_name():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        await (await sidecar.client()).get()

        assert [name for name, _ in upstream.requests[0].headers] == ["host", "x-forwarded-proto", "x-request-id"]


async def test_http_05_cookies_of_one_client_do_not_reach_another():
    async with FaultyUpstream(headers={"set-cookie": "session=a"}) as upstream, Sidecar(upstream) as sidecar:
        first, second = await sidecar.client(), await sidecar.client()
        response = await first.request(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await second.request(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")

        assert response.header("set-cookie") == "session=a"
        assert upstream.connection_count == 1
        assert upstream.requests[1].header("cookie") is None


class TestHttp07:
    """RFC 9112, 6.3: HEAD, 204, 304 and 1xx have no body; what announces one is not what ends the message."""

    @pytest.mark.parametrize("framing", ["length", "chunked"])
    async def test_head_keeps_its_framing_and_has_no_body(self, framing):
        async with FaultyUpstream(body=b"x" * 1234, framing=framing) as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            responses = [await client.get(method="HEAD") for _ in range(2)]

            for response in responses:
                name, value = ("content-length", "1234") if framing == "length" else ("transfer-encoding", "chunked")
                assert response.header(name) == value
            assert upstream.connection_count == 1

    async def test_204_has_neither_body_nor_length(self):
        async with FaultyUpstream(status=204) as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            response = await client.get()

            assert response.header_names == ["x-envoy-upstream-service-time", "date", "server"]
            assert (await client.get()).status == 204
            assert upstream.connection_count == 1

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    async def test_304_without_a_length_gets_none(self, method):
        """`content-length: 0` would say that the client's copy is empty."""
        answer = b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n"
        async with FaultyUpstream(garbage=answer, end="hang") as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get(method=method)

            assert (response.header("content-length"), response.header("transfer-encoding")) == (None, None)
            assert response.header("etag") == "x"

    async def test_304_may_say_what_its_body_would_be(self):
        async with (
            FaultyUpstream(status=304, headers={"content-length": "10"}) as upstream,
            Sidecar(upstream) as sidecar,
        ):
            client = await sidecar.client()
            response = await client.get()

            assert response.header("content-length") == "10"
            assert (await client.get()).status == 304
            assert upstream.connection_count == 1

    async def test_early_hints_come_before_the_response(self):
        reply = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        async with FaultyUpstream(garbage=reply, end="hang") as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get()

            assert [(head.status, head.header("link")) for head in response.interim] == [(103, "</style.css>")]
            assert (response.status, response.body) == (200, b"ok")

    async def test_101_nobody_asked_for_is_502(self):
        reply = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw"
        async with FaultyUpstream(garbage=reply, end="hang") as upstream, Sidecar(upstream) as sidecar:
            assert (await (await sidecar.client()).get()).status == 502

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    async def test_body_where_none_may_be_is_not_the_next_response(self, method):
        """304 and HEAD with a body all the same: its bytes are not read as an answer to somebody else."""
        evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        status = b"304 Not Modified" if method == "GET" else b"200 OK"
        reply = b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(evil) + evil
        async with FaultyUpstream(body=b"good") as upstream, Sidecar(upstream) as sidecar:
            upstream.for_next(1, garbage=reply, end="hang")
            client = await sidecar.client()
            await client.get(method=method)

            assert (await client.get()).body == b"good"


class TestHttp08:
    """A client that leaves: the upstream request is cancelled, the connection released, nobody charged."""

    @pytest.mark.slow
    async def test_200_clients_that_leave(self):
        detection = OutlierDetection(consecutive_5xx=1, max_ejection_percent=100)
        async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream, outlier_detection=detection) as sidecar:
            clients = [await sidecar.client() for _ in range(200)]
            for client in clients:
                client.send(GET)
            await arrived(upstream, 200)
            for client in clients:
                client.abort()
            await until(lambda: upstream.open_connections == 0)

            monitor = sidecar.cluster.hosts[0].monitor
            assert (monitor.consecutive_5xx, monitor.external.total, monitor.ejected) == (0, 0, False)
            assert sidecar.listener.connections == 0
            assert sidecar.stat("upstream_rq_active") == 0
            assert sidecar.http_stats.downstream_cx_destroy_active_rq == 200

    async def test_client_that_leaves_inside_the_response(self):
        async with FaultyUpstream(body=b"ab", truncate_at=1, end="hang") as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            client.send(GET)
            await client.reader.readuntil(b"\r\n\r\na")
            client.abort()
            await until(lambda: upstream.open_connections == 0)

            assert sidecar.stat("upstream_cx_destroy_local_with_active_rq") == 1

    async def test_client_that_leaves_inside_its_request(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\npart")
            await arrived(upstream)
            client.abort()
            await until(lambda: upstream.open_connections == 0)

            assert not upstream.requests[0].complete

    async def test_connection_is_released_for_the_next_client(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            upstream.for_next(1, fault="hang")
            gone = await sidecar.client()
            gone.send(GET)
            await arrived(upstream)
            gone.abort()

            assert (await (await sidecar.client()).get()).status == 200
