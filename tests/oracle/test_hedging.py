"""Attempts side by side, in Envoy and in the sidecar: who is heard, who is charged, what is counted and logged.

What happens when hangs on what has happened, not on the time, but for the time that each attempt has of its own.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from tests.oracle.client import Client, NoResponseError
from tests.oracle.envoy import Envoy
from tests.oracle.patience import equal, patiently
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject
from tests.oracle.wire import take_body, take_head

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

# These times are longer where a case is compared again.
PER_TRY_TIMEOUT_MS = 400
SHORT_TIMEOUT_MS = 2_500  # where the route's own time has to end the request
LONG_TIMEOUT_MS = 60_000
# Between what one attempt does and the next: time for a proxy to notice the first.
PAUSE_S = 0.3
LOG_DEADLINE_S = 40.0  # Envoy writes its log every ten seconds
NEVER = 1_000
RESET = -1
BODY = bytes(range(256)) * 40
COMPARED_STATS = (
    "outlier_detection.ejections_detected_consecutive_5xx",  # one for each failure that the detector hears of
    "retry.upstream_rq_503",
    "upstream_rq_200",
    "upstream_rq_404",
    "upstream_rq_503",
    "upstream_rq_504",
    "upstream_rq_active",
    "upstream_rq_completed",
    "upstream_rq_per_try_timeout",
    "upstream_rq_retry",
    "upstream_rq_retry_limit_exceeded",
    "upstream_rq_retry_success",
    "upstream_rq_rx_reset",
    "upstream_rq_timeout",
    "upstream_rq_total",
    "upstream_rq_tx_reset",
)
COMPARED_LOG = ("response_code", "response_flags", "response_code_details", "attempt")


@attrs.frozen
class Does:
    """What the upstream does with one attempt: `status` (or a reset) a pause after that many events.

    An event is the arrival of an attempt or the answer to one.
    """

    status: int
    after_events: int = 0


SLOW = Does(200, NEVER)


@attrs.frozen(kw_only=True)
class Case:
    """One request, and what becomes of each attempt; further attempts do as the last one."""

    name: str
    attempts: Sequence[Does]
    retries: int = 1
    retry_on: str = "5xx"
    timeout_ms: int = LONG_TIMEOUT_MS
    body: bytes = b""
    client_leaves_at: int = NEVER  # number of events


CASES = (
    Case(name="slow first, fast second", attempts=(SLOW, Does(200))),
    Case(name="both slow", attempts=(SLOW, SLOW), timeout_ms=SHORT_TIMEOUT_MS),
    Case(name="all three slow", attempts=(SLOW,), retries=2, timeout_ms=SHORT_TIMEOUT_MS),
    Case(name="first answers after second has started", attempts=(Does(200, 2), SLOW)),
    Case(name="first answers 404 after second has started", attempts=(Does(404, 2), SLOW)),
    Case(name="first fails after second has started", attempts=(Does(503, 2), Does(200, 3))),
    Case(name="first is reset after second has started", attempts=(Does(RESET, 2), Does(200, 3))),
    Case(name="second fails, first answers, no retries left", attempts=(Does(200, 3), Does(503))),
    Case(name="second is reset, first answers, no retries left", attempts=(Does(200, 3), Does(RESET))),
    Case(name="second fails, third answers", attempts=(SLOW, Does(503), Does(200)), retries=2),
    Case(name="second fails, first answers, third slow", attempts=(Does(200, 4), Does(503), SLOW), retries=2),
    Case(name="second fails, then first", attempts=(Does(503, 3), Does(503))),
    Case(name="second is reset, then first", attempts=(Does(RESET, 3), Does(RESET))),
    Case(name="first fails, then second", attempts=(Does(503, 2), Does(503, 3))),
    Case(name="first fails, second slow", attempts=(Does(503, 2), SLOW), timeout_ms=SHORT_TIMEOUT_MS),
    Case(name="second answers after its own time", attempts=(SLOW, Does(200, NEVER - 1))),
    Case(name="timeouts need not be retriable", attempts=(SLOW, Does(200)), retry_on="connect-failure"),
    Case(name="a failure that is not retriable", attempts=(Does(503, 2), SLOW), retry_on="connect-failure"),
    Case(name="body is sent again", attempts=(SLOW, Does(200)), body=BODY),
    Case(name="client leaves both", attempts=(SLOW, SLOW), client_leaves_at=2),
    Case(name="not late", attempts=(Does(200),)),
)


class Stage:
    """The upstream of one case."""

    def __init__(self, number: int, case: Case, scale: int) -> None:
        self.case = case
        self._scale = scale
        self.number = number
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.service = Service(
            host=f"e{self.number:03}.oracle.test",
            addresses=[f"127.0.0.1:{port}"],
            outlier_detection={"consecutive5xxErrors": 1},
            overrides={"enforcing_consecutive_5xx": 0},
            retries=self.case.retries,
            retry_on=self.case.retry_on,
            per_try_timeout_ms=PER_TRY_TIMEOUT_MS * self._scale,
            hedged=True,
            timeout_ms=self.case.timeout_ms * self._scale,
        )

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()

    async def observe(self, subject: Subject) -> dict[str, Any]:
        """Send the case to a proxy and return what came back and what arrived."""
        self._events = 0
        self._arrived = 0
        self._changed = asyncio.Condition()
        self.bodies: list[bytes] = []
        client = Client(*subject.listen)
        method = b"POST" if self.case.body else b"GET"
        lines = (method + b" / HTTP/1.1", b"Host: " + self.service.host.encode(), b"")
        length = b"Content-Length: %d\r\n" % len(self.case.body) if self.case.body else b""
        await client.send(b"\r\n".join(lines) + length + b"\r\n" + self.case.body)
        if self.case.client_leaves_at < NEVER:
            await self._wait_events(self.case.client_leaves_at)
            await client.close()
            return {"arrived": self._arrived}
        try:
            response = await client.receive(wait_s=60.0 * self._scale)
        except NoResponseError as error:
            return {"no response": str(error)}
        await client.close()
        return {
            "status": response.status,
            "body": response.body,
            "arrived": self._arrived,
            "whole bodies": [body == self.case.body for body in self.bodies],
        }

    async def _wait_events(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._events >= count)

    async def _happened(self) -> None:
        async with self._changed:
            self._events += 1
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        data = b""
        try:
            while more := await reader.read(65_536):
                data += more
                taken = take_head(data)
                body = take_body(*taken) if taken is not None else None
                if body is None:
                    continue
                self.bodies.append(body[0])
                data = body[2]
                does = self.case.attempts[min(self._arrived, len(self.case.attempts) - 1)]
                self._arrived += 1
                await self._happened()
                if does.after_events >= NEVER:
                    continue
                await self._answer(does, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, does: Does, writer: asyncio.StreamWriter) -> None:
        if does.after_events == NEVER - 1:
            await asyncio.sleep(PER_TRY_TIMEOUT_MS * self._scale / 1000)
        elif does.after_events:
            await self._wait_events(does.after_events)
        if does.after_events:
            await asyncio.sleep(PAUSE_S * self._scale)
        if does.status == RESET:
            writer.transport.abort()
        else:
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n%02d" % (does.status, self._arrived))
        await self._happened()


async def _counted(subject: Subject, stage: Stage) -> dict[str, Any]:
    stats = await subject.stats(stage.service.cluster_name, used_only=False)
    return {name: stats.get(name, 0) for name in COMPARED_STATS}


async def _hosts(subject: Subject) -> dict[str, dict[str, str]]:
    """Return the request counters of the one host of each cluster."""
    hosts: dict[str, dict[str, str]] = {}
    for line in (await subject.get("/clusters")).splitlines():
        cluster, _, rest = line.partition("::127.0.0.1:")
        _, _, field = rest.partition("::")
        name, _, value = field.partition("::")
        if name in {"rq_error", "rq_success", "rq_timeout", "rq_total", "rq_active"}:
            hosts.setdefault(cluster, {})[name] = value
    return hosts


async def _logged(subject: Subject, count: int) -> dict[str, Mapping[str, Any]]:
    """Return the line of each request, by the authority asked for."""
    path = subject.directory / "access.jsonl"
    lines: list[str] = []
    async with asyncio.timeout(LOG_DEADLINE_S):
        while len(lines) < count:
            await asyncio.sleep(0.1)
            if path.exists():
                lines = path.read_text().splitlines()
    return {line["authority"]: line for line in map(json.loads, lines)}


async def _observe(stages: Sequence[Stage], subject_class: type[Envoy] | type[Sidecar]) -> list[dict[str, Any]]:
    async with subject_class([stage.service for stage in stages], access_log=True) as subject:
        observed = await asyncio.gather(*(stage.observe(subject) for stage in stages))
        log = await _logged(subject, len(stages))
        hosts = await _hosts(subject)
        for stage, found in zip(stages, observed, strict=True):
            found["log"] = {name: log[stage.service.host][name] for name in COMPARED_LOG}
            found["stats"] = await _counted(subject, stage)
            found["host"] = hosts[stage.service.cluster_name]
        return observed


Pair = tuple[dict[str, Any], dict[str, Any]]


async def _observe_all(cases: Sequence[Case], scale: int) -> list[Pair]:
    stages = [Stage(number, case, scale) for number, case in enumerate(cases)]
    for stage in stages:
        await stage.open()
    try:
        envoy = await _observe(stages, Envoy)
        sidecar = await _observe(stages, Sidecar)
    finally:
        for stage in stages:
            stage.close()
    return list(zip(envoy, sidecar, strict=True))


@pytest.fixture(scope="module")
def compared(_envoy: None) -> dict[str, Pair]:
    """Return what became of every case in Envoy and in the sidecar."""
    pairs = patiently(CASES, lambda cases, scale: asyncio.run(_observe_all(cases, scale)), equal)
    return {case.name: pair for case, pair in zip(CASES, pairs, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_attempts_end_as_in_envoy(case: Case, compared: dict[str, Pair]) -> None:
    envoy, sidecar = compared[case.name]

    assert sidecar == envoy
