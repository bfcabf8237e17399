"""The same bytes to Envoy and to the sidecar: what reaches the upstream and what comes back is equal."""

import asyncio
import re
from collections.abc import Sequence

import attrs
import pytest

from tests.oracle.client import Client, NoResponseError, Response
from tests.oracle.envoy import Envoy
from tests.oracle.http_cases import ANSWERS, GRPC, REFUSALS, REQUESTS, HttpCase
from tests.oracle.patience import patiently
from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.oracle.subject import Subject
from tests.oracle.upstream import Answer, Request, Upstream
from tests.oracle.wire import Head

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("_envoy")]

CASES = (*REQUESTS, *REFUSALS, *ANSWERS, *GRPC)
ROUTE_TIMEOUT_MS = 2_000
# Envoy closes a refused connection, and one whose response has timed out, only after a second more.
CLOSE_DEADLINE_S = 5.0
STAYS_OPEN_S = 0.1
_VARIABLE = (
    (re.compile(r"^(date: )\w{3}, \d\d \w{3} 20(?!24)\d\d \d\d:\d\d:\d\d GMT$"), r"\1<date>"),
    (re.compile(r"^(x-envoy-upstream-service-time: )\d+$"), r"\1<ms>"),
    (re.compile(r"^(x-request-id: )[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"), r"\1<uuid>"),
)


@attrs.frozen(kw_only=True)
class Observed:
    """What one proxy made of a case, as text."""

    upstream: tuple[str, ...]
    responses: tuple[str, ...]
    connection: str


class Stage:
    """The upstream of one case and what reached it."""

    def __init__(self, number: int, case: HttpCase, scale: int) -> None:
        self.case = case
        self._scale = scale
        self.requests: list[Request] = []
        self.upstream = Upstream(self._answer)
        self.service = Service(
            host=f"h{number:03}.oracle.test",
            addresses=[self.upstream.address],
            outlier_detection=None,
            timeout_ms=ROUTE_TIMEOUT_MS * scale,
        )

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.case.answer

    async def observe(self, subject: Subject) -> Observed:
        """Send the case to a proxy and describe both of its ends."""
        self.requests.clear()
        if not self.case.refuse:
            await self.upstream.accept()
        client = Client(*subject.listen)
        await client.send(self.case.request.replace(b"{host}", self.service.host.encode()))
        responses = []
        connection = "no response"
        try:
            for _ in range(self.case.responses):
                response = await client.receive(method=self.case.method, wait_s=CLOSE_DEADLINE_S * self._scale)
                responses.append(_response_text(response))
            connection = await self._fate(client, response)
        except NoResponseError as error:
            responses.append(f"no response: {error}")
        seen = tuple(_request_text(request) for request in self.requests)
        await client.close()
        return Observed(upstream=seen, responses=tuple(responses), connection=connection)

    async def _fate(self, client: Client, response: Response) -> str:
        if response.closed:
            return "closed"
        wait_s = STAYS_OPEN_S if _stays_open(response) else CLOSE_DEADLINE_S
        if response.status == 101 or not await client.wait_closed(wait_s * self._scale):
            return "open"
        return "closed"


def _stays_open(response: Response) -> bool:
    return response.head.get(b"connection") != b"close"


def _request_text(request: Request) -> str:
    return "\n".join((*_head_text(request.head), f"body {request.body!r}", f"trailers {request.trailers}"))


def _response_text(response: Response) -> str:
    interim = ["\n".join(_head_text(head)) for head in response.interim]
    end = f"body {response.body!r}", f"trailers {response.trailers}", f"complete {response.complete}"
    return "\n".join((*interim, *_head_text(response.head), *end))


def _head_text(head: Head) -> list[str]:
    lines = [f"{name.decode('latin-1')}: {value.decode('latin-1')}" for name, value in head.headers]
    for pattern, replacement in _VARIABLE:
        lines = [pattern.sub(replacement, line) for line in lines]
    return [head.start_line.decode("latin-1"), *lines]


Pair = tuple[Observed, Observed]


async def _observe_all(stages: Sequence[Stage]) -> list[Pair]:
    observed = []
    for subject_class in (Envoy, Sidecar):
        async with subject_class([stage.service for stage in stages]) as subject:
            observed.append(await asyncio.gather(*(stage.observe(subject) for stage in stages)))
    return list(zip(*observed, strict=True))


def _compare(cases: Sequence[HttpCase], scale: int) -> list[Pair]:
    stages = [Stage(number, case, scale) for number, case in enumerate(cases)]
    try:
        return asyncio.run(_observe_all(stages))
    finally:
        for stage in stages:
            stage.upstream.close()


def _as_it_should_be(case: HttpCase, pair: Pair) -> bool:
    envoy, sidecar = pair
    if not case.difference:
        return sidecar == envoy
    return sidecar != envoy and sidecar.responses[0].startswith(f"HTTP/1.1 {case.status} ")


@pytest.fixture(scope="module")
def compared(_envoy: None) -> dict[HttpCase, Pair]:
    """Return what Envoy and the sidecar made of every case."""
    return dict(zip(CASES, patiently(CASES, _compare, _as_it_should_be), strict=True))


@pytest.mark.parametrize("case", [case for case in CASES if not case.difference], ids=lambda case: case.name)
def test_bytes_are_those_of_envoy(case: HttpCase, compared: dict[HttpCase, Pair]) -> None:
    envoy, sidecar = compared[case]

    assert attrs.asdict(sidecar) == attrs.asdict(envoy)


@pytest.mark.parametrize("case", [case for case in CASES if case.difference], ids=lambda case: case.name)
def test_deliberate_differences(case: HttpCase, compared: dict[HttpCase, Pair]) -> None:
    envoy, sidecar = compared[case]

    assert sidecar != envoy
    assert sidecar.responses[0].startswith(f"HTTP/1.1 {case.status} ")
