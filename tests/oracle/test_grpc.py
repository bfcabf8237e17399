"""Real gRPC calls through Envoy and the sidecar to the same hosts: what the client hears, who is ejected and why."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import grpc
import pytest

from tests.oracle.envoy import Envoy, log_requests
from tests.oracle.grpc_cases import CASES, FINE, GrpcCase
from tests.oracle.grpc_upstream import GrpcUpstream, Script
from tests.oracle.patience import equal, patiently
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject
from tests.oracle.wire import Headers

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

# Envoy ejects on its main thread: a call that follows a failure at once would still meet the ejected host.
SETTLE_S = 0.05
CONCURRENT_CASES = 8
LOG_DEADLINE_S = 30.0
COMPARED_STATS = (
    *("upstream_cx_connect_fail", "upstream_cx_none_healthy", "upstream_rq_completed", "upstream_rq_timeout"),
    *("upstream_rq_retry", "upstream_rq_retry_success", "upstream_rq_retry_limit_exceeded", "upstream_rq_total"),
    *("upstream_rq_200", "upstream_rq_502", "upstream_rq_503", "upstream_rq_504"),
    *("upstream_rq_rx_reset", "upstream_rq_tx_reset", "upstream_rq_pending_failure_eject"),
)
COMPARED_HOST_STATS = ("rq_error", "rq_success", "rq_timeout", "rq_total")


@attrs.frozen(kw_only=True)
class Observed:
    """What one proxy made of a case: each call for the client, each line of the access log, the detector's account."""

    calls: tuple[str, ...]
    log: tuple[str, ...]
    stats: Mapping[str, int]
    host: Mapping[str, Any]
    events: tuple[str, ...]


Pair = tuple[Observed, Observed]


class LoggingEnvoy(Envoy):
    """An Envoy that writes its access log at once."""

    def bootstrap(self) -> dict[str, Any]:
        message = super().bootstrap()
        log_requests(message, str(self.directory / "access.jsonl"))
        return message


class LoggingSidecar(Sidecar):
    """A sidecar with an access log."""

    def __init__(self, services: Sequence[Service]) -> None:
        super().__init__(services, access_log=True)


class Stage:
    """The host of one case."""

    def __init__(self, number: int, case: GrpcCase, scale: int) -> None:
        self.case = case
        self._settle_s = SETTLE_S * scale
        self._deadline_ms = case.deadline_ms * scale
        self.upstream = GrpcUpstream(self._next_script)
        self.reached = asyncio.Event()
        self._scripts: list[Script] = []
        self.service = Service(
            host=f"g{number:03}.oracle.test",
            addresses=[self.upstream.address],
            outlier_detection=case.rule,
            timeout_ms=case.timeout_ms * scale,
            retries=case.retries,
            http2=True,
        )

    def _next_script(self, request: Headers) -> Script:
        self.reached.set()
        return self._scripts.pop(0) if self._scripts else FINE

    async def play(self, subject: Subject) -> tuple[str, ...]:
        """Make the calls of the case; return what became of each."""
        self._scripts = list(self.case.scripts)
        if not self.case.refuse:
            await self.upstream.accept()
        host, port = subject.listen
        options = [("grpc.default_authority", self.service.host), ("grpc.enable_retries", 0)]
        answers = []
        async with grpc.aio.insecure_channel(f"{host}:{port}", options=options) as channel:
            for _ in range(self.case.calls or len(self.case.scripts)):
                answers.append(await self._call(channel))
                await subject.hosts()  # answered by the thread that ejects
                await asyncio.sleep(self._settle_s)
        return tuple(answers)

    async def _call(self, channel: grpc.aio.Channel) -> str:
        self.reached.clear()
        metadata = (("grpc-timeout", f"{self._deadline_ms}m"),) if self._deadline_ms else None
        call = channel.unary_unary("/oracle.Service/Call")(b"request", metadata=metadata)
        if self.case.cancel:
            reached = asyncio.ensure_future(self.reached.wait())
            answered = asyncio.ensure_future(call.code())
            await asyncio.wait((reached, answered), return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            if not answered.done():
                call.cancel()
                return "cancelled"
        code, details = await call.code(), await call.details()
        names = [sorted(key for key, _ in (await metadata()) or ()) for metadata in _metadata(call)]
        return f"{code.name} {details!r} initial {names[0]} trailing {names[1]}"


def _metadata(call: Any) -> tuple[Any, Any]:
    return call.initial_metadata, call.trailing_metadata


async def _observe(stages: Sequence[Stage], subject: Subject) -> list[Observed]:
    limit = asyncio.Semaphore(CONCURRENT_CASES)

    async def one(stage: Stage) -> tuple[str, ...]:
        async with limit:
            return await stage.play(subject)

    calls = await asyncio.gather(*(one(stage) for stage in stages))
    log = await _access_log(subject, sum(map(len, calls)))
    statuses = json.loads(await subject.get("/clusters?format=json"))["cluster_statuses"]
    hosts = {cluster["name"]: cluster["host_statuses"][0] for cluster in statuses if cluster.get("host_statuses")}
    observed = []
    for stage, answers in zip(stages, calls, strict=True):
        name = stage.service.cluster_name
        stats = await subject.stats(name)
        observed.append(
            Observed(
                calls=answers,
                log=tuple(log.get(stage.service.host, ())),
                stats={
                    stat: value
                    for stat, value in sorted(stats.items())
                    if value and (stat.startswith("outlier_detection.") or stat in COMPARED_STATS)
                },
                host=_host(hosts[name]),
                events=tuple(_event(event.line) for event in subject.events(name)),
            )
        )
        stage.upstream.refuse()
    return observed


async def _access_log(subject: Subject, count: int) -> dict[str, list[str]]:
    """Wait for all lines of the access log; return them by authority, each with what says how its request ended."""
    path = subject.directory / "access.jsonl"
    lines: list[str] = []
    async with asyncio.timeout(LOG_DEADLINE_S):
        while len(lines) < count:
            await asyncio.sleep(0.05)
            lines = path.read_text().splitlines() if path.exists() else []
    found: dict[str, list[str]] = {}
    for line in map(json.loads, lines):
        fields = ("response_code", "response_flags", "response_code_details", "attempt", "bytes_sent")
        found.setdefault(line["authority"], []).append(" ".join(str(line[field]) for field in fields))
    return found


def _host(status: Mapping[str, Any]) -> dict[str, Any]:
    counted = {stat["name"]: int(stat.get("value", 0)) for stat in status["stats"]}
    flags = sorted(name for name, value in status.get("health_status", {}).items() if value is True)
    return {"flags": flags} | {name: counted[name] for name in COMPARED_HOST_STATS}


def _event(line: Mapping[str, Any]) -> str:
    return f"{line['action']} {line['type']} enforced {line['enforced']} for the {line['num_ejections']}. time"


async def _compare(cases: Sequence[GrpcCase], scale: int) -> list[Pair]:
    stages = [Stage(number, case, scale) for number, case in enumerate(cases)]
    observed = []
    try:
        for subject_class in (LoggingEnvoy, LoggingSidecar):
            async with subject_class([stage.service for stage in stages]) as subject:
                observed.append(await _observe(stages, subject))
    finally:
        for stage in stages:
            stage.upstream.close()
    return list(zip(*observed, strict=True))


@pytest.fixture(scope="module")
def compared(_envoy: None) -> dict[str, Pair]:
    """Return what Envoy and the sidecar made of each case."""
    pairs = patiently(CASES, lambda cases, scale: asyncio.run(_compare(cases, scale)), equal)
    return {case.name: pair for case, pair in zip(CASES, pairs, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_calls_end_and_hosts_are_judged_as_with_envoy(case: GrpcCase, compared: dict[str, Pair]) -> None:
    envoy, sidecar = compared[case.name]

    assert attrs.asdict(sidecar) == attrs.asdict(envoy)
