"""What only curl does: wait to be told to go on, and say how often it has connected."""

import pytest

from proxy.testing import FaultyUpstream, Reply
from tests.proxy.clients.habits import run_curl
from tests.proxy.http.sidecar import Sidecar

pytestmark = pytest.mark.slow

BODY = bytes(range(256)) * 4_096
PATIENT = ("--header", "Expect: 100-continue", "--expect100-timeout", "19", "--verbose", "--data-binary", "@-")


def url(sidecar: Sidecar, path: str = "/") -> str:
    return f"http://{sidecar.listener.address}{path}"


async def test_a_body_is_sent_once_it_is_asked_for():
    async with FaultyUpstream(body=b"thanks") as upstream, Sidecar(upstream) as sidecar:
        output, told = await run_curl(*PATIENT, url(sidecar), pieces=[BODY])

        assert output == b"thanks"
        assert told.count(b"< HTTP/1.1 100 Continue") == 1
        (request,) = upstream.requests
        assert (bytes(request.body), request.header("expect")) == (BODY, None)


async def test_a_refusal_instead_of_going_on_is_shown():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        upstream.set(Reply(status=417, body=b"no", early=True))
        output, told = await run_curl(*PATIENT, url(sidecar), pieces=[BODY[:100]])

        assert output == b"no"
        assert b"< HTTP/1.1 417 Expectation Failed" in told


async def test_one_connection_for_several_urls():
    async with FaultyUpstream(body=b"x") as upstream, Sidecar(upstream) as sidecar:
        output, _ = await run_curl("--write-out", "%{num_connects}", url(sidecar), url(sidecar), url(sidecar))

        assert output == b"x1x0x0"
        assert sidecar.http_stats.downstream_cx_total == 1


async def test_http_1_0_is_told_to_upgrade():
    """As in Envoy."""
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        output, _ = await run_curl("--http1.0", "--include", url(sidecar))

        assert output.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")


async def test_a_range_and_what_is_left_of_it():
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        upstream.set(Reply(status=206, body=b"cd", headers={"content-range": "bytes 2-3/6"}))
        output, _ = await run_curl("--range", "2-3", "--include", url(sidecar))

        assert upstream.requests[0].header("range") == "bytes=2-3"
        assert b"content-range: bytes 2-3/6\r\n" in output
        assert output.endswith(b"\r\n\r\ncd")


@pytest.mark.parametrize("path", ["/a%2Fb", "/%7E/%41", "/a/../b", "//x", "/?q=%21&a=b+c"])
async def test_targets_as_they_are(path):
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        await run_curl("--path-as-is", url(sidecar, path))

        assert upstream.requests[0].target == path


async def test_a_form_with_a_file(tmp_path):
    file = tmp_path / "file.bin"
    file.write_bytes(BODY)
    async with FaultyUpstream() as upstream, Sidecar(upstream) as sidecar:
        await run_curl("--form", f"f=@{file}", "--form", "a=b", url(sidecar))
        (request,) = upstream.requests

        assert BODY in bytes(request.body)
        assert request.header("content-type").startswith("multipart/form-data; boundary=")
        assert int(request.header("content-length")) == len(request.body)
