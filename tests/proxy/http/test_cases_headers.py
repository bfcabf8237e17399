"""Situations that users of other proxies reported: headers that appear, change and vanish (HTTP-12)."""

from proxy.testing import FaultyUpstream, Reply
from tests.proxy.http.sidecar import Sidecar


class TestHttp12:
    """Nothing is added to a response but Envoy's own headers, and nothing but connection headers is taken away."""

    async def test_no_content_type_is_made_up(self):
        async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get()

            assert response.header_names == [*("content-length", "x-envoy-upstream-service-time", "date", "server")]

    async def test_obs_text_passes_both_ways(self):
        async with FaultyUpstream(headers={"x-latin": "caf\xe9"}) as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get("/", "X-Latin: th\xe9")

            assert response.header("x-latin") == "caf\xe9"
            assert upstream.requests[0].header("x-latin") == "th\xe9"

    async def test_duplicates_and_order_pass_both_ways(self):
        lines = [("x-a", "1"), ("x-b", "2"), ("x-a", "3")]
        async with FaultyUpstream(headers=lines) as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get("/", *(f"{name}: {value}" for name, value in lines))

            assert [pair for pair in response.headers if pair[0].startswith("x-") and len(pair[0]) == 3] == lines
            assert [pair for pair in upstream.requests[0].headers if len(pair[0]) == 3] == lines

    async def test_connection_headers_stay_on_their_side(self):
        headers = {
            "connection": "x-secret, keep-alive",
            "x-secret": "1",
            "keep-alive": "timeout=5",
            "proxy-connection": "x",
        }
        async with FaultyUpstream(headers=headers) as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get("/", "Connection: X-Mine", "X-Mine: 1", "Keep-Alive: 5")

            assert not {"connection", "keep-alive", "proxy-connection"} & set(response.header_names)
            assert response.header("x-secret") == "1"  # Envoy forwards what a *response's* Connection names
            names = [name for name, _ in upstream.requests[0].headers]
            assert not {"connection", "keep-alive", "x-mine"} & set(names)

    async def test_trailers_pass_both_ways(self):
        reply = Reply(body=b"ab", framing="chunked", headers={"trailer": "x-sum"}, trailers={"x-sum": "7"})
        head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        request = head + b"1\r\na\r\n0\r\nX-T: v\r\n\r\n"
        async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
            upstream.set(reply)
            response = await (await sidecar.client()).request(request)

            assert (response.body, response.trailers) == (b"ab", [("x-sum", "7")])
            assert response.header("trailer") == "x-sum"
            assert upstream.requests[0].trailers == [("x-t", "v")]

    async def test_server_and_date_of_the_backend(self):
        """facts: server is overwritten in place, a date is kept, service time replaces a backend's."""
        headers = [("server", "theirs"), ("x-envoy-upstream-service-time", "999"), ("date", "yesterday"), ("x-a", "1")]
        async with FaultyUpstream(headers=headers) as upstream, Sidecar(upstream) as sidecar:
            response = await (await sidecar.client()).get()

            assert response.header_names == ["content-length", *(name for name, _ in headers)]
            assert (response.header("server"), response.header("date")) == ("envoy", "yesterday")
            assert int(response.header("x-envoy-upstream-service-time")) < 999

    async def test_reason_phrase_is_our_own(self):
        async with FaultyUpstream(status=418, reason="Short And Stout") as upstream, Sidecar(upstream) as sidecar:
            assert (await (await sidecar.client()).get()).reason == "Unknown"
