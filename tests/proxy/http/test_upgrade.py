"""WebSocket tunnels: bytes pass both ways until one side ends, and what is not tunnelled stays HTTP."""

import asyncio

import pytest

from outlier import Result
from proxy.testing import FaultyUpstream
from tests.proxy.http.client import Client
from tests.proxy.http.raw_upstream import GatedUpstream, RawUpstream
from tests.proxy.http.sidecar import GET, WAIT_S, ManualClock, Sidecar, until

ASK = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s\r\n\r\n"
)


class Peer(RawUpstream):
    """The upstream of one tunnel; its end of it is `reader` and `writer`."""

    def __init__(self, answer: bytes = SWITCH) -> None:
        super().__init__(self._switch)
        self._answer = answer
        self.head = b""

    async def _switch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.head = await reader.readuntil(b"\r\n\r\n")
        writer.write(self._answer)


async def serve_or_switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests with bodies of five bytes; once asked for a tunnel, send back what comes through it."""
    while b"upgrade: websocket" not in (await reader.readuntil(b"\r\n\r\n")).lower():
        await reader.readexactly(5)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    writer.write(SWITCH)
    while data := await reader.read(100):
        writer.write(data)


async def open_tunnel(sidecar: Sidecar) -> Client:
    client = await sidecar.client()
    client.send(ASK)
    response = await client.response()
    assert response.status == 101
    return client


async def read(reader: asyncio.StreamReader, count: int) -> bytes:
    async with asyncio.timeout(WAIT_S):
        return await reader.readexactly(count)


async def test_heads_say_upgrade_on_both_sides():
    async with Peer() as peer, Sidecar(peer.address) as sidecar:
        client = await sidecar.client()
        client.send(ASK)
        response = await client.response()

        assert (response.header("connection"), response.header("upgrade")) == ("upgrade", "websocket")
        assert response.header("sec-websocket-accept") == "s"
        assert b"\r\nconnection: upgrade\r\n" in peer.head.lower()
        assert b"\r\nupgrade: websocket\r\n" in peer.head.lower()
        assert b"\r\nsec-websocket-key: k\r\n" in peer.head


async def test_bytes_pass_both_ways_untouched():
    frame = b"\x81\x05hello\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    async with Peer() as peer, Sidecar(peer.address) as sidecar:
        client = await open_tunnel(sidecar)
        client.send(frame)
        assert await read(peer.reader, len(frame)) == frame
        peer.writer.write(frame * 2)
        assert await read(client.reader, 2 * len(frame)) == frame * 2


async def test_bytes_sent_along_with_the_heads_are_not_lost():
    async with Peer(SWITCH + b"from the upstream") as peer, Sidecar(peer.address) as sidecar:
        client = await sidecar.client()
        client.send(ASK + b"from the client")
        await client.response()

        assert await read(client.reader, 17) == b"from the upstream"
        assert await read(peer.reader, 15) == b"from the client"


async def test_much_that_is_sent_ahead_of_the_answer_is_not_lost():
    """More than may wait: the client is not read until the host has answered, and then it is."""
    early = bytes(range(256)) * 4_096
    answer = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer.wait()
        writer.write(SWITCH)
        received = await reader.readexactly(len(early) + 4)
        writer.write(b"same" if received == early + b"late" else b"else")

    async with RawUpstream(serve) as upstream, Sidecar(upstream.address) as sidecar:
        client = await sidecar.client()
        client.send(ASK + early)
        await until(lambda: sidecar.stat("upstream_rq_active"))
        for _ in range(50):
            await asyncio.sleep(0)
        answer.set()
        assert (await client.response()).status == 101
        client.send(b"late")

        assert await read(client.reader, 4) == b"same"


async def test_upstream_that_closes_ends_the_tunnel_and_is_charged():
    """CASES SEM-13, as Envoy: the end of the upstream's side after a 101 is a failed connect."""
    async with Peer() as peer, Sidecar(peer.address) as sidecar:
        (reports,) = sidecar.record()
        client = await open_tunnel(sidecar)
        peer.writer.close()

        assert await client.read_to_end() == b""
        await until(lambda: sidecar.log)
        assert reports == [
            (Result.LOCAL_ORIGIN_CONNECT_SUCCESS, None),
            (Result.EXT_ORIGIN_REQUEST_SUCCESS, 101),
            (Result.LOCAL_ORIGIN_CONNECT_FAILED, None),
        ]


async def test_client_that_is_gone_ends_the_tunnel_and_charges_nobody():
    async with Peer() as peer, Sidecar(peer.address) as sidecar:
        (reports,) = sidecar.record()
        client = await open_tunnel(sidecar)
        client.reset()
        await until(lambda: sidecar.stat("upstream_cx_active") == 0)

        assert len(reports) == 2


async def test_client_that_only_stops_sending_still_receives():
    async with Peer() as peer, Sidecar(peer.address) as sidecar:
        client = await open_tunnel(sidecar)
        client.send(b"last words")
        client.writer.write_eof()
        async with asyncio.timeout(WAIT_S):
            assert await peer.reader.read() == b"last words"
        peer.writer.write(b"heard")
        peer.writer.close()

        assert await client.read_to_end() == b"heard"
        await until(lambda: sidecar.stat("upstream_cx_active") == 0)


async def test_an_upgrade_that_is_declined_is_a_response_like_any_other():
    declined = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"
    async with FaultyUpstream(body=b"no") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(ASK)
        assert (await client.response()).body == declined[-2:]

        assert (await client.get()).body == b"no"


@pytest.mark.parametrize("protocol", ["foo", "HTTP/3.0", "tls/1.0"])
async def test_protocols_that_are_not_tunnelled_are_refused(protocol):
    """facts: `Upgrade` that is not enabled: 403, empty, upgrade_failed."""
    clock = ManualClock()
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(ASK.replace(b"websocket", protocol.encode()))
        response = await client.response()

        assert (response.status, response.body, response.header("connection")) == (403, b"", "close")
        assert sidecar.log[0]["response_code_details"] == "upgrade_failed"
        assert upstream.request_count == 0


async def test_a_request_behind_a_refused_upgrade_does_not_hang():
    clock = ManualClock()
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, clock=clock) as sidecar:
        client = await sidecar.client()
        client.send(ASK.replace(b"websocket", b"foo") + GET)
        refusal = await client.response()
        clock.advance(1_001)

        if refusal.header("connection") == "close":
            assert await client.read_to_end() == b""
        else:
            assert (await client.response()).body == b"x"


@pytest.mark.parametrize("body", [b"", b"hello"], ids=["no body", "body"])
async def test_h2c_is_an_offer_that_is_not_taken(body):
    """facts: `Upgrade: h2c` is dropped and the request served, its body included."""
    request = (
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(request + body + GET)

        assert [(await client.response("POST")).status, (await client.response()).status] == [200, 200]
        first, second = upstream.requests
        assert (bytes(first.body), second.method) == (body, "GET")
        assert not {"upgrade", "connection", "http2-settings"} & {name for name, _ in first.headers}


@pytest.mark.parametrize("behind", [GET * 2, b"rubbish\r\n\r\n"], ids=["requests", "rubbish"])
async def test_what_is_behind_an_offer_of_h2c_waits_for_its_answer(behind):
    async with GatedUpstream(b"x", held="/held") as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(b"GET /held HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + behind)
        await until(lambda: sidecar.stat("upstream_rq_active") == 1)
        client.send(b"further bytes")
        await (await sidecar.client()).get("/")  # so that they have arrived
        upstream.release()

        assert (await client.response()).body == b"x"
        assert (await client.response()).status == (200 if behind.startswith(b"GET") else 400)


async def test_an_offer_of_h2c_with_a_body_leaves_a_tunnel_behind_it_alone():
    offer = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello"
    async with RawUpstream(serve_or_switch) as tunnel, Sidecar(tunnel.address) as sidecar:
        client = await sidecar.client()
        client.send(offer + ASK + b"bytes of the tunnel")

        assert (await client.response("POST")).status == 200
        assert (await client.response()).status == 101
        assert await read(client.reader, 19) == b"bytes of the tunnel"


async def test_an_offer_of_h2c_whose_body_comes_in_two_reads_is_read_to_its_end():
    offer = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhel"
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(offer)
        await until(lambda: sidecar.stat("upstream_rq_active") == 1)
        client.send(b"lo")

        assert (await client.response("POST")).status == 200


@pytest.mark.slow
async def test_a_side_of_the_tunnel_that_does_not_read_stops_the_other():
    mib = 1 << 20
    async with Peer() as peer, Sidecar(peer.address) as sidecar:
        client = await sidecar.client(receive_buffer_bytes=4_096)
        client.send(ASK)
        await client.reader.readuntil(b"\r\n\r\n")
        peer.writer.write(bytes(64 * mib))
        await until(lambda: sidecar.stat("upstream_flow_control_paused_reading_total"))
        for _ in range(300):
            await asyncio.sleep(0)

        assert sidecar.stat("upstream_cx_rx_bytes_total") < 16 * mib
