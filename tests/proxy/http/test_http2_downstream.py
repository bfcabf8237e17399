"""Clients that speak HTTP/2 to a sidecar whose hosts speak HTTP/1.1."""

import asyncio

import pytest

from proxy.codec.http2_frames import PREFACE, ErrorCode
from proxy.config.listener_options import ListenerOptions
from proxy.http.connection_timers import REQUEST_HEAD_TIMEOUT_MS
from proxy.http.premature_resets import PREMATURE_RESET_STREAMS
from proxy.testing import FaultyUpstream
from tests.proxy.http.http2_client import GET, POST, Http2Client, connected
from tests.proxy.http.http2_probes import block, frame, lines
from tests.proxy.http.sidecar import ManualClock, Sidecar, arrived, logged, until

MIB = 1 << 20
WINDOW_BYTES = 16 * MIB


class TestMessages:
    async def test_request_and_response_pass(self):
        async with FaultyUpstream(body=b"hello") as upstream, connected(upstream) as (sidecar, client):
            response = await client.get([*GET, (b"x-mine", b"1")])

            assert (response.status, bytes(response.body), response.ended) == (200, b"hello", True)
            assert dict(response.headers)[b"server"] == b"envoy"
            assert not {b"connection", b"transfer-encoding"} & dict(response.headers).keys()
            (request,) = upstream.requests
            assert (request.method, request.path, request.header("host"), request.header("x-mine")) == (
                "GET",
                "/",
                "a",
                "1",
            )
            assert request.header("x-forwarded-proto") == "http"
            (line,) = sidecar.log
            assert (line["protocol"], line["method"], line["bytes_sent"]) == ("HTTP/2", "GET", 5)
            stats = sidecar.http_stats
            assert (stats.downstream_rq_http2_total, stats.downstream_rq_http1_total) == (1, 0)
            assert (stats.downstream_cx_http2_total, stats.downstream_cx_http2_active) == (1, 1)
            client.abort()
            await until(lambda: stats.downstream_cx_http2_active == 0)

    async def test_many_streams_share_a_connection(self):
        async with FaultyUpstream(echo=True) as upstream, connected(upstream) as (sidecar, client):
            streams = [client.request([*GET[:-1], (b":path", b"/%d" % number)]) for number in range(50)]
            responses = [await client.response(stream) for stream in streams]

            assert [bytes(response.body).split()[1] for response in responses] == [b"/%d" % n for n in range(50)]
            assert sidecar.http_stats.downstream_cx_total == 1

    async def test_slow_stream_holds_up_no_other(self):
        async with FaultyUpstream(body=b"x") as upstream, connected(upstream) as (_, client):
            upstream.set(path="/slow", fault="hang")
            client.request([*GET[:-1], (b":path", b"/slow")])
            await arrived(upstream)

            assert (await client.get()).status == 200

    async def test_request_of_unstated_length_is_chunked_with_its_trailers(self):
        async with FaultyUpstream() as upstream, connected(upstream) as (_, client):
            stream = client.request(POST, end_stream=False)
            client.send(stream, b"one")
            client.send(stream, b"two")
            client.end(stream, [(b"checksum", b"7")])
            await client.response(stream)

            (request,) = upstream.requests
            assert (request.body, request.header("transfer-encoding")) == (b"onetwo", "chunked")
            assert ("checksum", "7") in request.trailers

    async def test_chunked_response_ends_with_its_trailers(self):
        reply = {"framing": "chunked", "body": b"abc", "trailers": {"grpc-status": "0"}}
        async with FaultyUpstream(**reply) as upstream, connected(upstream) as (_, client):
            response = await client.get()

            assert (bytes(response.body), response.trailers) == (b"abc", [(b"grpc-status", b"0")])

    async def test_continue_is_sent_at_once_and_not_asked_of_the_host(self):
        async with FaultyUpstream() as upstream, connected(upstream) as (_, client):
            stream = client.request([*POST, (b"expect", b"100-continue")], end_stream=False)
            await until(lambda: client.responses[stream].interim)
            client.send(stream, b"x", end_stream=True)
            response = await client.response(stream)

            assert (response.interim, response.status) == ([b"100"], 200)
            assert upstream.requests[0].header("expect") is None

    async def test_early_hints_pass(self):
        async with FaultyUpstream(informational=(103,)) as upstream, connected(upstream) as (_, client):
            response = await client.get()

            assert (response.interim, response.status) == ([b"103"], 200)

    @pytest.mark.parametrize(("status", "method"), [(204, b"GET"), (304, b"GET"), (200, b"HEAD")])
    async def test_response_without_a_body_is_its_head(self, status, method):
        async with FaultyUpstream(status=status, body=b"body") as upstream, connected(upstream) as (_, client):
            response = await client.get([(b":method", method), *GET[1:]])

            assert (response.status, bytes(response.body), response.ended) == (status, b"", True)

    async def test_early_answer_asks_the_client_to_stop(self):
        async with FaultyUpstream(status=413, early=True) as upstream, connected(upstream) as (sidecar, client):
            stream = client.request(POST, end_stream=False)
            response = await client.response(stream)

            assert (response.status, response.ended) == (413, True)
            await until(lambda: response.reset is not None)
            assert response.reset == ErrorCode.NO_ERROR
            assert sidecar.http_stats.downstream_rq_response_before_rq_complete == 1
            assert (await client.get()).status == 413  # the connection goes on

    async def test_response_that_breaks_off_is_reset(self):
        async with FaultyUpstream(body=b"abcdef", truncate_at=3) as upstream, connected(upstream) as (sidecar, client):
            response = await client.get()

            assert (bytes(response.body), response.reset) == (b"abc", ErrorCode.INTERNAL_ERROR)
            assert logged(sidecar)[:2] == (200, "UPE")

    async def test_no_host_is_503(self):
        async with connected() as (sidecar, client):
            response = await client.get()

            assert (response.status, bytes(response.body)) == (503, b"no healthy upstream")
            assert logged(sidecar)[:2] == (503, "UH")

    @pytest.mark.parametrize(
        ("request_lines", "status", "flags", "details"),
        [
            pytest.param(lines(path=b"/#x"), 400, "-", "path_normalization_failed", id="fragment"),
            pytest.param(
                [(b":method", b"CONNECT"), (b":authority", b"a:1")], 404, "NR", "route_not_found", id="CONNECT"
            ),
            pytest.param(lines(method=b"OPTIONS", path=b"*"), 404, "-", "absolute_path_rejected", id="OPTIONS *"),
            pytest.param(
                lines(*((b"h%d" % n, b"v") for n in range(97))), 431, "DPE", "http2.too_many_headers", id="many headers"
            ),
        ],
    )
    async def test_what_is_not_served_is_answered(self, request_lines, status, flags, details):
        async with FaultyUpstream() as upstream, connected(upstream) as (sidecar, client):
            response = await client.get(request_lines)

            assert response.status == status
            assert logged(sidecar)[:3] == (status, flags, details)
            assert upstream.request_count == 0
            assert (await client.get()).status == 200

    async def test_what_is_malformed_is_reset_and_logged(self):
        async with FaultyUpstream() as upstream, connected(upstream) as (sidecar, client):
            response = await client.get(lines((b"connection", b"close")))

            assert response.reset == ErrorCode.PROTOCOL_ERROR
            assert logged(sidecar)[:3] == (0, "DPE", "http2.violation.of.messaging.rule")
            assert (await client.get()).status == 200


class TestProtocolChoice:
    async def test_preface_may_come_byte_by_byte(self):
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            for index in range(len(PREFACE)):
                client.send(PREFACE[index : index + 1])
                await asyncio.sleep(0)
            client.send(frame(4, 0, 0) + frame(6, 0, 0, b"12345678"))
            received = b""
            while b"12345678" not in received:
                received += await client.reader.read(1_000)

            assert sidecar.http_stats.downstream_cx_http2_total == 1
            assert sidecar.http_stats.downstream_cx_total == 1

    @pytest.mark.parametrize("first", [1, 3, 10])
    async def test_request_that_begins_like_the_preface_is_http1(self, first):
        request = b"PRIVATE / HTTP/1.1\r\nHost: a\r\n\r\n" if first > 3 else b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n"
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            client.send(request[:first])
            await asyncio.sleep(0)
            client.send(request[first:])

            assert (await client.response()).status == (400 if first > 3 else 200)
            assert sidecar.http_stats.downstream_cx_http2_total == 0

    async def test_both_protocols_are_served_on_one_listener(self):
        async with FaultyUpstream(body=b"x") as upstream, connected(upstream) as (sidecar, client):
            assert (await (await sidecar.client()).get()).body == b"x"
            assert bytes((await client.get()).body) == b"x"
            assert [line["protocol"] for line in sidecar.log] == ["HTTP/1.1", "HTTP/2"]

    async def test_preface_that_does_not_go_on_ends_as_half_a_head(self):
        clock = ManualClock()
        async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
            client = await sidecar.client()
            client.send(PREFACE[:5])
            await until(lambda: len(sidecar.deadlines) >= 2)
            clock.advance(REQUEST_HEAD_TIMEOUT_MS)
            clock.advance(REQUEST_HEAD_TIMEOUT_MS)

            assert (await client.response()).status == 408

    async def test_clients_above_the_limit_are_closed(self):
        options = ListenerOptions(max_connections=1)
        async with FaultyUpstream() as upstream, connected(upstream, options=options) as (sidecar, _):
            second = await Http2Client.connect(sidecar)
            await second.wait_closed()

            assert sidecar.http_stats.downstream_cx_overflow == 1


class TestFlowControl:
    async def test_client_that_acknowledges_nothing_stops_the_host(self):
        async with FaultyUpstream(body=bytes(64 * MIB)) as upstream, connected(upstream) as (sidecar, client):
            client.consuming = False
            stream = client.request()
            await until(lambda: sidecar.stat("upstream_flow_control_paused_reading_total"))
            for _ in range(300):
                await asyncio.sleep(0)
            assert len(client.responses[stream].body) == 65_535
            assert sidecar.stat("upstream_cx_rx_bytes_total") < 2 * MIB
            assert sidecar.http_stats.http2.pending_send_bytes < 2 * MIB
            client.reset(stream)

            await until(lambda: sidecar.http_stats.http2.pending_send_bytes == 0)

    async def test_stopped_stream_leaves_others_alone(self):
        async with FaultyUpstream(body=bytes(MIB)) as upstream, connected(upstream) as (_, client):
            upstream.set(path="/small", body=b"x")
            client.h2.increment_flow_control_window(10 * MIB)
            client.consuming = False
            stuck = client.request()
            await until(lambda: len(client.responses[stuck].body) == 65_535)

            assert bytes((await client.get([*GET[:-1], (b":path", b"/small")])).body) == b"x"
            assert not client.responses[stuck].over

    async def test_client_that_does_not_read_stops_the_hosts_of_all_streams(self):
        async with FaultyUpstream(body=bytes(32 * MIB)) as upstream, connected(upstream) as (sidecar, client):
            client.h2.update_settings({4: 2**31 - 1})
            client.h2.increment_flow_control_window(2**31 - 65_536)
            client.flush()
            await until(lambda: any(type(event).__name__ == "SettingsAcknowledged" for event in client.events))
            client.transport.pause_reading()
            for count in range(1, 4):  # the later ones begin when the socket is full already
                client.request()
                await until(lambda count=count: sidecar.stat("upstream_flow_control_paused_reading_total") >= count)
            for _ in range(300):
                await asyncio.sleep(0)

            assert sidecar.stat("upstream_cx_rx_bytes_total") < 20 * MIB  # what the kernel takes for three, at most

    async def test_response_goes_on_when_it_is_acknowledged(self):
        body = bytes(range(256)) * 8_192
        async with FaultyUpstream(body=body) as upstream, connected(upstream) as (sidecar, client):
            client.consuming = False
            stream = client.request()
            await until(lambda: sidecar.stat("upstream_flow_control_paused_reading_total"))
            client.consuming = True
            client.h2.acknowledge_received_data(65_535, stream)
            client.flush()
            response = await client.response(stream)

            assert bytes(response.body) == body
            assert sidecar.stat("upstream_flow_control_resumed_reading_total") >= 1

    async def test_host_that_does_not_connect_stops_the_client_at_its_window(self, black_hole):
        async with connected(black_hole) as (sidecar, client):
            stream = client.request(POST, end_stream=False)
            await until(lambda: client.h2.remote_settings.initial_window_size == WINDOW_BYTES)
            sent = 0
            while window := min(client.h2.local_flow_control_window(stream), MIB):
                client.send(stream, bytes(window))
                sent += window
                for _ in range(50):
                    await asyncio.sleep(0)
            assert sent < WINDOW_BYTES + MIB
            assert sidecar.http_stats.downstream_flow_control_paused_reading_total == 1


class TestResets:
    async def test_client_that_resets_is_gone_for_this_request_only(self):
        async with FaultyUpstream(fault="hang") as upstream, connected(upstream) as (sidecar, client):
            stream = client.request()
            await arrived(upstream)
            client.reset(stream)
            await until(lambda: sidecar.log)

            assert logged(sidecar) == (0, "DR", "http2.remote_reset", 1)
            assert sidecar.http_stats.downstream_rq_rx_reset == 1
            upstream.set(body=b"x")
            assert (await client.get()).status == 200

    async def test_client_that_goes_takes_all_its_requests_along(self):
        async with FaultyUpstream(fault="hang") as upstream, connected(upstream) as (sidecar, client):
            for _ in range(3):
                client.request()
            await arrived(upstream, 3)
            client.abort()
            await until(lambda: len(sidecar.log) == 3)

            assert {line["response_flags"] for line in sidecar.log} == {"DC"}
            assert sidecar.http_stats.downstream_cx_destroy_active_rq == 1

    @pytest.mark.parametrize(("count", "ended"), [(249, False), (250, True)])
    async def test_streams_opened_to_be_reset_end_the_connection(self, count, ended):
        """Envoy: half of the first 500 streams reset before an answer."""
        assert count == PREMATURE_RESET_STREAMS // 2 - (not ended)
        async with FaultyUpstream(fault="hang") as upstream, connected(upstream) as (sidecar, client):
            for _ in range(count):
                client.reset(client.request())
            if ended:
                await client.wait_closed()
            else:
                await until(lambda: sidecar.http_stats.downstream_rq_rx_reset == count)

            assert sidecar.http_stats.downstream_rq_too_many_premature_resets == int(ended)
            assert client.closed is ended

    @pytest.mark.parametrize(
        ("extra", "fault"),
        [
            pytest.param((), lambda stream: frame(8, 0, stream, bytes(4)), id="window update by nothing"),
            pytest.param((), lambda stream: frame(2, 0, stream, bytes(4)), id="short priority"),
            pytest.param(((b"content-length", b"1"),), lambda stream: frame(0, 0, stream, b"xx"), id="long body"),
            pytest.param(((b"te", b"x"),), lambda _: b"", id="malformed head"),
        ],
    )
    @pytest.mark.parametrize(("count", "ended"), [(249, False), (250, True)])
    async def test_streams_opened_to_have_them_reset_end_the_connection(self, count, ended, extra, fault):
        head = block(lines(*extra, method=b"POST"))
        async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            streams = range(1, 2 * count, 2)
            client.send(PREFACE + frame(4, 0, 0))
            client.send(b"".join(frame(1, 4, stream, head) + fault(stream) for stream in streams))
            await until(lambda: len(sidecar.log) == count)
            await asyncio.sleep(0)

            assert sidecar.http_stats.downstream_rq_too_many_premature_resets == int(ended)
            assert sidecar.http_stats.http2.goaway_sent == int(ended)
            assert {line["response_code"] for line in sidecar.log} == {0}

    async def test_resets_behind_answers_are_harmless(self):
        count = PREMATURE_RESET_STREAMS // 2 + 5
        reply = {"body": b"abc", "truncate_at": 1, "end": "hang"}
        async with FaultyUpstream(**reply) as upstream, connected(upstream) as (sidecar, client):
            for _ in range(count):
                stream = client.request()
                await until(lambda stream=stream: client.responses[stream].body)
                client.reset(stream)
            await until(lambda: sidecar.http_stats.downstream_rq_rx_reset == count)

            assert sidecar.http_stats.downstream_rq_too_many_premature_resets == 0

    async def test_broken_protocol_ends_every_request(self):
        async with FaultyUpstream(fault="hang") as upstream, connected(upstream) as (sidecar, client):
            client.request()
            await arrived(upstream)
            client.transport.write(frame(6, 0, 1, b"12345678"))
            await client.wait_closed()

            assert [int(goaway.error_code) for goaway in client.goaways] == [ErrorCode.PROTOCOL_ERROR]
            assert logged(sidecar)[:3] == (0, "DPE", "http2.protocol_error")
            assert sidecar.http_stats.downstream_cx_protocol_error == 1

    async def test_request_that_is_answered_before_its_fault_is_read_is_one_request(self):
        """The two come in one read, and the answer needs no host."""
        async with Sidecar() as sidecar:
            sidecar.set_routes()
            client = await sidecar.client()
            head = frame(1, 4, 1, block(lines(method=b"POST")))
            client.send(PREFACE + frame(4, 0, 0) + head + frame(8, 0, 1, bytes(4)) + frame(1, 5, 3, block(lines())))
            await until(lambda: len(sidecar.log) >= 2)

            assert [line["response_code"] for line in sidecar.log] == [404, 404]
            assert sidecar.http_stats.downstream_rq_total == 2
