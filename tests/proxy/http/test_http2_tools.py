"""What others have written speaks HTTP/2 with the sidecar: nghttp2, curl, httpx, with TLS and without."""

import asyncio
import os
import re
import shutil

import httpx
import pytest

from proxy.http.tls import ListenerTls
from proxy.testing import FaultyUpstream
from tests.proxy.certificates import client_context, write_ca, write_pair
from tests.proxy.http.sidecar import WAIT_S, Sidecar

MIB = 1 << 20

pytestmark = pytest.mark.slow


async def run(*command: str) -> str:
    """Return what a command prints; it has to succeed."""
    if shutil.which(command[0]) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {command[0]}")
        pytest.skip(f"no {command[0]}")
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(3 * WAIT_S):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def secured(folder) -> ListenerTls:
    pair = write_pair(folder, "localhost", stem="listener")
    return ListenerTls(str(pair.certificate), str(pair.key))


async def test_h2load_has_every_request_answered():
    async with FaultyUpstream(body=b"hello") as upstream, Sidecar(upstream) as sidecar:
        output = await run("h2load", "-n", "500", "-c", "4", "-m", "25", f"http://{sidecar.listener.address}/")

        assert "500 total, 500 started, 500 done, 500 succeeded, 0 failed, 0 errored, 0 timeout" in output
        assert sidecar.http_stats.downstream_rq_http2_total == 500
        assert sidecar.http_stats.downstream_cx_http2_total == 4


async def test_h2load_posts_bodies_through_small_windows(tmp_path):
    body = tmp_path / "body"
    body.write_bytes(bytes(200_000))
    async with FaultyUpstream(body=bytes(200_000)) as upstream, Sidecar(upstream) as sidecar:
        address = f"http://{sidecar.listener.address}/"
        output = await run("h2load", "-n", "40", "-c", "2", "-m", "5", "-w", "16", "-W", "17", "-d", str(body), address)

        assert "40 succeeded, 0 failed, 0 errored, 0 timeout" in output
        assert {len(request.body) for request in upstream.requests} == {200_000}
        assert sidecar.http_stats.http2.pending_send_bytes == 0


async def test_h2load_agrees_on_http2_in_tls(tmp_path):
    async with FaultyUpstream() as upstream, Sidecar(upstream, listener_tls=secured(tmp_path)) as sidecar:
        output = await run("h2load", "-n", "50", "-c", "2", f"https://{sidecar.listener.address}/")

        assert "Application protocol: h2" in output
        assert "50 succeeded" in output


async def test_nghttp_sees_pushless_settings_and_a_response_with_trailers():
    reply = {"framing": "chunked", "body": b"hello", "trailers": {"checksum": "1"}}
    async with FaultyUpstream(**reply) as upstream, Sidecar(upstream) as sidecar:
        output = await run("nghttp", "-v", f"http://{sidecar.listener.address}/")

        assert re.search(r"SETTINGS_MAX_CONCURRENT_STREAMS\(0x03\):1024", output)
        assert re.search(r"SETTINGS_INITIAL_WINDOW_SIZE\(0x04\):16777216", output)
        assert re.search(r"checksum: 1", output)
        assert "hello" in output


async def test_offered_h2c_is_not_taken():
    """As in Envoy: the request is served in HTTP/1.1."""
    async with FaultyUpstream(body=b"hello") as upstream, Sidecar(upstream) as sidecar:
        output = await run("curl", "-s", "--http2", "-w", "%{http_version}", f"http://{sidecar.listener.address}/")

        assert output == "hello1.1"


async def test_curl_knows_beforehand():
    async with FaultyUpstream(body=b"hello") as upstream, Sidecar(upstream) as sidecar:
        address = f"http://{sidecar.listener.address}/"
        output = await run("curl", "-s", "--http2-prior-knowledge", "-w", "%{http_version}", "-d", "x" * 1_000, address)

        assert output == "hello2"
        assert upstream.requests[0].body == b"x" * 1_000


@pytest.mark.parametrize(("option", "version"), [("--http2", "2"), ("--http1.1", "1.1")])
async def test_curl_chooses_in_tls(tmp_path, option, version):
    async with FaultyUpstream(body=b"hello") as upstream, Sidecar(upstream, listener_tls=secured(tmp_path)) as sidecar:
        address = f"https://localhost:{sidecar.listener.address.port}/"
        ca = str(write_ca(tmp_path, "ours"))
        output = await run("curl", "-s", option, "--cacert", ca, "-w", "%{http_version}", address)

        assert output == f"hello{version}"
        assert upstream.requests[0].header("x-forwarded-proto") == "https"


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_httpx_streams_both_ways(tmp_path, secure):
    async def pieces():
        for number in range(64):
            yield bytes([number]) * 65_536

    tls = secured(tmp_path) if secure else None
    async with FaultyUpstream(body=bytes(4 * MIB)) as upstream, Sidecar(upstream, listener_tls=tls) as sidecar:
        scheme, verify = ("https", client_context()) if secure else ("http", True)
        async with httpx.AsyncClient(http1=False, http2=True, verify=verify, timeout=WAIT_S) as client:
            url = f"{scheme}://localhost:{sidecar.listener.address.port}/"
            response = await client.post(url, content=pieces())

            assert response.http_version == "HTTP/2"
            assert len(response.content) == 4 * MIB
            assert upstream.requests[0].body == b"".join(bytes([number]) * 65_536 for number in range(64))
