"""Bodies flow as they come, in both directions at once, and wait in kernel buffers rather than in ours."""

import asyncio

import pytest

from proxy.testing import FaultyUpstream
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, WAIT_S, ManualClock, Sidecar, arrived, post, until

MIB = 1 << 20
BIG = 64 * MIB
# What the kernel may take for us (Linux: tcp_wmem and tcp_rmem end at 4 and 6 MiB) and our own 256 KiB marks.
KERNEL_AND_OURS = 16 * MIB


async def settle() -> None:
    """Let everything happen that can happen without further input."""
    for _ in range(300):
        await asyncio.sleep(0)


class DeafUpstream(RawUpstream):
    """Reads a head and then nothing until `hear` is set; then it answers how many bytes came."""

    def __init__(self) -> None:
        super().__init__(self._answer_length)
        self.hear = asyncio.Event()

    async def _answer_length(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self.hear.wait()
        received = 0
        while received < length and (data := await reader.read(MIB)):
            received += len(data)
        answer = b"%d" % received
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))


@pytest.mark.slow
async def test_a_client_that_does_not_read_stops_the_upstream():
    async with FaultyUpstream(body=bytes(BIG)) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client(receive_buffer_bytes=4_096)
        client.send(GET)
        await until(lambda: sidecar.stat("upstream_flow_control_paused_reading_total"))
        await settle()
        read_before = sidecar.stat("upstream_cx_rx_bytes_total")
        assert read_before < KERNEL_AND_OURS

        received = 0
        async with asyncio.timeout(WAIT_S):
            while received < KERNEL_AND_OURS:  # more than can have waited anywhere
                received += len(await client.reader.read(MIB))
        assert sidecar.stat("upstream_flow_control_resumed_reading_total") >= 1


@pytest.mark.slow
async def test_an_upstream_that_does_not_read_stops_the_client():
    async with DeafUpstream() as upstream, Sidecar(upstream.address) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % BIG)
        client.send(bytes(BIG))
        await until(lambda: sidecar.http_stats.downstream_flow_control_paused_reading_total)
        await settle()
        assert sidecar.http_stats.downstream_cx_rx_bytes_total < KERNEL_AND_OURS

        upstream.hear.set()
        assert (await client.response("POST")).body == b"%d" % BIG
        assert sidecar.http_stats.downstream_flow_control_resumed_reading_total >= 1


async def test_a_body_that_waits_for_a_connection_stops_the_client(black_hole):
    async with Sidecar(black_hole) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % BIG)
        client.send(bytes(BIG))
        await until(lambda: sidecar.http_stats.downstream_flow_control_paused_reading_total)
        await settle()

        assert sidecar.http_stats.downstream_cx_rx_bytes_total < 2 * MIB


@pytest.mark.slow
async def test_responses_to_pipelined_requests_do_not_pile_up():
    """64 responses of 1 MiB for a client that reads none of them."""
    async with FaultyUpstream(body=bytes(MIB)) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client(receive_buffer_bytes=4_096)
        client.send(GET * 64)
        await until(lambda: sidecar.stat("upstream_flow_control_paused_reading_total"))
        await settle()

        assert sidecar.stat("upstream_cx_rx_bytes_total") < KERNEL_AND_OURS


async def test_small_responses_to_pipelined_requests_do_not_pile_up():
    """Each is below the mark at which an upstream is paused; together they are not."""
    async with FaultyUpstream(body=bytes(200_000)) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client(receive_buffer_bytes=4_096)
        client.send(GET * 200)
        await arrived(upstream, 10)
        await settle()

        assert sidecar.stat("upstream_cx_rx_bytes_total") < KERNEL_AND_OURS


@pytest.mark.slow
async def test_responses_do_not_pile_up_for_a_client_that_only_asks():
    """It sends a request when the response before is done, and reads none."""
    async with FaultyUpstream(body=bytes(200_000)) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client(receive_buffer_bytes=4_096)
        for number in range(1, 150):
            client.send(GET)
            for _ in range(200):
                if len(sidecar.log) == number:
                    break
                await asyncio.sleep(0)

        assert sidecar.stat("upstream_cx_rx_bytes_total") < KERNEL_AND_OURS


async def test_what_waits_for_an_answer_to_an_upgrade_is_not_read_without_end():
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        await arrived(upstream)
        client.send(bytes(BIG))
        await settle()

        assert sidecar.http_stats.downstream_cx_rx_bytes_total < 4 * MIB


async def test_pipelined_requests_wait_unread():
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(GET * (8 * MIB // len(GET)))
        await arrived(upstream)
        await settle()

        assert sidecar.http_stats.downstream_cx_rx_bytes_total < 2 * MIB
        assert upstream.request_count == 1


async def test_pipelined_requests_wait_unread_behind_one_that_was_answered():
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        upstream.for_next(1, status=200)
        client = await sidecar.client()
        client.send(GET * (8 * MIB // len(GET)))
        await arrived(upstream, 2)
        await settle()

        assert sidecar.http_stats.downstream_cx_rx_bytes_total < 2 * MIB


@pytest.mark.slow
async def test_pipelined_requests_wait_unread_when_the_body_before_them_had_to_wait():
    """The host is full, and a further request waits: the end of one reason not to read is not that of the other."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await hear.wait()
        await reader.readexactly(16 * MIB)
        read.set()
        await asyncio.Event().wait()

    hear, read = asyncio.Event(), asyncio.Event()
    async with RawUpstream(serve) as upstream, Sidecar(upstream.address) as sidecar:
        client = await sidecar.client()
        client.send(post(bytes(16 * MIB)) + GET * (16 * MIB // len(GET)))
        await until(lambda: sidecar.http_stats.downstream_flow_control_paused_reading_total)
        hear.set()
        async with asyncio.timeout(WAIT_S):
            await read.wait()
        await settle()

        assert sidecar.http_stats.downstream_cx_rx_bytes_total < 18 * MIB


async def test_what_follows_an_error_is_not_read_while_a_request_is_answered():
    async with FaultyUpstream(fault="hang") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(GET + b"garbage\r\n\r\n" + bytes(16 * MIB))
        await arrived(upstream)
        await settle()

        assert sidecar.http_stats.downstream_cx_rx_bytes_total < 2 * MIB


async def test_head_of_a_request_does_not_wait_for_its_body():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
        await arrived(upstream)
        assert not upstream.requests[0].complete

        client.send(b"a")
        await until(lambda: upstream.requests[0].body == b"a")
        client.send(b"b")
        assert (await client.response("POST")).status == 200


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_head_and_pieces_of_a_response_do_not_wait_for_the_rest(framing):
    async with (
        FaultyUpstream(body=b"abcd", truncate_at=2, end="hang", framing=framing) as upstream,
        Sidecar(upstream) as sidecar,
    ):
        client = await sidecar.client()
        client.send(GET)

        async with asyncio.timeout(WAIT_S):
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await client.reader.readuntil(b"ab")


@pytest.mark.parametrize(("framing", "announced"), [("length", "length"), ("chunked", "chunked"), ("close", "chunked")])
async def test_body_of_unstated_length_is_chunked(framing, announced):
    """An upstream's body until close needs an end that the client can see on a connection that stays."""
    async with FaultyUpstream(body=b"abcd", framing=framing) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        response = await client.get()

        assert (response.body, response.complete) == (b"abcd", True)
        assert (response.header("transfer-encoding") == "chunked") is (announced == "chunked")
        assert (await client.get()).body == b"abcd"


@pytest.mark.parametrize("chunks", [[b"abc"], [b"a", b"bc"], []], ids=["one", "two", "none"])
async def test_chunked_request_stays_chunked(chunks):
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in [body[:3], body[3:], b"0\r\n\r\n"]:
            client.send(piece)
        assert (await client.response("POST")).status == 200

        (request,) = upstream.requests
        assert (request.header("transfer-encoding"), bytes(request.body)) == ("chunked", b"".join(chunks))


class TestEarlyResponse:
    """The upstream answers before it has the whole request."""

    async def test_reaches_the_client_and_ends_both_connections(self):
        clock = ManualClock()
        async with (
            FaultyUpstream(status=413, body=b"too big", early=True) as upstream,
            Sidecar(upstream, clock=clock) as sidecar,
        ):
            (reports,) = sidecar.record()
            client = await sidecar.client()
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000)
            response = await client.response("POST")

            assert (response.status, response.body) == (413, b"too big")
            assert response.header("connection") == "close"
            await until(lambda: upstream.open_connections == 0)
            assert [code for _, code in reports] == [None, 413]
            client.send(b"x" * 1_000)  # nobody wants it, and it is no request
            clock.advance(1_001)
            assert await client.read_to_end() == b""
            assert upstream.request_count == 1
            assert sidecar.http_stats.downstream_rq_response_before_rq_complete == 1

    async def test_whole_request_in_the_same_read_keeps_the_connection(self):
        async with FaultyUpstream(early=True) as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            response = await client.request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")

            assert response.header("connection") is None
            assert (await client.get()).status == 200


class TestExpectContinue:
    """facts: answered by the sidecar itself and removed upstream."""

    HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"

    async def test_is_answered_before_the_body_and_once(self):
        async with FaultyUpstream(informational=(100,)) as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            client.send(self.HEAD)
            async with asyncio.timeout(WAIT_S):
                assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(b"hi")
            response = await client.response("POST")

            assert (response.status, response.interim) == (200, [])
            assert upstream.requests[0].header("expect") is None
            assert bytes(upstream.requests[0].body) == b"hi"

    async def test_is_answered_without_a_body_too(self):
        """Measured on Envoy 1.40."""
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get("/", "Expect: 100-continue")

            assert [head.status for head in response.interim] == [100]
            assert upstream.requests[0].header("expect") is None

    async def test_any_other_expectation_is_not_answered(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            client = await sidecar.client()
            response = await client.request(self.HEAD.replace(b"100-continue", b"cheque") + b"hi")

            assert (response.status, response.interim) == (200, [])
