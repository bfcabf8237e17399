"""`outlier source`, and `outlier run` fed by it, as processes."""

import asyncio
import json
import signal

import aiohttp
import pytest

from proxy.cli import main
from tests.proxy.command import outlier, ready
from tests.proxy.push.feed_rig import PROTOCOLS, free_port, rule, service

pytestmark = pytest.mark.slow

WAIT_S = 60


async def get(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


@pytest.fixture
def rules(tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "a.yaml").write_text(service("a"))
    return folder


LISTEN = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_changed_file_reaches_a_sidecar(rules, protocol):
    async with outlier("source", str(rules), "--listen", "127.0.0.1:0") as source:
        address = (await ready(source))["listen"]
        async with outlier("run", "--source", f"{protocol}://{address}", *LISTEN) as sidecar:
            admin = (await ready(sidecar))["admin"]
            assert "outbound|80||a.default.svc.cluster.local" in await get(f"http://{admin}/clusters")
            (rules / "b.yaml").write_text(service("b") + "---\n" + rule("b", 150))
            async with asyncio.timeout(WAIT_S):
                while "outbound|80||b." not in await get(f"http://{admin}/clusters"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            [status] = json.loads(await get(f"http://{admin}/config/status"))["sources"]
            assert status["name"] == f"{protocol}://{address}"
            assert status["connection"]["connected"] is True
            assert "mcp_sink_reconnections" in await get(f"http://{admin}/stats/prometheus")


async def test_the_source_shows_its_sinks(rules):
    async with outlier("source", str(rules), *LISTEN) as source:
        where = await ready(source)
        async with outlier("run", "--source", f"mcp://{where['listen']}", *LISTEN) as sidecar:
            await ready(sidecar)
            [requests] = json.loads(await get(f"http://{where['admin']}/journal")).values()
            metrics = await get(f"http://{where['admin']}/stats/prometheus")

    services = "istio/networking/v1alpha3/serviceentries"
    assert {(one["collection"], one["acked"]) for one in requests} >= {(services, True)}
    assert 'mcp_source_clients_total{protocol="mcp"} 1' in metrics
    assert f'mcp_source_request_acks_total{{collection="{services}"}} 1' in metrics
    assert "# TYPE pilot_proxy_queue_time histogram" in metrics


async def test_a_source_ends_with_0_when_told_to(rules):
    async with outlier("source", str(rules), "--listen", "127.0.0.1:0") as source:
        await ready(source)
        source.send_signal(signal.SIGTERM)

        assert await asyncio.wait_for(source.wait(), WAIT_S) == 0


async def test_a_sidecar_that_waits_for_its_configuration_can_be_told_to_end():
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    admin = free_port()
    url = f"http://127.0.0.1:{admin}/ready"
    argv = ("--source", f"mcp-listen://127.0.0.1:{free_port()}", "--source", f"xds://127.0.0.1:{port}")
    async with server, outlier("run", *argv, "--admin", f"127.0.0.1:{admin}", "--source-start-timeout", "0") as sidecar:
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    assert await get(url) == "INITIALIZING\n"
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        sidecar.send_signal(signal.SIGTERM)

        assert await asyncio.wait_for(sidecar.wait(), WAIT_S) == 0


async def test_a_sidecar_whose_source_is_not_there_ends_with_2_and_says_so():
    source = f"mcp://127.0.0.1:{free_port()}"
    async with outlier("run", "--source", source, *LISTEN, "--source-start-timeout", "0.3") as sidecar:
        _, errors = await asyncio.wait_for(sidecar.communicate(), WAIT_S)

    assert sidecar.returncode == 2
    assert errors.decode().splitlines()[-1].startswith(f"{source}: not reached within 300 ms: ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--listen", "nowhere"], "--listen = nowhere; must be host:port, [v6]:port or unix:///path"),
        (["--dial", "x"], "--dial = x; must be host:port, [v6]:port or unix:///path"),
        (["--admin", "unix:///a"], "--admin = unix:///a; must be host:port"),
        (["--tls-key", "k.pem"], "--tls-certificate = None; needs --tls-key, and the other way round"),
    ],
)
def test_a_bad_option_is_named(rules, capsys, argv, message):
    assert main(["source", str(rules), *argv]) == 2
    assert capsys.readouterr().err == message + "\n"


def test_a_missing_folder_is_named(tmp_path, capsys):
    assert main(["source", str(tmp_path / "missing")]) == 2
    assert str(tmp_path / "missing") in capsys.readouterr().err


def test_a_bad_file_at_the_start_is_named(rules, capsys):
    (rules / "bad.yaml").write_text(rule("a", 150))

    assert main(["source", str(rules), "--listen", "127.0.0.1:0"]) == 2
    assert "maxEjectionPercent = 150" in capsys.readouterr().err
