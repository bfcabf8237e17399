"""Active health checks: the sidecar takes hosts out and back, and says so, as a real Envoy does.

Both check the same upstreams at the same time, while these change how they answer. After each change both have the
same flags; at the end they have written the same events and counted the same kinds of results.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.envoy_health_check import add_health_check
from proxy.config.health_check import CheckMethod, HealthCheck, HealthCheckRule, HttpHealthCheck, TcpHealthCheck
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.oracle import envoy as envoy_module
from tests.oracle.client import Client
from tests.oracle.envoy import Envoy
from tests.oracle.service import Service
from tests.oracle.sidecar import resources

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.usefixtures("_envoy")]

# Two failures or passes in a row take at most 2 * (interval + timeout); a phase leaves room for a busy machine.
PHASE_S = 1.5
TIMES = {"timeout_ms": 150, "interval_ms": 200, "no_traffic_interval_ms": 200}
HTTP = HttpHealthCheck(path="/healthz")
TALK = TcpHealthCheck(send=(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",), receive=(b"HTTP/1.1 200", b"\r\n\r\n"))

OK: Mapping[str, Any] = {"status": 200}
UNWELL = {"status": 503}
HANG = {"fault": "hang"}
DEGRADED = {"headers": {"x-envoy-degraded": "1"}}
IMMEDIATE = {"status": 503, "headers": {"x-envoy-immediate-health-check-fail": "true"}}
REFUSE = None


@attrs.frozen(kw_only=True)
class Case:
    """One cluster with one host, which answers as each phase says."""

    name: str
    phases: Sequence[Mapping[str, Any] | None]
    check: HttpHealthCheck | TcpHealthCheck = HTTP
    fields: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def host(self) -> str:
        return f"{self.name}.example"

    def health_check(self, log: Path) -> HealthCheck:
        defaults = {**TIMES, "unhealthy_threshold": 2, "healthy_threshold": 2}
        return HealthCheck(check=self.check, event_log_path=log, **(defaults | dict(self.fields)))


CASES = [
    Case(name="http", phases=[OK, UNWELL, OK, REFUSE, HANG, DEGRADED, OK]),
    Case(name="first-failure", phases=[UNWELL, OK, HANG, UNWELL, OK, OK, REFUSE]),
    Case(name="first-timeout", phases=[HANG, REFUSE, OK, HANG, OK, HANG, UNWELL]),
    Case(name="degraded", phases=[DEGRADED, UNWELL, DEGRADED, OK, DEGRADED, HANG, OK]),
    Case(name="immediate", phases=[OK, IMMEDIATE, UNWELL, OK, IMMEDIATE, HANG, OK]),
    Case(
        name="retriable",
        phases=[OK, UNWELL, {"status": 404}, OK, {"status": 404}, OK, UNWELL],
        check=attrs.evolve(HTTP, retriable_statuses=((500, 599),)),
        fields={"always_log_health_check_failures": False},
    ),
    Case(
        name="expected",
        phases=[{"status": 204}, {"status": 200}, {"status": 299}, {"status": 300}, OK, {"status": 199}, OK],
        check=attrs.evolve(HTTP, expected_statuses=((200, 204), (206, 298)), method=CheckMethod.HEAD),
    ),
    Case(
        name="closes",
        phases=[OK, {"fault": "close"}, OK, {"fault": "reset"}, OK, {"headers": {"connection": "close"}}, OK],
    ),
    Case(name="tcp", phases=[OK, REFUSE, HANG, REFUSE, OK, REFUSE, OK], check=TcpHealthCheck()),
    Case(name="tcp-talk", phases=[OK, UNWELL, OK, HANG, OK, REFUSE, OK], check=TALK),
    Case(
        name="tcp-anew",
        phases=[HANG, OK, UNWELL, OK, REFUSE, OK, OK],
        check=TALK,
        fields={"reuse_connection": False},
    ),
    Case(name="pending", phases=[HANG, OK, HANG, UNWELL, OK, OK, OK], fields={"ignore_new_hosts_until_first_hc": True}),
    Case(name="slow-return", phases=[UNWELL, OK, UNWELL, OK, OK, UNWELL, OK], fields={"healthy_threshold": 4}),
]


async def set_phase(upstream: FaultyUpstream, reply: Mapping[str, Any] | None) -> None:
    if reply is None:
        await upstream.refuse()
    else:
        upstream.set(**reply)
        await upstream.accept()


def events(log: Path) -> list[dict[str, Any]]:
    """Return the events of a log."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def words(log: Path) -> list[dict[str, Any]]:
    """Return the events of a log without their times."""
    return [{name: value for name, value in event.items() if name != "timestamp"} for event in events(log)]


def times_s(log: Path) -> list[float]:
    """Return the times of a log's events, but for those that the start of the proxy decides."""
    later = [event for event in events(log) if not _is_first(event)]
    return [datetime.fromisoformat(event["timestamp"]).timestamp() for event in later]


def _is_first(event: Mapping[str, Any]) -> bool:
    details = event.get("add_healthy_event") or event.get("health_check_failure_event") or {}
    return details.get("first_check", False)


@contextlib.asynccontextmanager
async def both(
    services: Sequence[Service], checks: Mapping[str, Case], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Envoy, Server]]:
    """Run Envoy and the sidecar over the same services, each with its own event logs."""
    original = envoy_module.bootstrap

    def with_checks(services: Sequence[Service], *logs: Any) -> dict[str, Any]:
        message = original(services, *logs)
        for service, cluster in zip(services, message["static_resources"]["clusters"], strict=True):
            add_health_check(cluster, checks[service.host].health_check(folder / f"envoy-{service.host}"))
        return message

    monkeypatch.setattr(envoy_module, "bootstrap", with_checks)
    config = folder / "config"
    config.mkdir()
    for service in services:
        (config / f"{service.host}.yaml").write_text(yaml.safe_dump_all(resources(service)))
    rules = tuple(
        HealthCheckRule(host, None, case.health_check(folder / f"sidecar-{host}")) for host, case in checks.items()
    )
    anywhere = Address("127.0.0.1", 0)
    server = Server(Bootstrap(config_paths=(config,), listen=anywhere, admin=anywhere, health_checks=rules))
    async with Envoy(services) as envoy:
        await server.start()
        try:
            yield envoy, server
        finally:
            await server.close()


async def flags(envoy: Envoy, server: Server) -> tuple[dict[str, str], dict[str, str]]:
    """Return the flags of the one host of each cluster, as `/clusters` has them, of both."""
    lines = (await envoy.get("/clusters")).splitlines()
    expected = {
        line.partition("::")[0]: line.rpartition("::")[2] for line in lines if line.split("::")[2:3] == ["health_flags"]
    }
    clusters = server.cluster_manager.clusters.values()
    return expected, {cluster.name: cluster.hosts[0].health_flags_text() for cluster in clusters}


async def test_hosts_go_out_and_come_back_as_under_envoy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstreams = [FaultyUpstream() for _ in CASES]
    async with contextlib.AsyncExitStack() as stack:
        for upstream, case in zip(upstreams, CASES, strict=True):
            await stack.enter_async_context(upstream)
            await set_phase(upstream, case.phases[0])
        services = [
            Service(host=case.host, addresses=[upstream.address], outlier_detection=None)
            for case, upstream in zip(CASES, upstreams, strict=True)
        ]
        checks = {case.host: case for case in CASES}
        envoy, server = await stack.enter_async_context(both(services, checks, tmp_path, monkeypatch))
        for number in range(len(CASES[0].phases)):
            for upstream, case in zip(upstreams, CASES, strict=True):
                await set_phase(upstream, case.phases[number])
            await asyncio.sleep(PHASE_S)

            expected, actual = await flags(envoy, server)
            assert actual == expected, f"phase {number}"
        for case in CASES:
            name = f"outbound|80||{case.host}"
            expected_stats = await envoy.stats(name, used_only=False)
            for stat in ("healthy", "degraded"):
                ours = server.stats_store.value(f"cluster.{name}.health_check.{stat}")
                assert ours == expected_stats[f"health_check.{stat}"], (case.name, stat)
            for stat in ("attempt", "success", "failure", "network_failure"):
                ours = server.stats_store.value(f"cluster.{name}.health_check.{stat}")
                theirs = expected_stats[f"health_check.{stat}"]
                assert ours == pytest.approx(theirs, abs=4 + theirs // 5), (case.name, stat)
    for case in CASES:
        sidecar_log, envoy_log = tmp_path / f"sidecar-{case.host}", tmp_path / f"envoy-{case.host}"
        assert words(sidecar_log) == words(envoy_log), case.name
        assert times_s(sidecar_log) == pytest.approx(times_s(envoy_log), abs=PHASE_S), case.name  # in the same phase


EJECTING = {"consecutive5xxErrors": 1, "maxEjectionPercent": 100, "interval": "600s", "baseEjectionTime": "600s"}


async def test_a_passed_check_brings_an_ejected_host_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(name="ejected", phases=())
    async with FaultyUpstream(**UNWELL) as upstream:
        upstream.set(path="/healthz", status=200)
        service = Service(host=case.host, addresses=[upstream.address], outlier_detection=EJECTING)
        async with both([service], {case.host: case}, tmp_path, monkeypatch) as (envoy, server):
            host, _, port = server.ready_line()["listen"].rpartition(":")
            for listen in (envoy.listen, (host, int(port))):
                client = Client(*listen)
                response = await client.exchange(f"GET / HTTP/1.1\r\nhost: {case.host}\r\n\r\n".encode())
                assert response.status == 503
                await client.close()
            await asyncio.sleep(PHASE_S)

            expected, actual = await flags(envoy, server)
            assert actual == expected == {service.cluster_name: "healthy"}
            theirs = await envoy.stats(service.cluster_name, used_only=False)
            for stat in ("ejections_enforced_total", "ejections_active"):
                name = f"outlier_detection.{stat}"
                assert server.stats_store.value(f"cluster.{service.cluster_name}.{name}") == theirs[name]
            assert theirs["outlier_detection.ejections_enforced_total"] == 1


async def test_an_answer_may_say_that_the_host_is_failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(name="passive", phases=(), fields={"interval_ms": 60_000, "no_traffic_interval_ms": 60_000})
    async with FaultyUpstream(headers=IMMEDIATE["headers"]) as upstream:
        service = Service(host=case.host, addresses=[upstream.address], outlier_detection=None)
        async with both([service], {case.host: case}, tmp_path, monkeypatch) as (envoy, server):
            host, _, port = server.ready_line()["listen"].rpartition(":")
            heads = []
            for listen in (envoy.listen, (host, int(port))):
                client = Client(*listen)
                response = await client.exchange(f"GET / HTTP/1.1\r\nhost: {case.host}\r\n\r\n".encode())
                heads.append((response.status, response.head.get(b"x-envoy-immediate-health-check-fail")))
                await client.close()
            await asyncio.sleep(0.2)

            assert heads[1] == heads[0]
            expected, actual = await flags(envoy, server)
            assert actual == expected
            name = "health_check.passive_failure"
            theirs = await envoy.stats(service.cluster_name, used_only=False)
            assert server.stats_store.value(f"cluster.{service.cluster_name}.{name}") == theirs[name]
            assert expected == {service.cluster_name: "/failed_active_hc/excluded_via_immediate_hc_fail"}
    assert words(tmp_path / f"sidecar-{case.host}") == words(tmp_path / f"envoy-{case.host}")
