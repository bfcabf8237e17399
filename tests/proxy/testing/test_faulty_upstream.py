"""What arrives on the wire for each scripted behaviour, read with a plain socket stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from proxy.testing import End, Fault, FaultyUpstream, Framing, Reply

GET = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-Dup: 1\r\nx-dup:  2 \r\n\r\n"


@asynccontextmanager
async def connected(upstream: FaultyUpstream) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def exchange(upstream: FaultyUpstream, request: bytes = GET) -> bytes:
    """Everything until the upstream ends the connection."""
    async with connected(upstream) as (reader, writer):
        writer.write(request)
        return await reader.read()


async def status_of(upstream: FaultyUpstream, path: str = "/") -> int:
    async with connected(upstream) as (reader, writer):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return int((await reader.readline()).split()[1])


async def test_answers_200_with_length_and_keeps_the_connection():
    async with FaultyUpstream(body="hi", headers={"X-A": "1"}) as upstream, connected(upstream) as (reader, writer):
        writer.write(GET + GET)
        response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-A: 1\r\n\r\nhi"

        assert await reader.readexactly(2 * len(response)) == 2 * response
        assert upstream.connection_count == 1


async def test_records_the_head_as_received():
    async with FaultyUpstream(end="close") as upstream:
        await exchange(upstream)

        (request,) = upstream.requests
        assert request.raw_head == GET
        assert (request.method, request.target, request.path) == ("GET", "/a?b=c", "/a")
        assert request.headers == [("Host", "x"), ("X-Dup", "1"), ("x-dup", "2")]
        assert request.header("X-DUP") == "1"
        assert request.connection == 1


async def test_records_a_chunked_body_with_trailers():
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with FaultyUpstream(end="close") as upstream:
        await exchange(upstream, head + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n")

        (request,) = upstream.requests
        assert (bytes(request.body), request.trailers, request.complete) == (b"abcde", [("T", "v")], True)


async def test_body_arriving_byte_by_byte_is_recorded_once():
    request = b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"
    async with FaultyUpstream(end="close") as upstream, connected(upstream) as (reader, writer):
        for byte in request:
            writer.write(bytes([byte]))
            await writer.drain()
        await reader.read()

        assert [bytes(r.body) for r in upstream.requests] == [b"abc"]


async def test_echo_returns_head_and_body_as_received():
    request = b"POST /e HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"
    async with FaultyUpstream(echo=True, end=End.CLOSE) as upstream:
        assert (await exchange(upstream, request)).endswith(b"\r\n\r\n" + request)


async def test_reset_before_headers_is_a_tcp_reset():
    async with FaultyUpstream(fault=Fault.RESET) as upstream:
        with pytest.raises(ConnectionResetError):
            await exchange(upstream)


async def test_close_before_headers_is_an_orderly_end_without_a_byte():
    async with FaultyUpstream(fault="close") as upstream:
        assert await exchange(upstream) == b""


async def test_hang_reads_the_request_and_never_answers():
    async with FaultyUpstream(fault="hang") as upstream, connected(upstream) as (reader, writer):
        writer.write(GET)
        await upstream.wait_requests(1)

        assert upstream.requests[0].complete
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.02)


async def test_refuse_ends_connections_and_accept_reopens_the_same_port():
    async with FaultyUpstream() as upstream:
        port = upstream.port
        async with connected(upstream) as (reader, writer):
            writer.write(GET)
            await reader.readline()
            await upstream.refuse()
            await reader.read()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await upstream.accept()

        assert upstream.port == port
        assert await status_of(upstream) == 200
        assert upstream.connection_count == 2


async def test_truncated_body_ends_after_the_stated_bytes():
    async with FaultyUpstream(body=b"0123456789", truncate_at=4) as upstream:
        response = await exchange(upstream)

    assert response.endswith(b"content-length: 10\r\n\r\n0123")


async def test_truncation_by_reset_delivers_the_bytes_before_it():
    async with (
        FaultyUpstream(body=b"0123456789", truncate_at=4, end="reset") as upstream,
        connected(upstream) as (reader, writer),
    ):
        writer.write(GET)

        assert (await reader.readuntil(b"0123")).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_garbage_is_sent_unchanged():
    async with FaultyUpstream(garbage=b"\x00\xffnot http\r\n") as upstream:
        assert await exchange(upstream) == b"\x00\xffnot http\r\n"


async def test_informational_head_then_chunked_body_with_trailers():
    async with FaultyUpstream(
        body="abcde", piece_bytes=3, framing=Framing.CHUNKED, informational=[103], trailers={"t": "v"}, end="close"
    ) as upstream:
        response = await exchange(upstream)

    assert response == (
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n2\r\nde\r\n0\r\nt: v\r\n\r\n"
    )


async def test_expect_continue_is_answered_before_the_body_arrives():
    async with FaultyUpstream() as upstream, connected(upstream) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"x")

        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_early_reply_does_not_wait_for_the_body_and_later_requests_are_still_answered():
    async with FaultyUpstream(early=True) as upstream, connected(upstream) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x" + GET)
        await reader.readuntil(b"\r\n\r\n")

        assert [(r.method, bytes(r.body)) for r in upstream.requests] == [("POST", b"x"), ("GET", b"")]


async def test_slow_head_and_slow_body_arrive_whole():
    async with FaultyUpstream(
        body=b"abcd", head_delay_ms=5, body_delay_ms=5, piece_bytes=1, framing="close"
    ) as upstream:
        assert (await exchange(upstream)).endswith(b"\r\n\r\nabcd")


@pytest.mark.parametrize(
    ("request_line", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)], ids=["HEAD", "204", "304"]
)
async def test_no_body_where_http_forbids_one(request_line, status):
    async with FaultyUpstream(status=status, body="never", end="close") as upstream:
        response = await exchange(upstream, f"{request_line} / HTTP/1.1\r\n\r\n".encode())

    assert response.endswith(b"\r\n\r\n")


async def test_scripted_replies_come_first_and_the_last_word_lasts():
    async with FaultyUpstream() as upstream:
        upstream.for_next(2, status=500)
        upstream.sequence([Reply(status=503)])

        assert [await status_of(upstream) for _ in range(5)] == [500, 500, 503, 200, 200]


async def test_set_changes_the_answer_and_drops_the_script():
    async with FaultyUpstream() as upstream:
        upstream.for_next(9, status=500)
        upstream.set(status=404)

        assert await status_of(upstream) == 404


async def test_a_path_has_its_own_script_and_falls_back_to_the_general_one():
    async with FaultyUpstream(status=201) as upstream:
        upstream.set(path="/fine", status=204)
        upstream.for_next(1, path="/once", status=502)

        assert [await status_of(upstream, path) for path in ("/fine", "/once", "/once", "/x")] == [204, 502, 201, 201]


async def test_only_the_newest_requests_are_kept_when_bounded():
    async with FaultyUpstream(max_recorded=2) as upstream:
        for path in ("/1", "/2", "/3"):
            await status_of(upstream, path)

        assert [r.path for r in upstream.requests] == ["/2", "/3"]
        assert upstream.request_count == 3


async def test_two_upstreams_cannot_share_a_port():
    async with FaultyUpstream() as first:
        second = FaultyUpstream(port=first.port)

        with pytest.raises(OSError, match="in use"):
            await second.start()


async def test_port_of_an_upstream_that_was_not_started_is_an_error():
    with pytest.raises(RuntimeError, match="not started"):
        _ = FaultyUpstream().port


def test_truncation_by_reset_delivers_the_bytes_before_it_on_uvloop():
    """uvloop sends written bytes at the end of its turn; an abort in the same turn would lose them."""
    uvloop = pytest.importorskip("uvloop")

    async def read() -> bytes:
        async with (
            FaultyUpstream(body=b"0123456789", truncate_at=4, end="reset") as upstream,
            connected(upstream) as (reader, writer),
        ):
            writer.write(GET)
            return await reader.readuntil(b"0123")

    assert uvloop.run(read()).startswith(b"HTTP/1.1 200")
