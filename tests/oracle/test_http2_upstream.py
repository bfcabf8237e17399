"""The same HTTP/2 host behind Envoy and behind the sidecar: clients, logs, counters and detectors see the same."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from tests.oracle.client import Client, NoResponseError
from tests.oracle.envoy import Envoy
from tests.oracle.http2_cases import CASES, Http2Case
from tests.oracle.patience import equal, patiently
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject
from tests.proxy.upstream.http2_upstream import Http2Request, Http2Upstream

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

# Cases side by side; more of them would keep each other waiting.
AT_ONCE = 6
# Requests of one case go out in an order that both proxies see, and pass from one state of the host to the next. At the
# longest times, too, all are under way before a host that answers slowly does.
GAP_S = 0.03
# Resets by us reach the host, and idle connections their end, a moment after the client has its answer.
SETTLED_S = 0.3
LOG_DEADLINE_S = 30.0
LOGGED = ("response_code", "response_flags", "response_code_details", "attempt")
COUNTED = (
    *("upstream_cx_total", "upstream_cx_http1_total", "upstream_cx_http2_total", "upstream_cx_active"),
    *("upstream_cx_close_notify", "upstream_cx_connect_fail", "upstream_cx_protocol_error"),
    *("upstream_cx_destroy", "upstream_cx_destroy_local", "upstream_cx_destroy_remote"),
    *("upstream_cx_destroy_with_active_rq", "upstream_cx_destroy_local_with_active_rq"),
    *("upstream_cx_destroy_remote_with_active_rq", "upstream_rq_total", "upstream_rq_active"),
    *("upstream_rq_pending_failure_eject", "upstream_rq_rx_reset", "upstream_rq_tx_reset", "upstream_rq_timeout"),
    *("upstream_rq_retry", "upstream_rq_retry_success", "upstream_rq_retry_limit_exceeded"),
    *("upstream_rq_2xx", "upstream_rq_3xx", "upstream_rq_4xx", "upstream_rq_5xx", "upstream_rq_completed"),
    *("upstream_cx_max_requests", "upstream_rq_active_overflow", "upstream_rq_pending_overflow"),
    *("http2.rx_reset", "http2.tx_reset", "http2.rx_messaging_error", "http2.keepalive_timeout"),
)
DETECTED = (
    *("outlier_detection.ejections_detected_consecutive_5xx", "outlier_detection.ejections_enforced_total"),
    *("outlier_detection.ejections_detected_consecutive_gateway_failure",),
    *("outlier_detection.ejections_detected_consecutive_local_origin_failure",),
)
# Header lines that no two runs share.
VARIABLE = (b"date", b"x-envoy-upstream-service-time", b"server")
OF_THE_RUN = ("x-request-id", "x-envoy-expected-rq-timeout-ms")


@attrs.frozen(kw_only=True)
class Observed:
    """What one proxy made of a case."""

    answers: tuple[Any, ...]
    stats: Mapping[str, int]
    upstream: tuple[Any, ...]
    log: tuple[Any, ...] = ()


Pair = tuple[Observed, Observed]


class Stage:
    """A case's host and its service; `split` tells apart what the host has answered and what went wrong before.

    The threshold of each count is the number of requests, so that one charge too few or too many shows.
    """

    def __init__(self, number: int, case: Http2Case, scale: int, *, split: bool) -> None:
        self.case = case
        self._scale = scale
        self.upstream = Http2Upstream(case.answer, **{k: v for k, v in case.upstream.items() if k != "closed"})
        self._number = number
        self._split = split

    async def open(self) -> None:
        """Take a port."""
        await self.upstream.__aenter__()
        if self.case.upstream.get("closed"):
            await self.upstream.__aexit__()
        count = (self.case.first + self.case.together) * (1 + self.case.service.get("retries", 0))
        rule = {
            "consecutive5xxErrors": count,
            "consecutiveGatewayErrors": count,
            "interval": "3600s",
            "baseEjectionTime": "3600s",
            "maxEjectionPercent": 100,
        }
        if self._split:
            rule |= {"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": count}
        fields = {"timeout_ms": 5_000, **self.case.service}
        fields["timeout_ms"] *= self._scale
        if self.case.keepalive_ms is not None:
            interval, timeout = (f"{time_ms * self._scale}ms" for time_ms in self.case.keepalive_ms)
            fields["connection_pool"] = {"http": {"http2KeepAlive": {"interval": interval, "timeout": timeout}}}
        self.service = Service(
            host=f"h{self._number:03}.oracle.test",
            addresses=[self.upstream.address],
            outlier_detection=rule,
            http2=True,
            **fields,
        )

    async def observe(self, subject: Subject) -> Observed:
        """Send the case's requests through a proxy."""
        before = len(self.upstream.connections)
        answers = [await self._ask(subject) for _ in range(self.case.first)]
        waiting = []
        for _ in range(self.case.together):
            waiting.append(asyncio.create_task(self._ask(subject)))
            await asyncio.sleep(GAP_S * min(self._scale, 4))
        answers += await asyncio.gather(*waiting)
        await asyncio.sleep(SETTLED_S * self._scale)
        stats = await subject.stats(self.service.cluster_name, used_only=False)
        compared = [name for name in (*COUNTED, *DETECTED) if name not in self.case.differs]
        requests = [r for connection in self.upstream.connections[before:] for r in connection.requests.values()]
        if "upstream_cx_total" in self.case.differs:
            requests = []
        return Observed(
            answers=tuple(answers),
            stats={name: stats.get(name, 0) for name in compared},
            upstream=tuple(_request_text(request) for request in requests),
        )

    async def _ask(self, subject: Subject) -> Any:
        case = self.case
        client = Client(*subject.listen)
        head = "\r\n".join((f"{case.method} /x HTTP/1.1", f"Host: {self.service.host}", *case.lines, "", ""))
        await client.send(head.encode() + case.body)
        try:
            response = await client.receive(method=case.method)
        except NoResponseError as error:
            return str(error)
        finally:
            await client.close()
        headers = [pair for pair in response.head.headers if pair[0] not in VARIABLE]
        interim = [head.start_line for head in response.interim]
        return response.status, headers, response.body, response.complete, interim

    def logged(self, lines: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        """Return what an access log says of the case's requests."""
        mine = [line for line in lines if line["authority"] == self.service.host]
        return tuple(sorted(tuple(str(line[name]) for name in LOGGED) for line in mine))


async def _access_log(subject: Subject, count: int) -> list[Mapping[str, Any]]:
    """Return the lines of the access log once there are `count`; Envoy writes them every ten seconds."""
    path = subject.directory / "access.jsonl"
    async with asyncio.timeout(LOG_DEADLINE_S):
        while path.read_bytes().count(b"\n") < count:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.1)
    return [json.loads(line) for line in path.read_text().splitlines()]


def _request_text(request: Http2Request) -> Any:
    headers = {name: value for name, value in request.headers.items() if name not in OF_THE_RUN}
    reset = None if request.complete else request.reset_code
    return headers, request.body, request.trailers, request.complete, reset


async def _observe_all(stages: Sequence[Stage]) -> list[Pair]:
    for stage in stages:
        await stage.open()
    observed = []
    try:
        for subject_class in (Envoy, Sidecar):
            async with subject_class([stage.service for stage in stages], access_log=True) as subject:
                seen: list[Observed] = []
                for start in range(0, len(stages), AT_ONCE):
                    group = stages[start : start + AT_ONCE]
                    seen += await asyncio.gather(*(stage.observe(subject) for stage in group))
                lines = await _access_log(subject, sum(len(one.answers) for one in seen))
                observed.append(
                    [attrs.evolve(one, log=stage.logged(lines)) for stage, one in zip(stages, seen, strict=True)]
                )
    finally:
        for stage in stages:
            await stage.upstream.__aexit__()
    return list(zip(*observed, strict=True))


@pytest.fixture(scope="module", params=[False, True], ids=["merged", "split"])
def compared(request: pytest.FixtureRequest, _envoy: None) -> Mapping[str, Pair]:
    """Return what Envoy and the sidecar made of every case, by its name."""

    def observe(cases: Sequence[Http2Case], scale: int) -> list[Pair]:
        stages = [Stage(number, case, scale, split=request.param) for number, case in enumerate(cases)]
        return asyncio.run(_observe_all(stages))

    return dict(zip([case.name for case in CASES], patiently(CASES, observe, equal), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hosts_of_http2(case: Http2Case, compared: Mapping[str, Pair]) -> None:
    envoy, sidecar = compared[case.name]

    assert attrs.asdict(sidecar) == attrs.asdict(envoy)
