"""A real gRPC client and a real server, with the sidecar between them: what one sends the other gets."""

import asyncio

import grpc
import pytest

from outlier import OutlierDetection
from proxy.config.cluster_config import Http2Options
from tests.proxy.grpc.backend import SERVICE, Backend
from tests.proxy.http.sidecar import WAIT_S, ManualClock, Sidecar, logged, until

ALL_BYTES = bytes(range(256))


def unary(channel: grpc.aio.Channel, method: str = "Unary") -> grpc.aio.UnaryUnaryMultiCallable:
    return channel.unary_unary(f"/{SERVICE}/{method}")


async def failure(call: grpc.aio.Call) -> tuple[grpc.StatusCode, str]:
    """Return status and message of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or ""


class TestShapes:
    async def test_unary(self, channel, sidecar):
        assert await unary(channel)(b"hello") == b"hello"
        assert (sidecar.log[0]["protocol"], sidecar.log[0]["response_code"]) == ("HTTP/2", 200)

    async def test_empty_message(self, channel):
        assert await unary(channel)(b"") == b""

    async def test_client_streaming(self, channel):
        call = channel.stream_unary(f"/{SERVICE}/Collect")(iter([b"a" * size for size in (0, 1, 70_000, 5)]))

        assert await call == b"70006"

    async def test_server_streaming(self, channel):
        call = channel.unary_stream(f"/{SERVICE}/Count")(b"300 1000")

        assert [int(message.rstrip(b".")) async for message in call] == list(range(300))

    async def test_each_message_of_both_directions_goes_through_at_once(self, channel):
        """The next one is only sent when the answer to the last is here: nobody waits for more."""
        call = channel.stream_stream(f"/{SERVICE}/Echo")()
        for number in range(50):
            await call.write(b"%d" % number)
            assert await call.read() == b"%d" % number
        await call.done_writing()

        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK

    async def test_many_calls_on_many_connections(self, sidecar, open_channel, backend):
        channels = [open_channel(sidecar) for _ in range(8)]
        calls = [
            unary(channel)(b"%d %d" % (index, number)) for index, channel in enumerate(channels) for number in range(25)
        ]

        assert await asyncio.gather(*calls) == [
            b"%d %d" % (index, number) for index in range(8) for number in range(25)
        ]
        assert sidecar.http_stats.downstream_cx_total == 8
        assert sidecar.cluster.stats.upstream_cx_total < 8
        assert backend.calls == 200

    async def test_health_service(self, channel):
        assert await channel.unary_unary("/grpc.health.v1.Health/Check")(b"") == b"\x08\x01"


class TestMetadata:
    async def test_text_and_binary_values_reach_the_server_and_come_back(self, channel, backend):
        sent = [
            ("m-text", "a b  c"),
            ("m-all-bin", ALL_BYTES),
            ("m-empty-bin", b""),
            ("m-twice", "1"),
            ("m-twice", "2"),
        ]
        call = unary(channel)(b"", metadata=sent)
        await call

        assert [pair for pair in backend.received if pair in sent] == sent
        initial = [pair for pair in await call.initial_metadata() if pair in sent]
        trailing = [(key.removeprefix("trailing-"), value) for key, value in await call.trailing_metadata()]
        assert sorted(initial, key=str) == sorted(sent, key=str)
        assert sorted(trailing, key=str) == sorted(sent, key=str)

    async def test_large_metadata(self, sidecar, open_channel):
        channel = open_channel(sidecar, max_metadata_size=256 * 1024)
        value = ALL_BYTES * 64  # 16 KiB, a third more as text, three times on its way
        call = unary(channel)(b"", metadata=[("m-large-bin", value)])
        await call

        assert dict(await call.initial_metadata())["m-large-bin"] == value
        assert dict(await call.trailing_metadata())["trailing-m-large-bin"] == value

    async def test_metadata_beyond_the_limit_end_one_call_only(self, sidecar, open_channel):
        channel = open_channel(sidecar, max_metadata_size=256 * 1024)
        code, _ = await failure(unary(channel)(b"", metadata=[("m-large", "a" * 61_500)]))

        assert code is not grpc.StatusCode.OK
        assert await unary(channel)(b"next") == b"next"

    async def test_peer_is_told_what_a_sidecar_adds(self, channel, backend):
        await unary(channel)(b"")

        assert {"x-request-id", "x-forwarded-proto"} <= {key for key, _ in backend.received}


class TestStatus:
    @pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
    async def test_status_message_and_details(self, code, channel):
        call = unary(channel, "Status")(str(code.value[0]).encode())

        assert await failure(call) == (code, "größer als 100 %")
        assert dict(await call.trailing_metadata())["grpc-status-details-bin"] == ALL_BYTES

    async def test_unknown_method(self, channel):
        code, _ = await failure(unary(channel, "Nothing")(b""))

        assert code is grpc.StatusCode.UNIMPLEMENTED

    async def test_nobody_to_serve(self, open_channel):
        async with Sidecar(h2_upstream=Http2Options()) as sidecar:
            call = unary(open_channel(sidecar))(b"")

            assert await failure(call) == (grpc.StatusCode.UNAVAILABLE, "no healthy upstream")


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_messages(compression, sidecar, open_channel, backend):
    channel = open_channel(sidecar, compression=compression)
    message = b"abc" * 50_000

    assert await unary(channel)(message) == message
    assert ("grpc-encoding", compression.name.lower()) in backend.received or sidecar.log[0]["bytes_received"] < 10_000


class TestTime:
    async def test_deadline_of_the_client(self, backend, open_channel):
        """The sidecar's clock stands still, so that the client's own timer is the first."""
        async with Sidecar(backend.address, h2_upstream=Http2Options(), clock=ManualClock()) as sidecar:
            call = unary(open_channel(sidecar), "Wait")(b"", timeout=1)
            code, _ = await failure(call)

            assert code is grpc.StatusCode.DEADLINE_EXCEEDED
            await asyncio.wait_for(backend.left.wait(), WAIT_S)

    async def test_server_is_told_the_deadline(self, channel, backend):
        await unary(channel)(b"", timeout=500)

        assert backend.seconds_left is not None
        assert 400 < backend.seconds_left < 502  # told in whole units, rounded up

    async def test_shorter_time_of_the_route_is_what_the_server_is_told(self, backend, open_channel):
        route = {"timeout_ms": 100_000}
        async with Sidecar(backend.address, h2_upstream=Http2Options(), route=route) as sidecar:
            await unary(open_channel(sidecar))(b"", timeout=500)

        assert backend.seconds_left is not None
        assert 0 < backend.seconds_left < 102

    async def test_time_of_the_route_ends_a_call(self, backend, open_channel):
        clock, route = ManualClock(), {"timeout_ms": 1_000}
        async with Sidecar(backend.address, h2_upstream=Http2Options(), clock=clock, route=route) as sidecar:
            call = unary(open_channel(sidecar), "Wait")(b"")
            await asyncio.wait_for(backend.reached.wait(), WAIT_S)
            clock.advance(1_000)

            assert await failure(call) == (grpc.StatusCode.UNAVAILABLE, "upstream request timeout")
            await asyncio.wait_for(backend.left.wait(), WAIT_S)

    async def test_time_of_the_route_starts_when_the_client_has_sent_all(self, backend, open_channel):
        clock, route = ManualClock(), {"timeout_ms": 1_000}
        async with Sidecar(backend.address, h2_upstream=Http2Options(), clock=clock, route=route) as sidecar:
            call = open_channel(sidecar).stream_stream(f"/{SERVICE}/Echo")()
            await call.write(b"1")
            await call.read()
            clock.advance(10_000)
            await call.write(b"2")

            assert await call.read() == b"2"
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK


class TestCancel:
    async def test_client_that_cancels_is_heard_of_by_the_server(self, channel, backend, sidecar):
        call = unary(channel, "Wait")(b"")
        await asyncio.wait_for(backend.reached.wait(), WAIT_S)
        call.cancel()

        await asyncio.wait_for(backend.left.wait(), WAIT_S)
        await until(lambda: sidecar.log)
        assert logged(sidecar) == (0, "DR", "http2.remote_reset", 1)

    async def test_other_calls_of_the_connection_go_on(self, channel, backend):
        going_on = channel.stream_stream(f"/{SERVICE}/Echo")()
        await going_on.write(b"1")
        await going_on.read()
        call = unary(channel, "Wait")(b"")
        call.cancel()
        await going_on.write(b"2")

        assert await going_on.read() == b"2"
        await going_on.done_writing()
        assert await going_on.code() is grpc.StatusCode.OK

    async def test_client_that_leaves_in_the_middle_of_a_stream(self, sidecar, open_channel, backend):
        channel = open_channel(sidecar)
        call = channel.unary_stream(f"/{SERVICE}/Count")(b"1000000 1000")
        await call.read()
        await channel.close()

        await until(lambda: sidecar.log and not sidecar.cluster.stats.upstream_rq_active)


class TestHosts:
    async def test_failing_host_is_ejected_and_the_other_serves(self, open_channel):
        rule = OutlierDetection(consecutive_5xx=3, max_ejection_percent=100)
        async with (
            Backend() as good,
            Backend() as bad,
            Sidecar(good.address, bad.address, h2_upstream=Http2Options(), outlier_detection=rule) as sidecar,
        ):
            bad.fail_with = grpc.StatusCode.UNAVAILABLE
            channel = open_channel(sidecar)
            codes = [await unary(channel)(b"").code() for _ in range(20)]

            assert codes.count(grpc.StatusCode.UNAVAILABLE) == 3
            assert (good.calls, bad.calls) == (17, 3)
            assert sidecar.stat("outlier_detection.ejections_active") == 1

    async def test_host_that_goes_away_finishes_what_it_has_begun(self, channel, backend, sidecar):
        call = unary(channel, "Wait")(b"begun")
        await asyncio.wait_for(backend.reached.wait(), WAIT_S)
        stopping = asyncio.ensure_future(backend.stop(WAIT_S))
        await until(lambda: sidecar.cluster.stats.upstream_cx_close_notify)
        code, _ = await failure(unary(channel)(b"too late"))
        backend.hold.set()

        assert await call == b"begun"
        assert code is grpc.StatusCode.UNAVAILABLE
        await stopping

    async def test_host_that_is_back_serves_again(self, channel, backend):
        assert await unary(channel)(b"1") == b"1"
        await backend.stop()
        code, _ = await failure(unary(channel)(b"2"))
        assert code is grpc.StatusCode.UNAVAILABLE

        async with Backend(port=backend.port):
            assert await unary(channel)(b"3", wait_for_ready=True) == b"3"
