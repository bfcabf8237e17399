"""The warnings of a running sidecar, from a rule and requests to log, events, statistics and access log."""

import asyncio
import json

import aiohttp
import pytest

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import WAIT_S

RULE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: default}}
spec:
  hosts: [{name}.test]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{endpoints}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: default}}
spec:
  host: {name}.test
  trafficPolicy:
    outlierDetection: {detection}
---
"""
PANICKY = "{consecutive5xxErrors: 1, interval: 60s, maxEjectionPercent: 100, minHealthPercent: 60}"
CAPPED = "{consecutive5xxErrors: 1, interval: 60s, maxEjectionPercent: 10}"
SILENT = "{consecutive5xxErrors: 1, interval: 50ms, maxEjectionPercent: 100}"


@pytest.mark.slow
async def test_each_warning_is_told_and_panic_is_in_the_access_log(tmp_path):
    access_log = tmp_path / "access.log"
    nowhere = Address("127.0.0.1", 0)
    async with FaultyUpstream(status=503) as first, FaultyUpstream(status=503) as second:
        endpoints = ", ".join(f"{{address: 127.0.0.1, ports: {{http: {host.port}}}}}" for host in (first, second))
        rules = {"panicky": PANICKY, "capped": CAPPED, "silent": SILENT}
        (tmp_path / "rules.yaml").write_text(
            "".join(RULE.format(name=name, endpoints=endpoints, detection=rule) for name, rule in rules.items())
        )
        server = Server(
            Bootstrap(
                config_paths=(tmp_path / "rules.yaml",),
                listen=nowhere,
                admin=nowhere,
                access_log=access_log,
                drain_time_ms=0,
            )
        )
        told: dict[tuple[str, str], asyncio.Event] = {
            (f"outbound|80||{name}.test", concern): asyncio.Event()
            for name, concern in (("panicky", "panic"), ("capped", "cannot eject"), ("silent", "no reports"))
        }

        def on_event(event):
            if event.kind == "warning" and event.data["state"] == "began":
                told[event.data["cluster_name"], event.data["type"]].set()

        server.events.subscribe(on_event)
        await server.start()
        ready = server.ready_line()
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.get(f"http://{ready['listen']}/", headers={"Host": "panicky.test"}) as response:
                    assert response.status == 503
            for event in told.values():
                await asyncio.wait_for(event.wait(), WAIT_S)
            async with session.get(f"http://{ready['admin']}/warnings") as response:
                listed = {(warning["cluster_name"], warning["type"]) for warning in await response.json()}
        await server.drain()

        assert listed == set(told)
        assert server.stats_store.value("cluster.outbound|80||panicky.test.lb_healthy_panic") >= 1
        assert "EJ" in [json.loads(line)["response_flags"] for line in access_log.read_text().splitlines()]
