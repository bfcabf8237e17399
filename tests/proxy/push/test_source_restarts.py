"""Three sidecars as processes, fed by one source that is killed again and again while requests flow.

OUTLIER_TEST_KILLS says how often; 20 take two minutes.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import FaultyUpstream
from tests.proxy.push.feed_rig import PROTOCOLS, free_port

KILLS = int(os.environ.get("OUTLIER_TEST_KILLS", "3"))
REQUESTS_PER_S = 1_000  # over all sidecars
REQUESTS_PER_KILL = 100
CONVERGE_S = 60

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: shop}}
spec:
  hosts: [shop.default.svc.cluster.local]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{endpoints}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: shop}}
spec:
  host: shop
  trafficPolicy:
    outlierDetection: {{consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 1h, maxEjectionPercent: 50}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: generation}}
spec:
  hosts: [generation-{generation}.default.svc.cluster.local]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: 10.0.0.1}}]
"""


class Process:
    """One `outlier` command, and the first line it printed."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self.ready: dict[str, str] = {}

    async def start(self) -> None:
        command = (sys.executable, "-m", "proxy.cli", *self._arguments)
        self._process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert self._process.stdout is not None
        self.ready = json.loads(await self._process.stdout.readline())

    async def end(self, number: int) -> None:
        self._process.send_signal(number)
        await self._process.wait()


def write_rules(folder: Path, upstreams: list[FaultyUpstream], generation: int) -> None:
    ports = ", ".join(f"{{address: 127.0.0.1, ports: {{http: {one.port}}}}}" for one in upstreams)
    fresh = folder / ".rules.yaml"
    fresh.write_text(SERVICE.format(endpoints=ports, generation=generation))
    fresh.rename(folder / "rules.yaml")


async def request_for_ever(url: str, session: aiohttp.ClientSession, statuses: list[int]) -> None:
    """Keep up this sidecar's share of the rate; a request that fails counts as status 0."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        try:
            async with session.get(url, headers={"Host": "shop.default.svc.cluster.local"}) as response:
                await response.read()
                statuses.append(response.status)
        except aiohttp.ClientError:
            statuses.append(0)
        due += len(PROTOCOLS) / REQUESTS_PER_S
        await asyncio.sleep(max(due - loop.time(), 0))


async def clusters(session: aiohttp.ClientSession, sidecar: Process) -> list[dict]:
    async with session.get(f"http://{sidecar.ready['admin']}/clusters?format=json") as response:
        return list((await response.json())["cluster_statuses"])


async def ejected(session: aiohttp.ClientSession, sidecar: Process) -> list[int]:
    found = await clusters(session, sidecar)
    shop = next(cluster for cluster in found if "shop" in cluster["name"])
    return [
        host["address"]["socket_address"]["port_value"]
        for host in shop["host_statuses"]
        if host["health_status"].get("failed_outlier_check")
    ]


async def wait_generation(session: aiohttp.ClientSession, sidecar: Process, generation: int) -> None:
    # Another process's state: there is nothing to wait on but time.
    while not any(f"generation-{generation}." in one["name"] for one in await clusters(session, sidecar)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_source_that_is_killed_costs_no_request_and_no_ejection(tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    address = f"127.0.0.1:{free_port()}"
    async with contextlib.AsyncExitStack() as stack:
        good = [await stack.enter_async_context(FaultyUpstream(max_recorded=1)) for _ in range(2)]
        bad = await stack.enter_async_context(FaultyUpstream(status=503, max_recorded=1))
        write_rules(rules, [*good, bad], 0)
        source = Process("source", str(rules), "--listen", address)
        await source.start()
        listen = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        sidecars = [Process("run", "--source", f"{protocol}://{address}", *listen) for protocol in PROTOCOLS]
        for sidecar in sidecars:
            await sidecar.start()
            stack.push_async_callback(sidecar.end, signal.SIGTERM)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for sidecar in sidecars:  # until each has met the bad host once
            while not await ejected(session, sidecar):
                url = f"http://{sidecar.ready['listen']}/"
                async with session.get(url, headers={"Host": "shop.default.svc.cluster.local"}) as response:
                    await response.read()
        statuses: list[int] = []
        clients = [
            asyncio.ensure_future(request_for_ever(f"http://{one.ready['listen']}/", session, statuses))
            for one in sidecars
        ]
        for generation in range(1, KILLS + 1):
            await source.end(signal.SIGKILL)
            write_rules(rules, [*good, bad], generation)
            await source.start()
            for sidecar in sidecars:
                async with asyncio.timeout(CONVERGE_S):
                    await wait_generation(session, sidecar, generation)
            while len(statuses) <= generation * REQUESTS_PER_KILL:  # noqa: ASYNC110 - sidecars are other processes
                await asyncio.sleep(0.05)
        assert [await ejected(session, sidecar) for sidecar in sidecars] == [[bad.port]] * len(sidecars)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await source.end(signal.SIGTERM)

    assert set(statuses) == {200}
    assert len(statuses) > KILLS * REQUESTS_PER_KILL
