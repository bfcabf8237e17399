"""Which protocol a host is spoken to in: the cluster's, or that of the client's request; and the same inside TLS."""

import ssl
from pathlib import Path

import pytest

from proxy.codec.headers import HeaderList
from proxy.config.cluster_config import Http2Options, TlsMode, UpstreamTls
from proxy.testing import FaultyUpstream
from tests.proxy.certificates import server_context, write_ca
from tests.proxy.http.http2_client import Http2Client
from tests.proxy.http.sidecar import GET, Sidecar, cluster_config, until
from tests.proxy.http.tls_upstream import TlsUpstream
from tests.proxy.upstream.http2_upstream import Http2Upstream

HTTP2 = Http2Options()
POST: HeaderList = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]


def tls(folder: Path, *, sni: str = "good.test") -> UpstreamTls:
    return UpstreamTls(mode=TlsMode.SIMPLE, sni=sni, ca_certificates=str(write_ca(folder, "ours")))


def tls_context(*names: str, alpn: tuple[str, ...] = ("http/1.1", "h2")) -> ssl.SSLContext:
    context = server_context(*names)
    context.set_alpn_protocols(alpn)
    return context


class TestClientOfHttp2:
    async def test_host_of_http2_hears_the_request_and_its_trailers(self):
        def answer(request):
            request.respond(200, b"ok", trailers=[("x-sum", "8")])

        async with Http2Upstream(answer) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
            client = await Http2Client.connect(sidecar)
            stream_id = client.request(POST, end_stream=False)
            client.send(stream_id, b"abc")
            client.end(stream_id, [(b"x-sum", b"7")])
            response = await client.response(stream_id)
            client.abort()

            (request,) = upstream.requests
            assert (request.body, request.trailers) == (b"abc", {"x-sum": "7"})
            assert "content-length" not in request.headers
            assert (response.status, response.body, response.trailers) == (200, b"ok", [(b"x-sum", b"8")])

    async def test_host_of_http1_hears_the_same_in_chunks(self):
        async with FaultyUpstream(body=b"ok") as upstream, Sidecar(upstream) as sidecar:
            client = await Http2Client.connect(sidecar)
            stream_id = client.request(POST, end_stream=False)
            client.send(stream_id, b"abc")
            client.end(stream_id)
            response = await client.response(stream_id)
            client.abort()

            (request,) = upstream.requests
            assert request.body == b"abc"
            assert (response.status, response.body) == (200, b"ok")
            assert sidecar.stat("upstream_cx_http1_total") == 1


class TestUseClientProtocol:
    async def test_each_client_is_forwarded_as_it_speaks(self):
        """The host hangs up on whoever does not greet in HTTP/2."""
        async with Http2Upstream() as upstream, Sidecar(upstream.address, use_downstream_protocol=True) as sidecar:
            client = await Http2Client.connect(sidecar)
            answered = await client.response(client.request())
            client.abort()
            refused = await (await sidecar.client()).get()

            assert answered.status == 200
            assert refused.status == 503
            assert sidecar.stat("upstream_cx_http2_total") == 1
            assert sidecar.stat("upstream_cx_http1_total") == 1

    async def test_http1_goes_as_http1(self):
        async with FaultyUpstream() as upstream, Sidecar(upstream, use_downstream_protocol=True) as sidecar:
            assert (await (await sidecar.client()).get()).status == 200
            assert sidecar.stat("upstream_cx_http2_total") == 0

    async def test_requests_that_wait_can_be_given_up(self, black_hole):
        async with Sidecar(black_hole, use_downstream_protocol=True) as sidecar:
            http1 = await sidecar.client()
            http1.send(GET)
            http2 = await Http2Client.connect(sidecar)
            http2.request()
            await until(lambda: sidecar.stat("upstream_rq_pending_active") == 2)
            http1.abort()
            http2.abort()
            await until(lambda: sidecar.stat("upstream_rq_pending_active") == 0)

            assert sidecar.stat("upstream_rq_cancelled") == 2

    async def test_removed_cluster_lets_go_of_both(self):
        async with Http2Upstream() as upstream, Sidecar(upstream.address, use_downstream_protocol=True) as sidecar:
            client = await Http2Client.connect(sidecar)
            await client.response(client.request())
            client.abort()
            sidecar.apply()
            await until(lambda: upstream.connections[0].closed)


async def test_health_pings_of_a_new_configuration_hold_for_new_connections():
    async with Http2Upstream() as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        await (await sidecar.client()).get()
        options = Http2Options(keepalive_interval_ms=10, keepalive_timeout_ms=30_000)
        sidecar.apply(cluster_config([upstream.address], h2_upstream=options))
        upstream.connections[0].abort()
        await until(lambda: sidecar.stat("upstream_cx_active") == 0)
        await (await sidecar.client()).get()

        await until(lambda: upstream.connections[1].pings == 2)
        assert upstream.connections[0].pings == 0


async def test_a_changed_protocol_holds_from_the_next_request_on():
    held = []
    async with Http2Upstream(held.append) as upstream, Sidecar(upstream.address, h2_upstream=HTTP2) as sidecar:
        waiting = await sidecar.client()
        waiting.send(GET)
        await until(lambda: held)
        sidecar.apply(cluster_config([upstream.address]))
        in_http1 = await (await sidecar.client()).get()
        held[0].respond(200, b"ok")

        assert in_http1.status == 503
        assert (await waiting.response()).body == b"ok"
        await until(lambda: upstream.connections[0].closed)


class TestTls:
    async def test_http2_is_agreed_on_in_the_handshake(self, tmp_path):
        async with (
            Http2Upstream(tls=tls_context("good.test")) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, tls=tls(tmp_path)) as sidecar,
        ):
            client = await sidecar.client()
            for _ in range(2):
                assert (await client.get()).status == 200

            assert [connection.alpn for connection in upstream.connections] == ["h2"]

    async def test_http1_is_not_asked_to_be_http2(self, tmp_path):
        async with TlsUpstream("good.test") as upstream, Sidecar(upstream.address, tls=tls(tmp_path)) as sidecar:
            upstream.context.set_alpn_protocols(["h2", "http/1.1"])

            assert (await (await sidecar.client()).get()).status == 200

    async def test_stranger_is_not_connected_to(self, tmp_path):
        settings = UpstreamTls(
            mode=TlsMode.SIMPLE,
            sni="good.test",
            subject_alt_names=("good.test",),
            ca_certificates=str(write_ca(tmp_path, "ours")),
        )
        async with (
            Http2Upstream(tls=tls_context("other.test")) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, tls=settings) as sidecar,
        ):
            response = await (await sidecar.client()).get()

            assert response.status == 503
            assert sidecar.stat("ssl.fail_verify_san") == 1

    async def test_each_name_has_connections_of_its_own(self, tmp_path):
        context = tls_context("a.test", "b.test")
        async with (
            Http2Upstream(tls=context) as upstream,
            Sidecar(upstream.address, h2_upstream=HTTP2, tls=tls(tmp_path, sni="")) as sidecar,
        ):
            client = await sidecar.client()
            for host in ("a.test", "b.test", "A.test", "b.test:80"):
                response = await client.request(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                assert response.status == 200

            names = [[r.headers[":authority"] for r in c.requests.values()] for c in upstream.connections]
            assert names == [["a.test", "A.test"], ["b.test", "b.test:80"]]

    @pytest.mark.parametrize("http2", [True, False], ids=["HTTP/2", "HTTP/1.1"])
    async def test_client_protocol_inside_tls(self, tmp_path, http2):
        upstream = Http2Upstream(tls=tls_context("good.test")) if http2 else TlsUpstream("good.test")
        async with upstream, Sidecar(upstream.address, use_downstream_protocol=True, tls=tls(tmp_path)) as sidecar:
            if http2:
                client = await Http2Client.connect(sidecar)
                status = (await client.response(client.request())).status
                client.abort()
            else:
                status = (await (await sidecar.client()).get()).status

            assert status == 200
