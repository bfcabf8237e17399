"""A cluster without listeners: its clocks are the test's, its sockets are not opened."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import attrs

from outlier import EjectionEvent, EnvoyRelease, ListedRandom, RandomGenerator, Runtime, SimulatedTime
from proxy.cluster.cluster import Cluster
from proxy.cluster.environment import Environment
from proxy.cluster.time_source import LoopTime
from proxy.config.cluster_config import ClusterConfig, Endpoint
from proxy.deadlines import Deadlines
from proxy.upstream.dns_resolver import DnsAnswer, DnsRecord
from proxy.upstream.host import Host

NAME = "outbound|80||a.default.svc.cluster.local"


class ManualLoop:
    """What a cluster needs of an event loop; time passes only by `advance`, and callbacks run by `run_soon`."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000.0
        self.soon: list[Callable[[], None]] = []
        self.timers: list[ManualTimer] = []

    def time(self) -> float:
        return self.now_ms / 1000

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "ManualTimer":
        return self.call_at(self.now_ms / 1000 + delay_s, callback)

    def call_at(self, when_s: float, callback: Callable[[], None]) -> "ManualTimer":
        timer = ManualTimer(self, when_s * 1000, callback)
        self.timers.append(timer)
        return timer

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> "ManualTimer":
        """Open no connection; what stands for the task can be cancelled like one."""
        coroutine.close()
        return ManualTimer(self, 0, lambda: None)

    def run_soon(self) -> None:
        """Run what was asked for by `call_soon`, and what that asks for."""
        while self.soon:
            self.soon.pop(0)()

    def advance(self, ms: float) -> None:
        """Let time pass, and fire what falls due in order."""
        end_ms = self.now_ms + ms
        # A microsecond of grace: the deadlines went through seconds in floating point.
        while due := [timer for timer in self.timers if timer.when_ms <= end_ms + 0.001]:
            timer = min(due, key=lambda each: each.when_ms)
            self.timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.when_ms)
            timer.callback()
        self.now_ms = end_ms


class ManualTimer:
    """A timer handle of `ManualLoop`."""

    def __init__(self, loop: ManualLoop, when_ms: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self.when_ms = when_ms
        self.callback = callback

    def cancel(self) -> None:
        if self in self._loop.timers:
            self._loop.timers.remove(self)


class ManualResolver:
    """Answers when the test does; `asked` has the names in the order of the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._questions: list[tuple[str, Callable[[DnsAnswer], None]]] = []

    @property
    def open(self) -> list[str]:
        """The names that wait for an answer."""
        return [name for name, _ in self._questions]

    def resolve(self, name: str, on_answer: Callable[[DnsAnswer], None]) -> Callable[[], None]:
        question = (name, on_answer)
        self.asked.append(name)
        self._questions.append(question)
        return lambda: self._questions.remove(question) if question in self._questions else None

    async def close(self) -> None:
        self._questions.clear()

    def answer(self, name: str, *addresses: str, ttl_s: int = 0) -> None:
        """Answer the oldest question for a name; without addresses there are none."""
        self.answer_records(name, *((address, ttl_s) for address in addresses))

    def answer_records(self, name: str, *records: tuple[str, int]) -> None:
        """Answer with addresses and their times to live in seconds."""
        self._answer(name, DnsAnswer(records=tuple(DnsRecord(*record) for record in records)))

    def fail(self, name: str) -> None:
        """Fail to answer the oldest question for a name."""
        self._answer(name, DnsAnswer(failure="no DNS server answers"))

    def _answer(self, name: str, answer: DnsAnswer) -> None:
        question = next(question for question in self._questions if question[0] == name)
        self._questions.remove(question)
        question[1](answer)


def config(*addresses: str, **fields: Any) -> ClusterConfig:
    """Return a cluster over these addresses."""
    endpoints = fields.pop("endpoints", tuple(Endpoint(address=address) for address in addresses))
    return ClusterConfig(name=NAME, service_host="a.default.svc.cluster.local", port=80, endpoints=endpoints, **fields)


def live_cluster(cluster_config: ClusterConfig, **fields: Any) -> Cluster:
    """Return a cluster on the running loop, which opens its connections."""
    return Cluster(cluster_config, live_environment(**fields))


def live_environment(**fields: Any) -> Environment:
    """Return what clusters on the running loop need."""
    loop = asyncio.get_running_loop()
    return Environment(
        loop=loop,
        deadlines=Deadlines(loop),
        time_source=LoopTime(loop),
        random=ListedRandom(),
        release=EnvoyRelease.V1_40,
        runtime=Runtime(),
        resolver=ManualResolver(),
        on_event=lambda _event: None,
        **fields,
    )


class ClusterUnderTest:
    """A cluster, its loop, and the events it told."""

    def __init__(self, cluster_config: ClusterConfig, random: RandomGenerator | None = None, **fields: Any) -> None:
        self.loop = ManualLoop()
        self.time = SimulatedTime()
        self.events: list[EjectionEvent] = []
        self.resolver = ManualResolver()
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        environment = Environment(
            loop=loop,
            deadlines=Deadlines(loop),
            time_source=self.time,
            random=random or ListedRandom(),
            release=EnvoyRelease.V1_40,
            runtime=Runtime(),
            resolver=self.resolver,
            on_event=self.events.append,
            **fields,
        )
        self.cluster = Cluster(cluster_config, environment)

    @property
    def hosts(self) -> tuple[Host, ...]:
        return self.cluster.hosts

    def update(self, **changes: Any) -> None:
        """Give the cluster its configuration with these changes."""
        self.cluster.update(attrs.evolve(self.cluster.config, **changes))

    def eject(self, host: Host) -> None:
        """Let a host fail until the detector puts it out."""
        assert self.cluster.detector is not None
        for _ in range(self.cluster.detector.settings.value("consecutive_5xx")):
            host.monitor.put_http_response_code(500)
