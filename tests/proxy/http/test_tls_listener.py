"""Clients that speak TLS to the sidecar."""

import asyncio
import ssl

import pytest
from structlog.testing import capture_logs

from proxy.config.cluster_config import TlsMode, UpstreamTls
from proxy.errors import ListenError
from proxy.http.client_socket import DELAYED_CLOSE_MS
from proxy.http.tls import ListenerTls
from proxy.testing import FaultyUpstream
from tests.proxy.certificates import client_context, server_context, write_ca, write_pair
from tests.proxy.http.raw_upstream import RawUpstream
from tests.proxy.http.sidecar import GET, WAIT_S, ManualClock, Sidecar, arrived, until


def listener_tls(folder, *names: str, client_ca: str = "") -> ListenerTls:
    pair = write_pair(folder, *(names or ("sidecar.test",)), stem="listener")
    return ListenerTls(str(pair.certificate), str(pair.key), str(write_ca(folder, client_ca)) if client_ca else "")


async def client(sidecar: Sidecar, *names: str, server_name: str = "sidecar.test", ca: str = "ours"):
    return await sidecar.client(tls=client_context(*names, ca=ca), server_name=server_name)


async def test_request_in_tls_is_served_and_the_host_is_told(tmp_path):
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, listener_tls=listener_tls(tmp_path)) as sidecar:
        connection = await client(sidecar)

        assert (await connection.get()).body == b"x"
        assert upstream.requests[0].header("x-forwarded-proto") == "https"
        stats = sidecar.http_stats
        assert (stats.downstream_cx_ssl_active, stats.downstream_cx_ssl_total) == (1, 1)
        connection.abort()
        await until(lambda: stats.downstream_cx_active == 0)
        assert (stats.downstream_cx_ssl_active, stats.downstream_cx_ssl_total) == (0, 1)


async def test_plain_text_is_not_answered(tmp_path):
    async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=listener_tls(tmp_path)) as sidecar:
        connection = await sidecar.client()
        connection.send(GET)

        assert b"HTTP" not in await connection.read_to_end()
        assert upstream.request_count == 0


async def test_bodies_pass_whole_both_ways(tmp_path):
    body = bytes(range(256)) * 4096
    async with FaultyUpstream(body=body) as upstream, Sidecar(upstream, listener_tls=listener_tls(tmp_path)) as sidecar:
        connection = await client(sidecar)
        head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()

        assert (await connection.request(head + body)).body == body
        assert upstream.requests[0].body == body


async def test_connection_ends_when_the_client_asks_for_it(tmp_path):
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, listener_tls=listener_tls(tmp_path)) as sidecar:
        connection = await client(sidecar)

        assert (await connection.get("/", "Connection: close")).header("connection") == "close"
        assert await connection.read_to_end() == b""


async def test_reply_to_half_a_request_is_read_before_the_end(tmp_path):
    clock = ManualClock()
    async with Sidecar(listener_tls=listener_tls(tmp_path), clock=clock) as sidecar:
        connection = await client(sidecar)
        connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")

        assert (await connection.response()).status == 503
        assert await connection.read_to_end() == b""
        clock.advance(DELAYED_CLOSE_MS)
        await until(lambda: sidecar.listener.connections == 0)


async def test_drain_ends_idle_and_busy_clients(tmp_path):
    async with (
        FaultyUpstream(body=b"x", head_delay_ms=10) as upstream,
        Sidecar(upstream, listener_tls=listener_tls(tmp_path)) as sidecar,
    ):
        idle, busy = await client(sidecar), await client(sidecar)
        busy.send(GET)
        await arrived(upstream)
        sidecar.listener.drain()

        assert (await busy.response()).header("connection") == "close"
        assert (await idle.read_to_end(), await busy.read_to_end()) == (b"", b"")
        async with asyncio.timeout(WAIT_S):
            await sidecar.listener.wait_empty()


class TestClientCertificate:
    async def test_one_of_the_authority_is_taken(self, tmp_path):
        tls = listener_tls(tmp_path, client_ca="ours")
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
            assert (await (await client(sidecar, "client.test")).get()).status == 200

    async def test_without_one_nothing_is_served(self, tmp_path):
        tls = listener_tls(tmp_path, client_ca="ours")
        async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
            connection = await client(sidecar)
            connection.send(GET)
            with pytest.raises((EOFError, OSError)):
                await connection.response()

            assert upstream.request_count == 0


class TestFiles:
    async def test_new_clients_get_the_new_certificate(self, tmp_path):
        tls = listener_tls(tmp_path)
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
            old = await client(sidecar)
            listener_tls(tmp_path, "new.test")
            with capture_logs() as logs:
                new = await client(sidecar, server_name="new.test")

            assert [line["event"] for line in logs] == ["tls.files_reloaded"]
            assert [(await each.get()).status for each in (old, new)] == [200, 200]
            with pytest.raises(ssl.SSLCertVerificationError):
                await client(sidecar)

    async def test_client_without_a_name_gets_it_too(self, tmp_path):
        async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=listener_tls(tmp_path)) as sidecar:
            listener_tls(tmp_path, "127.0.0.1")
            connection = await client(sidecar, server_name="127.0.0.1")

            assert (await connection.get()).status == 200

    async def test_broken_certificate_leaves_the_one_before(self, tmp_path):
        tls = listener_tls(tmp_path)
        async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
            (tmp_path / "listener.crt").write_text("broken")
            with capture_logs() as logs:
                statuses = [(await (await client(sidecar)).get()).status for _ in range(2)]

            assert statuses == [200, 200]
            assert [(line["event"], line["log_level"]) for line in logs] == [("tls.files_not_loaded", "warning")]

    async def test_certificate_of_another_key_leaves_the_pair_before(self, tmp_path):
        """Two files are never replaced in the same moment."""
        tls = listener_tls(tmp_path)
        async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
            other = write_pair(tmp_path, "new.test", stem="other")
            (tmp_path / "listener.crt").write_bytes(other.certificate.read_bytes())
            assert (await (await client(sidecar)).get()).status == 200
            (tmp_path / "listener.key").write_bytes(other.key.read_bytes())

            assert (await (await client(sidecar, server_name="new.test")).get()).status == 200

    async def test_new_authority_holds_for_new_clients(self, tmp_path):
        tls = listener_tls(tmp_path, client_ca="ours")
        async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
            assert (await (await client(sidecar, "client.test")).get()).status == 200
            (tmp_path / "ours.pem").write_bytes(write_ca(tmp_path, "other").read_bytes())
            connection = await client(sidecar, "client.test")
            connection.send(GET)

            with pytest.raises((EOFError, OSError)):
                await connection.response()

    async def test_listening_without_fit_files_is_an_error_that_names_them(self, tmp_path):
        with pytest.raises(ListenError, match=r"missing\.crt: No such file"):
            async with Sidecar(listener_tls=ListenerTls(str(tmp_path / "missing.crt"), str(tmp_path / "missing.key"))):
                pass


class TestBothSides:
    """TLS from the client and to the host."""

    @staticmethod
    def settings(folder) -> UpstreamTls:
        return UpstreamTls(mode=TlsMode.SIMPLE, sni="good.test", ca_certificates=str(write_ca(folder, "ours")))

    async def test_web_socket_is_tunnelled_and_ends_for_both(self, tmp_path):
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            writer.write(await reader.readexactly(4))
            writer.close()

        upstream = RawUpstream(serve, tls=server_context("good.test"))
        async with (
            upstream,
            Sidecar(upstream.address, listener_tls=listener_tls(tmp_path), tls=self.settings(tmp_path)) as sidecar,
        ):
            connection = await client(sidecar)
            response = await connection.get("/", "Connection: upgrade", "Upgrade: websocket")
            connection.send(b"ping")

            assert response.status == 101
            assert await connection.read_to_end() == b"ping"

    async def test_client_that_ends_its_side_of_a_tunnel_ends_it(self, tmp_path):
        gone = asyncio.Event()

        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            await reader.read()
            gone.set()

        upstream = RawUpstream(serve, tls=server_context("good.test"))
        async with (
            upstream,
            Sidecar(upstream.address, listener_tls=listener_tls(tmp_path), tls=self.settings(tmp_path)) as sidecar,
        ):
            connection = await client(sidecar)
            await connection.get("/", "Connection: upgrade", "Upgrade: websocket")
            connection.writer.close()

            async with asyncio.timeout(WAIT_S):
                await gone.wait()

    async def test_large_bodies_pass_whole(self, tmp_path):
        body = bytes(range(256)) * 16_384

        async def serve(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"x-forwarded-proto: https" in head
            received = await reader.readexactly(len(body))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + received)
            await writer.drain()

        upstream = RawUpstream(serve, tls=server_context("good.test"))
        async with (
            upstream,
            Sidecar(upstream.address, listener_tls=listener_tls(tmp_path), tls=self.settings(tmp_path)) as sidecar,
        ):
            connection = await client(sidecar)
            head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()

            assert (await connection.request(head + body)).body == body
