"""Active health checks: the sidecar takes hosts out and back, and says so, as a real Envoy does.

Both check the same upstreams at the same time, while these change how they answer. When both have had their results
of a change, both have the same flags, and have written the same events and counted the same kinds of results.
"""

import asyncio
import contextlib
import json
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest
import yaml

from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.envoy_health_check import add_health_check
from proxy.config.health_check import CheckMethod, HealthCheck, HealthCheckRule, HttpHealthCheck, TcpHealthCheck
from proxy.server import Server
from proxy.testing import FaultyUpstream
from tests.oracle.client import Client, Response
from tests.oracle.envoy import Envoy
from tests.oracle.patience import patiently
from tests.oracle.service import Service
from tests.oracle.sidecar import resources

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

T = TypeVar("T")

TIMEOUT_MS = 300
INTERVAL_MS = 150
# After so many times a check and its pause, no flag that differs is given more time.
PATIENCE = 7
POLL_S = 0.1
DEADLINE_S = 30
RESULT_KINDS = ("success", "failure", "network_failure")
STATS = ("attempt", *RESULT_KINDS, "passive_failure", "healthy", "degraded")
HTTP = HttpHealthCheck(path="/healthz")
TALK = TcpHealthCheck(send=(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",), receive=(b"HTTP/1.1 200", b"\r\n\r\n"))

OK: Mapping[str, Any] = {"status": 200}
UNWELL = {"status": 503}
HANG = {"fault": "hang"}
DEGRADED = {"headers": {"x-envoy-degraded": "1"}}
IMMEDIATE = {"status": 503, "headers": {"x-envoy-immediate-health-check-fail": "true"}}
REFUSE = None


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """One cluster with one host, which answers as each phase says."""

    name: str
    phases: Sequence[Mapping[str, Any] | None]
    check: HttpHealthCheck | TcpHealthCheck = HTTP
    fields: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def host(self) -> str:
        return f"{self.name}.example"

    @property
    def threshold(self) -> int:
        """Results in a row that take the host out, and that bring it back."""
        return max(2, self.fields.get("healthy_threshold", 0))

    @property
    def cluster_name(self) -> str:
        return f"outbound|80||{self.host}"

    def health_check(self, log: Path, scale: int = 1) -> HealthCheck:
        interval_ms = INTERVAL_MS * scale
        defaults = {
            "timeout_ms": TIMEOUT_MS * scale,
            "interval_ms": interval_ms,
            "no_traffic_interval_ms": interval_ms,
            "unhealthy_threshold": 2,
            "healthy_threshold": 2,
        }
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


def words_by_phase(log: Path, starts_ms: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the events of a log without their times, by the number of the phase that they fall into."""
    found: dict[int, list[dict[str, Any]]] = {}
    for event, text in zip(events(log), words(log), strict=True):
        time_ms = round(datetime.fromisoformat(event["timestamp"]).timestamp() * 1000)
        found.setdefault(bisect_right(starts_ms, time_ms) - 1, []).append(text)
    return found


class CheckingEnvoy(Envoy):
    """An Envoy that checks the hosts of each service."""

    def __init__(self, services: Sequence[Service], checks: Mapping[str, HealthCheck]) -> None:
        super().__init__(services)
        self._checks = checks

    def bootstrap(self) -> dict[str, Any]:
        message = super().bootstrap()
        for check, cluster in zip(self._checks.values(), message["static_resources"]["clusters"], strict=True):
            add_health_check(cluster, check)
        return message


@contextlib.asynccontextmanager
async def both(
    hosts: Mapping[Case, FaultyUpstream], folder: Path, *, scale: int = 1, rule: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[CheckingEnvoy, Server]]:
    """Run Envoy and the sidecar over a service for each case, each with its own event logs."""
    services = [
        Service(
            host=case.host,
            addresses=[upstream.address],
            outlier_detection=rule,
        )
        for case, upstream in hosts.items()
    ]
    config = folder / "config"
    config.mkdir(parents=True)
    for service in services:
        (config / f"{service.host}.yaml").write_text(yaml.safe_dump_all(resources(service)))
    checks = {case.host: case.health_check(folder / f"envoy-{case.host}", scale) for case in hosts}
    rules = tuple(
        HealthCheckRule(case.host, None, case.health_check(folder / f"sidecar-{case.host}", scale)) for case in hosts
    )
    anywhere = Address("127.0.0.1", 0)
    server = Server(Bootstrap(config_paths=(config,), listen=anywhere, admin=anywhere, health_checks=rules))
    async with CheckingEnvoy(services, checks) as envoy:
        await server.start()
        try:
            yield envoy, server
        finally:
            await server.close()


@attrs.frozen(kw_only=True)
class View:
    """What one proxy shows of a case: its host's flags as on `/clusters`, and the statistics `health_check.*`."""

    flags: str
    stats: Mapping[str, int]

    @property
    def results(self) -> int:
        return self.stats["success"] + self.stats["failure"]

    def comparable(self, earlier: "View") -> tuple[str, int, int, list[str]]:
        """Return what is equal in both: the state, and which kinds of results have come since an earlier view."""
        kinds = [kind for kind in RESULT_KINDS if self.stats[kind] > earlier.stats[kind]]
        return self.flags, self.stats["healthy"], self.stats["degraded"], kinds


@attrs.frozen
class Pair:
    """Views of one case at one time."""

    envoy: View
    sidecar: View

    def results_since(self, earlier: "Pair") -> int:
        """Return how many results the proxy with fewer has had since."""
        return min(
            self.envoy.results - earlier.envoy.results,
            self.sidecar.results - earlier.sidecar.results,
        )

    def agrees(self, earlier: "Pair") -> bool:
        return self.sidecar.comparable(earlier.sidecar) == self.envoy.comparable(earlier.envoy)


async def look(envoy: Envoy, server: Server) -> dict[str, Pair]:
    """Return the views of all cases, by cluster."""
    flags = {
        line.partition("::")[0]: line.rpartition("::")[2]
        for line in (await envoy.get("/clusters")).splitlines()
        if line.split("::")[2:3] == ["health_flags"]
    }
    page = json.loads(await envoy.get("/stats?filter=health_check&format=json"))
    theirs = {stat["name"]: stat["value"] for stat in page["stats"] if "value" in stat}
    ours = {metric.name: metric.value for metric in server.stats_store.metrics()}
    pairs = {}
    for name, cluster in server.cluster_manager.clusters.items():
        prefix = f"cluster.{name}.health_check."
        stats = [{stat: values[prefix + stat] for stat in STATS} for values in (theirs, ours)]
        pairs[name] = Pair(
            View(flags=flags[name], stats=stats[0]),
            View(flags=cluster.hosts[0].health_flags_text(), stats=stats[1]),
        )
    return pairs


async def disagreements(envoy: Envoy, server: Server, cases: Iterable[Case], patience_s: float) -> dict[Case, Pair]:
    """Wait until both proxies have had their results of a change and agree; return the cases where they do not.

    The first result may be that of a check begun before the change; so many as take a host out, or bring it back, are
    to follow. Where the proxies disagree after these, after as many more.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    begin = now = await look(envoy, server)
    since: dict[Case, Pair] = {}
    waiting = set(cases)
    while waiting and loop.time() < deadline_s:
        await asyncio.sleep(POLL_S)
        now = await look(envoy, server)
        for case in tuple(waiting):
            pair = now[case.cluster_name]
            if case not in since:
                if pair.results_since(begin[case.cluster_name]) > 0:
                    since[case] = pair
            elif pair.results_since(since[case]) >= case.threshold:
                if pair.agrees(since[case]):
                    waiting.discard(case)
                since[case] = pair
    return {case: now[case.cluster_name] for case in waiting}


async def differences(cases: Sequence[Case], scale: int, folder: Path) -> list[object]:
    """Play the phases of some cases; return what differs in each, None for nothing."""
    found: dict[Case, object] = {}
    starts_ms = []
    async with contextlib.AsyncExitStack() as stack:
        hosts = {case: await stack.enter_async_context(FaultyUpstream()) for case in cases}
        for number in range(len(cases[0].phases)):
            starts_ms.append(time.time_ns() // 1_000_000)
            for case, upstream in hosts.items():
                await set_phase(upstream, case.phases[number])
            if number == 0:
                envoy, server = await stack.enter_async_context(both(hosts, folder, scale=scale))
            patience_s = PATIENCE * (TIMEOUT_MS + INTERVAL_MS) * scale / 1000
            agreeing = [case for case in cases if case not in found]
            for case, pair in (await disagreements(envoy, server, agreeing, patience_s)).items():
                found[case] = f"phase {number}", pair
        for name, pair in (await look(envoy, server)).items():
            for stat in ("attempt", *RESULT_KINDS):
                theirs = pair.envoy.stats[stat]
                if pair.sidecar.stats[stat] != pytest.approx(theirs, abs=4 + theirs // 5):
                    found.setdefault(next(case for case in cases if case.cluster_name == name), (stat, pair))
    for case in cases:
        theirs, ours = (words_by_phase(folder / f"{who}-{case.host}", starts_ms) for who in ("envoy", "sidecar"))
        if ours != theirs:
            found.setdefault(case, ("events", theirs, ours))
    return [found.get(case) for case in cases]


def test_hosts_go_out_and_come_back_as_under_envoy(tmp_path: Path) -> None:
    found = patiently(
        CASES,
        lambda cases, scale: asyncio.run(differences(cases, scale, tmp_path / f"x{scale}")),
        lambda _, difference: difference is None,
    )

    assert {case.name: difference for case, difference in zip(CASES, found, strict=True) if difference} == {}


EJECTING = {"consecutive5xxErrors": 1, "maxEjectionPercent": 100, "interval": "600s", "baseEjectionTime": "600s"}


async def exchange(envoy: Envoy, server: Server, case: Case) -> list[Response]:
    """Return the response of each proxy to a request."""
    host, _, port = server.ready_line()["listen"].rpartition(":")
    responses = []
    for listen in (envoy.listen, (host, int(port))):
        client = Client(*listen)
        request = f"GET / HTTP/1.1\r\nhost: {case.host}\r\n\r\n".encode()
        responses.append(await client.exchange(request, wait_s=DEADLINE_S))
        await client.close()
    return responses


async def eventually(observe: Callable[[], Awaitable[T]], expected: T) -> T:
    """Observe until it is as expected, or long enough; return what was observed last."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + DEADLINE_S
    while (observed := await observe()) != expected and loop.time() < deadline_s:  # noqa: ASYNC110 (others decide)
        await asyncio.sleep(POLL_S)
    return observed


async def test_a_passed_check_brings_an_ejected_host_back(tmp_path: Path) -> None:
    case = Case(name="ejected", phases=(), fields={"timeout_ms": DEADLINE_S * 1000})
    async with FaultyUpstream(**UNWELL) as upstream:
        upstream.set(path="/healthz", status=200)
        async with both({case: upstream}, tmp_path, rule=EJECTING) as (envoy, server):

            async def observe() -> tuple[object, object]:
                theirs = await envoy.stats(case.cluster_name, used_only=False)
                ours = server.stats_store.value
                pair = (await look(envoy, server))[case.cluster_name]
                names = [f"outlier_detection.ejections_{name}" for name in ("enforced_total", "active")]
                return (
                    (pair.envoy.flags, *(theirs[name] for name in names)),
                    (pair.sidecar.flags, *(ours(f"cluster.{case.cluster_name}.{name}") for name in names)),
                )

            responses = await exchange(envoy, server, case)

            assert [response.status for response in responses] == [503, 503]
            expected = ("healthy", 1, 0)
            assert await eventually(observe, (expected, expected)) == (expected, expected)


async def test_an_answer_may_say_that_the_host_is_failing(tmp_path: Path) -> None:
    times = {"timeout_ms": DEADLINE_S * 1000, "interval_ms": 600_000, "no_traffic_interval_ms": 600_000}
    case = Case(name="passive", phases=(), fields=times)
    async with (
        FaultyUpstream(headers=IMMEDIATE["headers"]) as upstream,
        both({case: upstream}, tmp_path) as (envoy, server),
    ):

        async def observe() -> list[tuple[str, int]]:
            pair = (await look(envoy, server))[case.cluster_name]
            return [(view.flags, view.stats["passive_failure"]) for view in (pair.envoy, pair.sidecar)]

        theirs, ours = (
            (response.status, response.head.get(b"x-envoy-immediate-health-check-fail"))
            for response in await exchange(envoy, server, case)
        )

        assert ours == theirs
        expected = [("/failed_active_hc/excluded_via_immediate_hc_fail", 1)] * 2
        assert await eventually(observe, expected) == expected
    assert words(tmp_path / f"sidecar-{case.host}") == words(tmp_path / f"envoy-{case.host}")
