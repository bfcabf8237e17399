"""A whole sidecar with health checks from its bootstrap file: when it opens, and what it logs."""

import json

from proxy.config.address import Address
from proxy.config.bootstrap_loader import load_bootstrap
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.proxy.http.sidecar import until

CLUSTER = "outbound|80||a.example"
SERVICE = """
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: a, namespace: default}}
spec:
  hosts: [a.example]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: 127.0.0.1, ports: {{http: {port}}}}}]
"""
BOOTSTRAP = """
config: service.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
health_checks:
- hosts: a.example
  timeout: {timeout}
  interval: 10ms
  no_traffic_interval: 10ms
  unhealthy_threshold: 1
  healthy_threshold: 1
  http: {{path: /healthz}}
  event_log_path: checks.jsonl
"""


def make_server(folder, upstream, timeout="30s"):
    (folder / "service.yaml").write_text(SERVICE.format(port=upstream.port))
    (folder / "boot.yaml").write_text(BOOTSTRAP.format(timeout=timeout))
    return Server(load_bootstrap(folder / "boot.yaml", {}, {}))


def kinds(path):
    events = (json.loads(line) for line in path.read_text().splitlines())
    return [name for event in events for name in event if name.endswith("_event")]


async def test_listeners_open_once_each_host_has_had_a_result(tmp_path):
    async with FaultyUpstream(fault="hang") as upstream:
        server = make_server(tmp_path, upstream, timeout="50ms")
        await server.start()
        flags = server.cluster_manager.clusters[CLUSTER].hosts[0].health_flags_text()
        await server.close()

        assert flags == "/failed_active_hc/active_hc_timeout"
        assert server.ready_line()["listen"] != str(Address("127.0.0.1", 0))


async def test_events_go_to_the_file_that_may_be_renamed(tmp_path):
    async with FaultyUpstream() as upstream:
        server = make_server(tmp_path, upstream)
        await server.start()
        log = tmp_path / "checks.jsonl"
        assert kinds(log) == ["add_healthy_event"]

        log.rename(tmp_path / "old.jsonl")
        server.reopen_logs()
        upstream.set(status=503)
        await until(lambda: log.read_text())
        await server.close()

        assert kinds(log)[0] == "eject_unhealthy_event"
        assert [event.kind for event in server.events.since(0)] == ["config", "health", "health"]
