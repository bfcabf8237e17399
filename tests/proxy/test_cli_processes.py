"""`outlier run` and `outlier demo` as processes: the ready line, signals, ports, exit codes."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import aiohttp
import pytest

from proxy.demo_script import SERVICE, rules
from proxy.testing import FaultyUpstream
from tests.proxy.command import outlier, ready

pytestmark = pytest.mark.slow

WAIT_S = 30


@pytest.fixture
async def upstream():
    async with FaultyUpstream(body="hello") as started:
        yield started


@pytest.fixture
def run_argv(tmp_path, upstream):
    config = tmp_path / "shop.yaml"
    # Not the demo's times: the upstream is of this process, which a busy machine may leave waiting.
    config.write_text(rules([upstream.port]).replace("timeout: 400ms", "timeout: 60s").replace("250ms", "60s"))
    return ["run", "--config", str(config), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_run_says_where_it_listens_serves_and_ends_with_0(run_argv, upstream, loop):
    pytest.importorskip(loop)
    async with (
        outlier(*run_argv, "--loop", loop, "--service", f"{SERVICE}:80=127.0.0.1:0") as process,
        aiohttp.ClientSession() as session,
    ):
        line = await ready(process)
        assert line["pid"] == process.pid
        async with session.get(f"http://{line['listen']}/", headers={"Host": SERVICE}) as response:
            assert (response.status, await response.text()) == (200, "hello")
        async with session.get(f"http://{line['services'][f'{SERVICE}:80']}/") as response:
            assert (response.status, await response.text()) == (200, "hello")
        async with session.get(f"http://{line['admin']}/ready") as response:
            assert await response.text() == "LIVE\n"
        process.send_signal(signal.SIGTERM)

        assert await process.wait() == 0


async def test_second_signal_ends_a_draining_sidecar_at_once(run_argv, upstream):
    upstream.set(fault="hang")
    async with outlier(*run_argv, "--drain-time", "60", "--log-format", "json") as process:
        line = await ready(process)
        _, writer = await asyncio.open_connection(*line["listen"].split(":"))
        writer.write(f"GET / HTTP/1.1\r\nHost: {SERVICE}\r\n\r\n".encode())
        await upstream.wait_requests(1)
        process.send_signal(signal.SIGINT)
        while json.loads(await process.stderr.readline())["event"] != "server.draining":
            pass
        process.send_signal(signal.SIGINT)

        assert await process.wait() == 128 + signal.SIGINT
        writer.close()


async def test_quitquitquit_ends_with_0(run_argv):
    async with outlier(*run_argv) as process, aiohttp.ClientSession() as session:
        line = await ready(process)
        async with session.post(f"http://{line['admin']}/quitquitquit") as response:
            assert await response.text() == "OK\n"

        assert await process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1], ids=lambda number: number.name)
async def test_signal_reopens_event_log_and_access_log(run_argv, upstream, tmp_path, number):
    upstream.set(status=503)
    events, requests = tmp_path / "events.log", tmp_path / "requests.log"
    argv = (*run_argv, "--event-log", str(events), "--access-log", str(requests))
    async with outlier(*argv) as process, aiohttp.ClientSession() as session:
        line = await ready(process)
        old = [log.rename(f"{log}.1") for log in (events, requests)]
        process.send_signal(number)
        async with asyncio.timeout(WAIT_S):
            while not (events.exists() and requests.exists()):  # noqa: ASYNC110 - the file system tells nobody
                await asyncio.sleep(0.01)
        for _ in range(3):
            async with session.get(f"http://{line['listen']}/", headers={"Host": SERVICE}) as response:
                assert response.status == 503
                await response.read()
        process.terminate()
        await process.wait()

        assert len(requests.read_text().splitlines()) == 3
        assert [log.read_text() for log in old] == ["", ""]


async def test_port_in_use_is_an_error_line_and_exit_2(run_argv):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        run_argv[run_argv.index("--listen") + 1] = address
        async with outlier(*run_argv) as process:
            _, error = await process.communicate()

    assert process.returncode == 2
    assert error.decode().splitlines()[-1].startswith(f"cannot listen on {address}; ")


@pytest.mark.parametrize(
    "argv",
    [
        ("--help",),
        ("check", "examples/bookinfo"),
        ("envoy", "--format", "yaml", "examples/bookinfo"),
        ("demo", "--duration", "60"),
    ],
    ids=lambda argv: argv[0],
)
async def test_reader_that_has_left_ends_a_command_quietly(argv):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "proxy.cli", *argv),
            stdout=pipe,
            stderr=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            # Output is buffered, as it is in a pipe of a shell.
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    _, error = await process.communicate()

    assert (process.returncode, error) == (128 + signal.SIGPIPE, b"")


async def test_demo_ejects_returns_and_summarises():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for duration in ("4", "15", "45"):  # where the machine stood still, the ejection had no time to end
        async with outlier("demo", "--duration", duration, "--port", str(port)) as process:
            output, error = await process.communicate()

        text = output.decode()
        assert (process.returncode, error) == (0, b"")
        if "unejected: ejection time over" in text:
            break
    assert f"proxy http://127.0.0.1:{port}" in text
    assert "shop-1" in text
    assert "ejected (no. 1): failures in a row, it answers 503 (CONSECUTIVE_5XX)" in text
    assert "unejected: ejection time over" in text
    assert " x 200" in text.split("\n4.")[-1]
