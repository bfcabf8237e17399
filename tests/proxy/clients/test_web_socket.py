"""WebSockets through the tunnel, each library's client with each library's server."""

import asyncio
import contextlib

import attrs
import pytest

from tests.proxy.clients.web_socket import SERVERS, SUBPROTOCOLS, WEB_SOCKET_CLIENTS
from tests.proxy.http.sidecar import WAIT_S, Sidecar, until

pytestmark = [
    pytest.mark.parametrize("client_kind", WEB_SOCKET_CLIENTS, ids=lambda kind: kind.__name__),
    pytest.mark.parametrize("server_kind", SERVERS, ids=lambda kind: kind.__name__),
]


@attrs.define
class Opened:
    """A server, the sidecar before it, and a client that is connected; `closed` is how the server saw clients go."""

    sidecar: Sidecar
    closed: asyncio.Queue[int | None]


@contextlib.asynccontextmanager
async def opened(client_kind, server_kind, **options):
    closed: asyncio.Queue[int | None] = asyncio.Queue()
    async with (
        asyncio.timeout(WAIT_S),
        server_kind(closed) as address,
        Sidecar(address) as sidecar,
        client_kind(str(sidecar.listener.address), **options) as client,
    ):
        yield Opened(sidecar, closed), client


async def test_text_and_bytes_come_back(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (_, client):
        for message in ("grüße", b"\x00\xff" * 100, "", b""):
            await client.send(message)
            assert await client.receive() == message


async def test_many_messages_keep_their_order(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (_, client):
        for number in range(100):
            await client.send(str(number))

        assert [await client.receive() for _ in range(100)] == [str(number) for number in range(100)]


async def test_fragments_are_one_message(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (_, client):
        await client.send_fragments(["one ", "two ", "", "three"])

        assert await client.receive() == "one two three"


async def test_a_message_of_a_mebibyte(client_kind, server_kind):
    message = bytes(range(256)) * 4_096
    async with opened(client_kind, server_kind) as (_, client):
        await client.send(message)

        assert await client.receive() == message


async def test_pings_both_ways(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (_, client):
        assert await client.ping()
        await client.send("ping")

        assert await client.receive() == "pong"


@pytest.mark.parametrize("code", [1000, 1008, 4999])
async def test_close_code_of_the_client_reaches_the_server(client_kind, server_kind, code):
    async with opened(client_kind, server_kind) as (scene, client):
        await client.close(code, "enough")

        assert await scene.closed.get() == code


@pytest.mark.parametrize("code", [1000, 1008, 4999])
async def test_close_code_and_reason_of_the_server_reach_the_client(client_kind, server_kind, code):
    async with opened(client_kind, server_kind) as (_, client):
        await client.send(f"close {code} that is all")

        assert await client.receive() == (code, "that is all")


@pytest.mark.parametrize("offered", [SUBPROTOCOLS, ("chat.v1",), ("other", "chat.v1")])
async def test_subprotocol_is_agreed_on(client_kind, server_kind, offered):
    async with opened(client_kind, server_kind, subprotocols=offered) as (_, client):
        await client.send("chosen")
        chosen = await client.receive()

        assert chosen == client.subprotocol
        assert chosen in offered


@pytest.mark.parametrize("deflate", [True, False])
async def test_compression_is_agreed_on_and_passed(client_kind, server_kind, deflate):
    message = "again and again " * 10_000
    async with opened(client_kind, server_kind, deflate=deflate) as (scene, client):
        await client.send(message)
        assert await client.receive() == message

        assert ("permessage-deflate" in client.extensions) is deflate
        assert (scene.sidecar.stat("upstream_cx_tx_bytes_total") < len(message)) is deflate


async def test_a_client_that_is_just_gone_ends_the_servers_side(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (scene, client):
        client.abort()

        assert await scene.closed.get() == 1006
        await until(lambda: scene.sidecar.stat("upstream_cx_active") == 0)


async def test_a_server_that_is_just_gone_ends_the_clients_side(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (scene, client):
        await client.send("abort")

        assert await client.receive() == (1006, "")
        assert scene.sidecar.log[0]["response_code"] == 101


async def test_several_at_once_do_not_mix(client_kind, server_kind):
    async with opened(client_kind, server_kind) as (scene, _):
        address = str(scene.sidecar.listener.address)

        async def talk(name: str) -> list[object]:
            async with client_kind(address) as client:
                for number in range(20):
                    await client.send(f"{name} {number}")
                return [await client.receive() for _ in range(20)]

        talks = await asyncio.gather(*(talk(name) for name in "abcdefgh"))

        assert talks == [[f"{name} {number}" for number in range(20)] for name in "abcdefgh"]
