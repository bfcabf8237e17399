"""What an HTTP/2 host does to its streams and its connection, and what becomes of the requests."""

import pytest
from hyperframe.frame import GoAwayFrame, PushPromiseFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

from outlier import Result
from proxy.config.cluster_config import Http2Options
from proxy.config.route_config import RetryPolicy
from tests.proxy.http.sidecar import GET, ManualClock, Sidecar, logged, post, until
from tests.proxy.upstream.http2_upstream import (
    CANCEL,
    CONNECT_ERROR,
    ENHANCE_YOUR_CALM,
    INTERNAL_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Http2Request,
    Http2Upstream,
)

HTTP2 = Http2Options()
CONNECTED = (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None)
FAILED = (Result.LOCAL_ORIGIN_CONNECT_FAILED, None)
PREFIX = "upstream connect error or disconnect/reset before headers. reset reason: "


def resets(code: int):
    return lambda request: request.reset(code)


def starts_and(then):
    """Answer with a head and a piece of body, and go on with `then`."""

    def answer(request: Http2Request) -> None:
        request.send_headers([(":status", "200")])
        request.send_data(b"part")
        then(request)

    return answer


@pytest.mark.parametrize(
    ("code", "status", "flag", "reason", "rx_reset", "tx_reset"),
    [
        (NO_ERROR, 503, "UR", "remote reset", 1, 0),
        (PROTOCOL_ERROR, 502, "UPE", "protocol error", 0, 1),
        (INTERNAL_ERROR, 503, "UR", "remote reset", 1, 0),
        (REFUSED_STREAM, 503, "UR", "remote refused stream reset", 0, 0),
        (CANCEL, 503, "UR", "remote reset", 1, 0),
        (CONNECT_ERROR, 503, "UR", "remote error with CONNECT request", 0, 0),
        (ENHANCE_YOUR_CALM, 503, "UR", "remote reset", 1, 0),
        (99, 503, "UR", "remote reset", 1, 0),
    ],
)
async def test_stream_that_the_host_resets(code, status, flag, reason, rx_reset, tx_reset):
    async with Http2Upstream(resets(code)) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        (reports,) = sidecar.record()
        response = await (await sidecar.client()).get()

        assert (response.status, response.body.decode()) == (status, PREFIX + reason)
        details = f"upstream_reset_before_response_started{{{reason}}}".replace(" ", "_")
        assert logged(sidecar) == (status, flag, details, 1)
        assert reports == [CONNECTED, FAILED]
        assert (sidecar.stat("upstream_rq_rx_reset"), sidecar.stat("upstream_rq_tx_reset")) == (rx_reset, tx_reset)
        assert sidecar.stat("http2.rx_reset") == 1
        assert sidecar.stat("upstream_cx_active") == 1


async def test_stream_reset_in_the_middle_cuts_the_response_off():
    upstream = Http2Upstream(starts_and(resets(INTERNAL_ERROR)))
    async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        (reports,) = sidecar.record()
        response = await (await sidecar.client()).get()

        assert (response.status, response.complete) == (200, False)
        assert logged(sidecar) == (200, "UR", "upstream_reset_after_response_started{remote_reset}", 1)
        assert reports == [CONNECTED, (Result.EXT_ORIGIN_REQUEST_SUCCESS, 200), FAILED]
        assert sidecar.stat("upstream_cx_active") == 1


async def test_other_streams_of_a_connection_do_not_notice_a_reset():
    held = []

    def answer(request: Http2Request) -> None:
        if request.path == "/held":
            held.append(request)
        else:
            request.reset(INTERNAL_ERROR)

    async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        waiting = await sidecar.client()
        waiting.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: held)
        reset = await (await sidecar.client()).get("/reset")
        held[0].respond(200, b"ok")

        assert reset.status == 503
        assert (await waiting.response()).body == b"ok"
        assert len(upstream.connections) == 1


async def test_connection_that_breaks_is_charged_for_each_stream():
    def answer(request: Http2Request) -> None:
        if len(request.connection.requests) == 3:
            request.connection.abort()

    async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        (reports,) = sidecar.record()
        clients = [await sidecar.client() for _ in range(3)]
        for client in clients:
            client.send(GET)
        responses = [await client.response() for client in clients]

        assert [response.body.decode() for response in responses] == [PREFIX + "connection termination"] * 3
        assert sorted(reports) == sorted([CONNECTED, FAILED] * 3)
        assert {(line["response_flags"], line["response_code_details"]) for line in sidecar.log} == {
            ("UC", "upstream_reset_before_response_started{connection_termination}")
        }
        assert sidecar.stat("upstream_rq_pending_failure_eject") == 3
        assert sidecar.stat("upstream_cx_destroy_remote_with_active_rq") == 1


async def test_streams_that_a_leaving_host_has_not_taken_are_refused():
    """The stream that it has taken goes on."""

    def answer(request: Http2Request) -> None:
        if len(request.connection.requests) == 2:
            request.connection.go_away(1, NO_ERROR)

    async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        first = await sidecar.client()
        first.send(GET)
        await until(lambda: upstream.requests)
        refused = await (await sidecar.client()).get()
        upstream.requests[0].respond(200, b"ok")

        assert refused.body.decode() == PREFIX + "remote refused stream reset"
        assert (await first.response()).body == b"ok"
        await until(lambda: upstream.connections[0].closed)
        assert sidecar.stat("upstream_cx_close_notify") == 1
        assert sidecar.stat("upstream_cx_protocol_error") == 0


async def test_refused_stream_is_tried_again():
    def answer(request: Http2Request) -> None:
        if request.stream_id == 1:
            request.reset(REFUSED_STREAM)
        else:
            request.respond(200, b"ok")

    policy = RetryPolicy(retry_on="refused-stream", num_retries=1)
    async with (
        Http2Upstream(answer) as upstream,
        Sidecar(upstream.address, h2_upstream=HTTP2, route={"retry": policy}) as sidecar,
    ):
        response = await (await sidecar.client()).get()

        assert (response.status, response.body) == (200, b"ok")
        assert sidecar.stat("upstream_rq_retry_success") == 1


def promise(request: Http2Request) -> None:
    block = request.connection.encoder.encode([(":method", "GET")])
    request.connection.send(PushPromiseFrame(request.stream_id, 2, block, flags=["END_HEADERS"]))


@pytest.mark.parametrize(
    "answer",
    [
        promise,
        lambda request: request.connection.send(RstStreamFrame(99, 0)),
        lambda request: request.connection.send(WindowUpdateFrame(0, 2**31 - 1)),
        lambda request: request.connection.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ],
    ids=["promise", "reset of nothing", "window", "HTTP/1.1"],
)
async def test_host_that_breaks_the_protocol_loses_its_connection(answer):
    async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        (reports,) = sidecar.record()
        response = await (await sidecar.client()).get()

        assert (response.status, response.body.decode()) == (502, PREFIX + "protocol error")
        assert logged(sidecar) == (502, "UPE", "upstream_reset_before_response_started{protocol_error}", 1)
        assert reports == [CONNECTED, FAILED]
        await until(lambda: upstream.connections[0].closed)
        (told,) = [frame for frame in upstream.connections[0].frames if isinstance(frame, GoAwayFrame)]
        assert told.error_code != NO_ERROR
        assert (sidecar.stat("upstream_cx_protocol_error"), sidecar.stat("upstream_rq_tx_reset")) == (1, 1)
        assert sidecar.stat("upstream_cx_destroy_local") == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: request.send_headers([("x", "no status")], end_stream=True),
        lambda request: request.respond(200, b"ok", [("Upper", "1")]),
        lambda request: request.respond(200, b"ok", [("connection", "close")]),
        lambda request: request.respond(101),
        lambda request: request.send_data(b"no head", end_stream=True),
    ],
    ids=["no status", "upper case", "connection", "101", "no head"],
)
async def test_malformed_response_resets_its_stream_only(answer):
    async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        (reports,) = sidecar.record()
        response = await (await sidecar.client()).get()

        assert (response.status, response.body.decode()) == (502, PREFIX + "protocol error")
        assert logged(sidecar) == (502, "UPE", "upstream_reset_before_response_started{protocol_error}", 1)
        assert reports == [CONNECTED, FAILED]
        await until(lambda: upstream.requests[0].reset_code == PROTOCOL_ERROR)
        assert (sidecar.stat("upstream_cx_protocol_error"), sidecar.stat("upstream_rq_tx_reset")) == (0, 1)
        assert sidecar.stat("upstream_cx_active") == 1


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", b""], ids=["text", "none"]
)
async def test_host_that_does_not_greet_in_http2(greeting):
    async with Http2Upstream(greeting=greeting) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        response = await (await sidecar.client()).get()

        assert (response.status, response.body.decode()) == (502, PREFIX + "protocol error")


@pytest.mark.parametrize("stated", ["2", "4"])
async def test_body_of_another_length_than_stated_resets_its_stream_only(stated):
    def answer(request: Http2Request) -> None:
        request.respond(200, b"abc", [("content-length", stated)])

    async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        response = await (await sidecar.client()).get()

        assert (response.status, response.complete) == (200, False)
        assert logged(sidecar)[1:3] == ("UPE", "upstream_reset_after_response_started{protocol_error}")
        await until(lambda: upstream.requests[0].reset_code == PROTOCOL_ERROR)
        assert sidecar.stat("upstream_cx_active") == 1


async def test_a_settings_frame_in_the_middle_is_acknowledged():
    async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        client = await sidecar.client()
        await client.get()
        upstream.connections[0].send(SettingsFrame(0, settings={4: 1_000}))
        await until(
            lambda: sum("ACK" in frame.flags for frame in upstream.connections[0].frames if frame.type == 4) == 2
        )

        assert (await client.request(post(b"x" * 500))).status == 200


class TestGivingUp:
    async def test_client_that_leaves_resets_its_stream(self):
        async with (
            Http2Upstream(lambda _request: None) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: upstream.requests)
            client.abort()
            await until(lambda: upstream.requests[0].reset_code is not None)

            assert upstream.requests[0].reset_code == INTERNAL_ERROR
            assert sidecar.stat("upstream_rq_tx_reset") == sidecar.stat("http2.tx_reset") == 1
            assert sidecar.stat("upstream_cx_active") == 1

    async def test_timeout_resets_its_stream(self):
        clock = ManualClock()
        async with (
            Http2Upstream(lambda _request: None) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, clock=clock, route={"timeout_ms": 30}) as sidecar,
        ):
            client = await sidecar.client()
            client.send(GET)
            await until(lambda: upstream.requests)
            clock.advance(30)
            response = await client.response()

            assert response.status == 504
            await until(lambda: upstream.requests[0].reset_code == INTERNAL_ERROR)

    async def test_response_before_the_request_is_complete_ends_both(self):
        upstream = Http2Upstream(on_head=lambda request: request.respond(200, b"early"))
        async with upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            response = await client.response()

            assert response.body == b"early"
            await until(lambda: upstream.requests[0].reset_code == INTERNAL_ERROR)
            assert sidecar.stat("upstream_rq_tx_reset") == 1


class TestKeepalive:
    async def test_host_that_answers_is_kept(self):
        options = Http2Options(keepalive_interval_ms=20, keepalive_timeout_ms=30_000)
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=options) as sidecar:
            await (await sidecar.client()).get()
            await until(lambda: upstream.connections[0].pings == 3)

            assert sidecar.stat("http2.keepalive_timeout") == 0
            assert sidecar.stat("upstream_cx_active") == 1

    async def test_host_that_does_not_loses_the_connection_and_its_streams(self):
        options = Http2Options(keepalive_interval_ms=20, keepalive_timeout_ms=300)
        upstream = Http2Upstream(lambda _request: None, answers_pings=False)
        async with upstream, Sidecar(upstream.address, h2_upstream=options) as sidecar:
            (reports,) = sidecar.record()
            clients = [await sidecar.client() for _ in range(2)]
            for client in clients:
                client.send(GET)
            responses = [await client.response() for client in clients]

            assert [response.body.decode() for response in responses] == [PREFIX + "connection termination"] * 2
            assert reports.count(FAILED) == 2
            assert sidecar.stat("http2.keepalive_timeout") == 1
            assert sidecar.stat("upstream_cx_destroy_local_with_active_rq") == 1

    async def test_nothing_is_sent_without_an_interval(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            await (await sidecar.client()).get()

            assert sidecar.cluster.hosts[0].pool.new_keepalive(lambda _payload: None, lambda: None) is None
            assert upstream.connections[0].pings == 0
