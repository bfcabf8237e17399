"""Bodies, trailers and upgrades between HTTP/1.1 clients and HTTP/2 hosts, and who waits for whom."""

import pytest

from proxy.config.cluster_config import Http2Options
from proxy.upstream.connection import WRITE_HIGH_WATER_BYTES
from proxy.upstream.http2_connection import STREAM_WINDOW_BYTES, Http2Connection
from tests.proxy.http.sidecar import GET, Sidecar, logged, post, until
from tests.proxy.upstream.http2_upstream import (
    INITIAL_WINDOW_SIZE,
    PROTOCOL_ERROR,
    Http2Request,
    Http2Upstream,
)

HTTP2 = Http2Options()
LARGE = bytes(range(256)) * 4 * 1024  # 1 MiB, four times what is held on its way
PIECE = 16_384


def ends_later(status: int, body: bytes = b""):
    """Send a head that does not end the stream, and the end behind it."""

    def answer(request: Http2Request) -> None:
        request.send_headers([(":status", str(status))])
        request.send_data(body, end_stream=True)

    return answer


def answers_only(path: str):
    """Leave requests for other paths unanswered."""

    def answer(request: Http2Request) -> None:
        if request.path == path:
            request.respond()

    return answer


def connection_of(sidecar: Sidecar) -> Http2Connection:
    """Return the one connection to the host."""
    (connection,) = sidecar.cluster.hosts[0].pool._connections
    return connection


def pauses(sidecar: Sidecar) -> tuple[int, int]:
    """Return how often clients were told to wait, and to go on."""
    stats = sidecar.http_stats
    return stats.downstream_flow_control_paused_reading_total, stats.downstream_flow_control_resumed_reading_total


class TestRequests:
    async def test_stated_length(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            await (await sidecar.client()).request(post(b"body"))

            (request,) = upstream.requests
            assert request.body == b"body"
            assert request.headers[":method"] == "POST"
            assert request.headers["content-length"] == "4"

    async def test_chunks_become_frames_and_trailers_a_block(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            await (await sidecar.client()).request(
                b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n\r\n"
                b"3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 7\r\n\r\n"
            )

            (request,) = upstream.requests
            assert (request.body, request.trailers) == (b"abcde", {"x-sum": "7"})
            assert request.headers["te"] == "trailers"
            assert "transfer-encoding" not in request.headers

    async def test_head_is_made_of_pseudo_headers(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            await (await sidecar.client()).request(
                b"GET /x?q HTTP/1.1\r\nHost: a.test\r\nConnection: x\r\nX: 1\r\n\r\n"
            )

            (request,) = upstream.requests
            assert list(request.headers)[:4] == [":method", ":scheme", ":authority", ":path"]
            assert (request.headers[":authority"], request.headers[":path"]) == ("a.test", "/x?q")
            assert not {"host", "connection", "x"} & request.headers.keys()

    async def test_body_waits_for_the_window_of_the_host(self):
        """What is held meanwhile is bounded, and the client is not read."""
        upstream = Http2Upstream(opens_windows=False, settings={INITIAL_WINDOW_SIZE: 20_000})
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            await client.get()
            client.send(post(LARGE * 2))
            await until(lambda: len(upstream.requests) == 2 and len(upstream.requests[1].body) == 20_000)
            await until(lambda: sidecar.stat("http2.pending_send_bytes") > WRITE_HIGH_WATER_BYTES)
            held = sidecar.stat("http2.pending_send_bytes")
            request = upstream.requests[1]
            upstream.opens_windows = True
            request.update_window(1 << 20)
            response = await client.response()

            assert held < 3 * WRITE_HIGH_WATER_BYTES
            assert response.status == 200
            assert request.body == LARGE * 2

    async def test_client_waits_whose_request_begins_while_the_socket_is_full(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            await client.get()
            connection = connection_of(sidecar)
            connection.pause_writing()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
            await until(lambda: pauses(sidecar) == (1, 0))
            await until(lambda: len(upstream.requests) == 2)
            client.send(b"def")
            connection.resume_writing()
            response = await client.response("POST")

            assert (response.status, upstream.requests[1].body) == (200, b"abcdef")
            assert pauses(sidecar) == (1, 1)

    async def test_client_whose_request_is_complete_waits_no_longer_than_the_socket_is_full(self):
        """It is read before the response, so that its leaving is noticed."""
        upstream = Http2Upstream(answers_only("/"))
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            await client.get()
            connection = connection_of(sidecar)
            connection.pause_writing()
            client.send(b"POST /unanswered HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            await until(lambda: pauses(sidecar) == (1, 0))
            connection.resume_writing()
            client.abort()
            await until(lambda: len(upstream.requests) == 2 and upstream.requests[1].reset_code is not None)

            assert pauses(sidecar) == (1, 1)

    async def test_client_whose_request_is_complete_waits_no_longer_than_for_the_window(self):
        upstream = Http2Upstream(answers_only("/"), opens_windows=False, settings={INITIAL_WINDOW_SIZE: 0})
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            await client.get()
            size = WRITE_HIGH_WATER_BYTES + 1
            client.send(b"POST /unanswered HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
            client.send(bytes(size - 1))
            await until(lambda: sidecar.stat("http2.pending_send_bytes") == size - 1)
            client.send(b"x")
            await until(lambda: pauses(sidecar) == (1, 0))
            upstream.requests[1].update_window(1 << 20)
            await until(lambda: upstream.requests[1].complete)
            client.abort()
            await until(lambda: sidecar.stat("upstream_rq_active") == 0)

            assert pauses(sidecar) == (1, 1)


class TestResponses:
    async def test_body_without_length_is_chunked(self):
        upstream = Http2Upstream(lambda request: request.respond(200, b"abc"))
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            response = await (await sidecar.client()).get()

            assert response.body == b"abc"
            assert response.header("transfer-encoding") == "chunked"

    async def test_stated_length_is_kept(self):
        upstream = Http2Upstream(lambda request: request.respond(200, b"abc", [("content-length", "3")]))
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            response = await (await sidecar.client()).get()

            assert (response.body, response.header("content-length")) == (b"abc", "3")
            assert response.header("transfer-encoding") is None

    @pytest.mark.parametrize("body", [b"", b"abc"], ids=["alone", "behind a body"])
    async def test_trailers(self, body):
        upstream = Http2Upstream(lambda request: request.respond(200, body, trailers=[("x-sum", "7")]))
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            response = await (await sidecar.client()).get()

            assert (response.body, response.trailers) == (body, [("x-sum", "7")])

    async def test_early_hints_come_before_the_response(self):
        def answer(request: Http2Request) -> None:
            request.send_headers([(":status", "103"), ("link", "x")])
            request.respond(200, b"ok")

        async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            response = await (await sidecar.client()).get()

            assert [head.status for head in response.interim] == [103]
            assert (response.status, response.body) == (200, b"ok")

    @pytest.mark.parametrize(
        ("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)], ids=["head", "204", "304"]
    )
    @pytest.mark.parametrize("whole", [True, False], ids=["ended by its head", "ended later"])
    async def test_no_body_by_nature(self, method, status, whole):
        """Nothing behind such a head may reach a client of HTTP/1.1, who would read it as the next response."""
        answer = (lambda request: request.respond(status)) if whole else ends_later(status)
        async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            for _ in range(2):
                response = await client.get(method=method)

                assert (response.status, response.body) == (status, b"")
            await until(lambda: sidecar.stat("upstream_rq_active") == 0)
            assert sidecar.stat("upstream_rq_tx_reset") == 0

    @pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
    async def test_body_where_none_may_be_is_dropped(self, method, status):
        async with (
            Http2Upstream(ends_later(status, b"smuggled")) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            client = await sidecar.client()
            for _ in range(2):
                response = await client.get(method=method)

                assert (response.status, response.body) == (status, b"")
            await until(lambda: sidecar.stat("upstream_rq_active") == 0)
            assert sidecar.stat("upstream_rq_tx_reset") == 2
            assert len(upstream.connections) == 1

    async def test_endless_body_where_none_may_be_resets_its_stream(self):
        def answer(request: Http2Request) -> None:
            request.send_headers([(":status", "204")])
            request.send_data(b"smuggled")

        async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            response = await (await sidecar.client()).get()

            assert (response.status, response.body) == (204, b"")
            await until(lambda: upstream.requests[0].reset_code == PROTOCOL_ERROR)

    @pytest.mark.slow
    async def test_host_waits_for_a_client_that_does_not_read(self):
        """It may send what the stream's window holds, and another client's response passes on the same connection."""
        sender = WindowedSender(LARGE * 16)

        def answer(request: Http2Request) -> None:
            if request.path == "/quick":
                request.respond(200, b"quick")
            else:
                sender.answer(request)

        async with (
            Http2Upstream(answer, on_window=sender.go_on) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            slow = await sidecar.client(receive_buffer_bytes=4_096)
            slow.send(GET)
            await until(
                lambda: (
                    sidecar.stat("upstream_flow_control_paused_reading_total")
                    > sidecar.stat("upstream_flow_control_resumed_reading_total")
                )
            )
            quick = await (await sidecar.client()).get("/quick")
            request = upstream.requests[0]
            stalled = request.sent
            body = (await slow.response()).body

            assert quick.body == b"quick"
            assert stalled < len(LARGE) * 16
            assert body == LARGE * 16

    async def test_large_body_passes_whole(self):
        """The host sends as much as it is allowed to."""
        sender = WindowedSender(LARGE * 4)
        async with (
            Http2Upstream(sender.answer, on_window=sender.go_on) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            response = await (await sidecar.client()).get()

            assert response.body == LARGE * 4


class WindowedSender:
    """Answers one request with a body that keeps to the stream's window."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def answer(self, request: Http2Request) -> None:
        request.send_headers([(":status", "200")])
        self.go_on(request)

    def go_on(self, request: Http2Request) -> None:
        while request.sent < len(self._body) and request.sent < STREAM_WINDOW_BYTES + request.granted:
            size = min(PIECE, STREAM_WINDOW_BYTES + request.granted - request.sent)
            end = request.sent + size >= len(self._body)
            request.send_data(self._body[request.sent : request.sent + size], end_stream=end)


class TestUpgrades:
    WEBSOCKET = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

    async def test_tunnel_is_an_extended_connect(self):
        def consent(request: Http2Request) -> None:
            request.send_headers([(":status", "200"), ("sec-websocket-accept", "x")])
            request.send_data(b"hello")

        async with (
            Http2Upstream(on_head=consent) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            client = await sidecar.client()
            response = await client.request(self.WEBSOCKET)
            hello = await client.reader.readexactly(5)
            client.send(b"world")
            await until(lambda: upstream.requests[0].body == b"world")

            assert response.status == 101
            assert (response.header("upgrade"), response.header("connection")) == ("websocket", "upgrade")
            assert response.header("sec-websocket-accept") == "x"
            assert hello == b"hello"
            headers = upstream.requests[0].headers
            assert (headers[":method"], headers[":protocol"], headers[":path"]) == ("CONNECT", "websocket", "/chat")
            client.abort()
            await until(lambda: upstream.requests[0].reset_code is not None)

    @pytest.mark.parametrize("end", ["host", "client"])
    async def test_tunnel_ends_for_both(self, end):
        async with (
            Http2Upstream(on_head=lambda request: request.send_headers([(":status", "200")])) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            client = await sidecar.client()
            await client.request(self.WEBSOCKET)
            (request,) = upstream.requests
            if end == "host":
                request.send_data(b"bye", end_stream=True)
                told = await client.reader.read()
            else:
                client.abort()
                told = b"bye"
            await until(lambda: request.complete or request.reset_code is not None)

            assert told == b"bye"
            await until(lambda: sidecar.stat("upstream_rq_active") == 0)
            assert sidecar.stat("upstream_cx_active") == 1

    async def test_tunnel_that_ends_with_the_consent(self):
        def consent(request: Http2Request) -> None:
            request.send_headers([(":status", "200")], end_stream=True)

        async with (
            Http2Upstream(on_head=consent) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            client = await sidecar.client()
            response = await client.request(self.WEBSOCKET)
            rest = await client.reader.read()

            assert (response.status, rest) == (101, b"")
            await until(lambda: sidecar.stat("upstream_rq_active") == 0)

    async def test_refusal_is_an_answer(self):
        async with (
            Http2Upstream(on_head=lambda request: request.respond(404, b"no")) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            response = await (await sidecar.client()).request(self.WEBSOCKET)

            assert (response.status, response.body) == (404, b"no")
            assert logged(sidecar)[:2] == (404, "-")
