"""What every client does every day: keep connections, upload, be redirected, decode, go through a proxy."""

import asyncio
import gzip

import pytest

from proxy.config.listener_options import ListenerOptions
from proxy.http.connection_timers import DRAIN_TIMEOUT_MS
from proxy.testing import FaultyUpstream, Reply
from tests.proxy.clients.habits import CLIENTS, Curl
from tests.proxy.http.sidecar import ManualClock, Sidecar, until

MIB = 1 << 20
IDLE_MS = 1_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.__name__.lower()),
]


def url(sidecar: Sidecar, path: str = "/") -> str:
    return f"http://{sidecar.listener.address}{path}"


async def hear_of_it() -> None:
    """Let clients of this very loop notice that their connections have ended."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_connection_is_kept(kind):
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar, kind() as client:
        answers = [await client.ask("GET", url(sidecar)) for _ in range(5)]

        assert [answer.body for answer in answers] == [b"x"] * 5
        assert sidecar.http_stats.downstream_cx_total == (5 if kind is Curl else 1)
        assert upstream.connection_count == 1


async def test_connection_close_is_done(kind):
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar, kind() as client:
        headers = {"Connection": "close"}
        answers = [await client.ask("GET", url(sidecar), headers=headers) for _ in range(2)]

        assert [answer.headers["connection"] for answer in answers] == ["close"] * 2
        await until(lambda: sidecar.listener.connections == 0)
        assert sidecar.http_stats.downstream_cx_total == 2


async def test_a_connection_closed_while_idle_is_replaced(kind):
    clock = ManualClock()
    options = ListenerOptions(idle_timeout_ms=IDLE_MS)
    async with (
        FaultyUpstream(body=b"x") as upstream,
        Sidecar(upstream, clock=clock, options=options) as sidecar,
        kind() as client,
    ):
        for _ in range(3):
            assert (await client.ask("GET", url(sidecar))).body == b"x"
            clock.advance(IDLE_MS)
            clock.advance(DRAIN_TIMEOUT_MS)
            await until(lambda: sidecar.listener.connections == 0)
            await hear_of_it()
        assert (await client.ask("POST", url(sidecar), body=b"y")).body == b"x"

        assert upstream.request_count == 4


async def test_a_connection_that_is_to_end_answers_once_more_and_says_so(kind):
    clock = ManualClock()
    options = ListenerOptions(max_requests_per_connection=2)
    async with (
        FaultyUpstream(body=b"x") as upstream,
        Sidecar(upstream, clock=clock, options=options) as sidecar,
        kind() as client,
    ):
        answers = [await client.ask("GET", url(sidecar)) for _ in range(6)]

        assert [answer.status for answer in answers] == [200] * 6
        assert upstream.request_count == 6
        assert sidecar.http_stats.downstream_cx_total == (6 if kind is Curl else 3)


async def test_head_has_the_length_and_no_body(kind):
    async with FaultyUpstream(body=b"12345") as upstream, Sidecar(upstream) as sidecar, kind() as client:
        answers = [await client.ask(method, url(sidecar)) for method in ("HEAD", "GET", "HEAD")]

        assert [answer.headers["content-length"] for answer in answers] == ["5"] * 3
        assert [answer.body for answer in answers] == [b"", b"12345", b""]


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_large_upload_arrives_whole(kind, framing):
    body = bytes(range(256)) * 4 * 1024 * 5
    data = [body[start : start + 100_001] for start in range(0, len(body), 100_001)] if framing == "chunked" else body
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar, kind() as client:
        answer = await client.ask("PUT", url(sidecar), body=data)

        assert answer.status == 200
        (request,) = upstream.requests
        assert bytes(request.body) == body
        length = request.header("content-length")
        assert length == (str(len(body)) if framing == "length" else None)


async def test_an_upload_of_nothing(kind):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar, kind() as client:
        assert (await client.ask("POST", url(sidecar), body=b"")).status == 200
        assert bytes(upstream.requests[0].body) == b""


async def test_a_large_download_arrives_whole(kind):
    body = bytes(range(256)) * 4 * 1024 * 5
    async with FaultyUpstream(body=body) as upstream, Sidecar(upstream) as sidecar, kind() as client:
        for framing in ("length", "chunked", "close"):
            upstream.set(body=body, framing=framing, piece_bytes=MIB)

            assert (await client.ask("GET", url(sidecar))).body == body


async def test_an_answer_in_the_middle_of_an_upload_is_heard(kind):
    """The client may go on sending: what it sends is read, so that no reset overtakes the answer."""
    clock = ManualClock()  # the second that it has for it does not pass
    refusal = Reply(status=413, body=b"too much", early=True)
    async with FaultyUpstream() as upstream, Sidecar(upstream, clock=clock) as sidecar, kind() as client:
        upstream.sequence([refusal])
        answer = await client.ask("POST", url(sidecar), body=bytes(8 * MIB))

        assert (answer.status, answer.body) == (413, b"too much")
        assert (await client.ask("GET", url(sidecar))).status == 200


@pytest.mark.parametrize("status", [302, 307])
async def test_redirects_are_the_clients_to_follow(kind, status):
    async with FaultyUpstream(body=b"there") as upstream, Sidecar(upstream) as sidecar, kind() as client:
        upstream.set(Reply(status=status, headers={"location": "/b?c=d"}), path="/a")
        seen = await client.ask("GET", url(sidecar, "/a"))
        followed = await client.ask("GET", url(sidecar, "/a"), follow=True)

        assert (seen.status, seen.headers["location"]) == (status, "/b?c=d")
        assert followed.body == b"there"
        assert [request.target for request in upstream.requests] == ["/a", "/a", "/b?c=d"]


async def test_compressed_bodies_pass_untouched_both_ways(kind):
    packed = gzip.compress(b"text" * 1_000, mtime=0)
    headers = {"content-encoding": "gzip", "content-type": "text/plain"}
    async with FaultyUpstream(body=packed, headers=headers) as upstream, Sidecar(upstream) as sidecar, kind() as client:
        answer = await client.ask("POST", url(sidecar), body=packed, headers={"Content-Encoding": "gzip"})
        (request,) = upstream.requests

        assert bytes(request.body) == packed
        assert request.header("content-encoding") == "gzip"
        assert answer.headers["content-length"] == str(len(packed))
        assert answer.body == b"text" * 1_000


async def test_nobody_is_made_to_accept_an_encoding(kind):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar, kind() as client:
        await client.ask("GET", url(sidecar), headers={"Accept-Encoding": "identity"})

        assert upstream.requests[0].header("accept-encoding") == "identity"


async def test_through_the_proxy_of_the_environment(kind, monkeypatch):
    """A client that takes us for its proxy asks in absolute form; the host gets the path."""
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
        monkeypatch.setenv("http_proxy", f"http://{sidecar.listener.address}")
        async with kind(proxied=True) as client:
            answer = await client.ask("GET", "http://service.test/a/b?c=d")

        assert answer.body == b"x"
        (request,) = upstream.requests
        assert (request.target, request.header("host")) == ("/a/b?c=d", "service.test")


@pytest.mark.parametrize("host", ["[::1]:8080", "[2001:db8::1]"])
async def test_an_address_of_version_6_as_the_host(kind, host):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar, kind() as client:
        answer = await client.ask("GET", url(sidecar), headers={"Host": host})

        assert (answer.status, upstream.requests[0].header("host")) == (200, host)


async def test_a_host_that_fails_is_told_as_the_client_tells_it(kind):
    async with FaultyUpstream(fault="reset") as upstream, Sidecar(upstream) as sidecar, kind() as client:
        answers = [await client.ask("GET", url(sidecar)) for _ in range(2)]

        assert [answer.status for answer in answers] == [503, 503]
        assert upstream.request_count == 2  # nothing was sent twice behind anybody's back
