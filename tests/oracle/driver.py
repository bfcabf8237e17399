"""Runs scenarios against one proxy and writes down what a person at the other end would see."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence

import attrs

from tests.oracle.client import Client, NoResponseError, Response
from tests.oracle.scenario import (
    ABORT,
    OK,
    REFUSE,
    AwaitSweep,
    AwaitUnejection,
    Load,
    Play,
    Probe,
    Rest,
    Scenario,
    Step,
    answer_for,
)
from tests.oracle.service import AIM_HEADER, Service
from tests.oracle.subject import Event, HostView, Subject
from tests.oracle.upstream import Answer, Request, Upstream

# Envoy ejects on its main thread: a request that follows a failure at once would still meet the ejected host.
SETTLE_S = 0.02
POLL_S = 0.005
CONCURRENT_SCENARIOS = 16
UNEJECTION_DEADLINE_S = 60.0
RATES_POLL_S = 0.2  # rates stay for a whole interval
COMPARED_STATS = (
    "lb_healthy_panic",
    "membership_degraded",
    "membership_excluded",
    "membership_healthy",
    "membership_total",
    "upstream_cx_connect_fail",
    "upstream_cx_none_healthy",
    "upstream_rq_timeout",
)


@attrs.frozen
class Entry:
    """The trace of one step: what the host in question answered, who else answered what, the counters after it."""

    step: str
    answers: tuple[str, ...]
    others: tuple[str, ...]
    stats: Mapping[str, int]
    rates: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Transcript:
    """Everything that is compared of one scenario; hosts are numbers, so that addresses do not matter."""

    entries: tuple[Entry, ...]
    events: tuple[tuple[int, Event], ...]
    hosts: tuple[HostView | None, ...]
    stat_names: frozenset[str]


class Stage:
    """The upstream hosts of one scenario; the same addresses serve one proxy after the other."""

    def __init__(self, number: int, scenario: Scenario) -> None:
        self.scenario = scenario
        self.behaviours = [OK] * scenario.hosts
        self.seen: dict[str, int] = {}
        self.reached = asyncio.Event()
        self.upstreams = [Upstream(self._answerer(index)) for index in range(scenario.hosts)]
        self.service = Service(
            host=f"s{number:03}.oracle.test",
            addresses=[upstream.address for upstream in self.upstreams],
            outlier_detection=scenario.outlier_detection,
            overrides=scenario.overrides,
            balancer=scenario.balancer,
            timeout_ms=scenario.timeout_ms,
        )

    def _answerer(self, index: int) -> Callable[[Request], Answer]:
        def answer(request: Request) -> Answer:
            self.seen.setdefault(request.path, index)
            behaviour = self.behaviours[index]
            if behaviour == ABORT:
                self.reached.set()
            return answer_for(behaviour)

        return answer

    async def reset(self) -> None:
        """Make every host well again and forget what was seen."""
        self.behaviours = [OK] * self.scenario.hosts
        self.seen.clear()
        for upstream in self.upstreams:
            await upstream.accept()

    async def set_behaviour(self, host: int, behaviour: str, settle_s: float) -> None:
        """Change how a host answers from now on; opening or closing its port is given `settle_s` to be noticed."""
        previous = self.behaviours[host]
        self.behaviours[host] = behaviour
        if (previous == REFUSE) == (behaviour == REFUSE):
            return
        if behaviour == REFUSE:
            self.upstreams[host].refuse()
        else:
            await self.upstreams[host].accept()
        await asyncio.sleep(settle_s)

    def close(self) -> None:
        """Free the ports."""
        for upstream in self.upstreams:
            upstream.close()


async def run(
    stages: Sequence[Stage], subject: Subject, *, settle_s: float = SETTLE_S, concurrent: int = CONCURRENT_SCENARIOS
) -> list[Transcript]:
    """Run all scenarios against one proxy, several at a time, in any order; return their transcripts in order."""
    for stage in stages:
        await stage.reset()
    limit = asyncio.Semaphore(concurrent)

    async def one(stage: Stage) -> tuple[Entry, ...]:
        async with limit:
            return await _Driver(stage, subject, settle_s).run()

    entries = await asyncio.gather(*(one(stage) for stage in stages))
    await asyncio.sleep(settle_s * 5)
    views = await subject.hosts()
    transcripts = []
    for stage, trace in zip(stages, entries, strict=True):
        cluster_name = stage.service.cluster_name
        numbers = {address: index for index, address in enumerate(stage.service.addresses)}
        names = await subject.stats(cluster_name, used_only=False)
        transcripts.append(
            Transcript(
                entries=trace,
                events=tuple((numbers[event.address], event) for event in subject.events(cluster_name)),
                hosts=tuple(views.get(cluster_name, {}).get(address) for address in stage.service.addresses),
                stat_names=frozenset(name for name in names if name.startswith("outlier_detection.")),
            )
        )
    return transcripts


class _Driver:
    def __init__(self, stage: Stage, subject: Subject, settle_s: float) -> None:
        self._stage = stage
        self._subject = subject
        self._settle_s = settle_s
        self._scenario = stage.scenario
        self._client = Client(*subject.listen)
        self._tokens = itertools.count()
        self._keys: list[str] = []
        # No host for this many requests in a row: round robin passes each chosen host within one round.
        self._patience = 1 if self._aiming else 2 * self._scenario.hosts + 1

    @property
    def _aiming(self) -> bool:
        return self._scenario.balancer == "RING_HASH"

    async def run(self) -> tuple[Entry, ...]:
        if self._aiming:
            await self._find_keys()
        entries = [await self._entry(step) for step in self._scenario.steps]
        await self._client.close()
        return tuple(entries)

    async def _entry(self, step: Step) -> Entry:
        answers: list[str] = []
        others: set[str] = set()
        match step:
            case Play():
                await self._play(step, answers, others)
            case Probe():
                others |= await self._round()
            case Load():
                answers.extend(await self._load(step))
            case AwaitUnejection():
                await self._await_unejection(answers)
            case Rest(sweeps):
                await asyncio.sleep((sweeps + 0.5) * self._scenario.interval_ms / 1000)
        rates = await self._await_sweep() if isinstance(step, AwaitSweep) else ()
        await asyncio.sleep(self._settle_s)
        return Entry(str(step), tuple(answers), tuple(sorted(others)), await self._stats(), rates)

    async def _play(self, step: Play, answers: list[str], others: set[str]) -> None:
        if not self._aiming:
            others |= await self._round()
        remaining = list(step.behaviours)
        elsewhere: list[str] = []
        while remaining and len(elsewhere) < self._patience:
            await self._stage.set_behaviour(step.host, remaining[0], self._settle_s)
            host, answer = await self._request(step.host)
            if host == step.host:
                answers.append(answer)
                remaining.pop(0)
                elsewhere.clear()  # who served in between depends on where round robin started
            else:
                elsewhere.append(f"{_name(host)}: {answer}")
            if not answer.startswith(OK) or "incomplete" in answer:
                await asyncio.sleep(self._settle_s)
        others.update(elsewhere if remaining else ())
        await self._stage.set_behaviour(step.host, OK, self._settle_s)

    async def _round(self) -> set[str]:
        """Let every host that can be chosen answer 200; return who answered what."""
        targets = range(self._scenario.hosts) if self._aiming else [0] * self._patience
        seen = set()
        for target in targets:
            host, answer = await self._request(target)
            aimed = f"key {target} -> " if self._aiming else ""
            seen.add(f"{aimed}{_name(host)}: {answer}")
        return seen

    async def _load(self, step: Load) -> list[str]:
        sent = [0] * self._scenario.hosts
        failed = [0] * self._scenario.hosts
        for number in range(step.requests * self._scenario.hosts):
            for index in range(self._scenario.hosts):
                self._stage.behaviours[index] = step.behaviour if failed[index] < step.failing[index] else OK
            host, _ = await self._request(number % self._scenario.hosts)
            if host is not None:
                sent[host] += 1
                failed[host] += self._stage.behaviours[host] != OK
        self._stage.behaviours[:] = [OK] * self._scenario.hosts
        return [f"host {index}: {sent[index]} sent, {failed[index]} failed" for index in range(self._scenario.hosts)]

    async def _request(self, target: int) -> tuple[int | None, str]:
        """Send one request; return the host that it reached, None for nobody, and the answer."""
        token = f"/{next(self._tokens)}"
        key = f"{AIM_HEADER}: {self._keys[target]}\r\n" if self._keys else ""
        data = f"GET {token} HTTP/1.1\r\nhost: {self._stage.service.host}\r\n{key}\r\n".encode()
        refusing = self._stage.behaviours[target] == REFUSE
        if self._stage.behaviours[target] == ABORT:
            answer = await self._abort(data)
        else:
            try:
                answer = _describe(await self._client.exchange(data))
            except NoResponseError as error:
                answer = f"no response ({error})"
        host = self._stage.seen.get(token)
        if host is None and refusing and "no healthy upstream" not in answer:
            host = target
        return host, answer

    async def _abort(self, data: bytes) -> str:
        """Send a request and leave once the silent host has it; another host answers as usual."""
        self._stage.reached.clear()
        reached = asyncio.ensure_future(self._stage.reached.wait())
        response = asyncio.ensure_future(self._client.exchange(data))
        await asyncio.wait((reached, response), return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        if response.done():
            return _describe(response.result())
        response.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await response
        await self._client.close()
        return "client left"

    async def _find_keys(self) -> None:
        """Find a request key for each host; both proxies must agree on where each leads."""
        found: dict[int, str] = {}
        for number in range(100 * self._scenario.hosts):
            self._keys = [f"key-{number}"] * self._scenario.hosts
            host, _ = await self._request(0)
            if host is not None:
                found.setdefault(host, self._keys[0])
            if len(found) == self._scenario.hosts:
                break
        self._keys = [found.get(index, "no key found") for index in range(self._scenario.hosts)]

    async def _await_unejection(self, answers: list[str]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNEJECTION_DEADLINE_S):
                while ejected := self._ejected():  # noqa: ASYNC110 (another process decides)
                    await asyncio.sleep(POLL_S)
        answers.extend(f"{address} still ejected" for address in sorted(ejected))

    def _ejected(self) -> set[str]:
        ejected: dict[str, int] = {}
        for event in self._subject.events(self._stage.service.cluster_name):
            if event.line["type"] == "DEGRADED":
                continue
            if event.line["action"] == "UNEJECT":
                ejected[event.address] = ejected.get(event.address, 0) - 1
            elif event.line["enforced"]:
                ejected[event.address] = ejected.get(event.address, 0) + 1
        return {address for address, count in ejected.items() if count > 0}

    async def _await_sweep(self) -> tuple[str, ...]:
        addresses = self._stage.service.addresses
        name = self._stage.service.cluster_name
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * self._scenario.interval_ms / 1000):
                while True:
                    views = (await self._subject.hosts()).get(name, {})
                    rates = tuple(_rates(views.get(address)) for address in addresses)
                    if any(rate != "None None" for rate in rates):
                        break
                    await asyncio.sleep(RATES_POLL_S)
        return rates

    async def _stats(self) -> dict[str, int]:
        stats = await self._subject.stats(self._stage.service.cluster_name)
        compared = {
            name: value
            for name, value in sorted(stats.items())
            if value and (name.startswith("outlier_detection.") or name in COMPARED_STATS)
        }
        if not self._aiming and "lb_healthy_panic" in compared:
            compared["lb_healthy_panic"] = 1  # how many requests a round takes depends on where it starts
        return compared


def _rates(view: HostView | None) -> str:
    return "unknown" if view is None else f"{view.success_rate} {view.local_origin_success_rate}"


def _name(host: int | None) -> str:
    return "nobody" if host is None else f"host {host}"


def _describe(response: Response) -> str:
    # Interim answers are the HTTP comparison's matter: the sidecar passes them on, Envoy's default listener does not.
    text = f"{response.status} {response.body.decode('latin-1')}"
    return text + ("" if response.complete else " (incomplete)")
