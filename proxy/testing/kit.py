"""What one test has started through the plugin's fixtures: starts it where the test runs, and ends it with the test."""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from outlier import Detector, OutlierDetection, SeededRandom
from proxy.event_stream import EventStream
from proxy.testing.ejection_report import timeline_text
from proxy.testing.faulty_upstream import FaultyUpstream
from proxy.testing.sidecar import Sidecar
from proxy.testing.simulated_clock import SimulatedClock

Thing = TypeVar("Thing", Sidecar, FaultyUpstream)


class Starting(Generic[Thing]):
    """Something that a coroutine starts with `await`, to be closed after the test, or with `async with`."""

    def __init__(self, thing: Thing, started: Callable[[Sidecar | FaultyUpstream], None]) -> None:
        self._thing: Thing = thing
        self._started = started

    def __await__(self) -> Generator[Any, None, Thing]:
        return self._start().__await__()

    async def __aenter__(self) -> Thing:
        await self._thing.start()
        return self._thing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._thing.__aexit__(exc_type, exc, traceback)

    async def _start(self) -> Thing:
        self._started(self._thing)
        await self._thing.start()
        return self._thing


class Kit:
    """The fixtures of one test."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._threads = contextlib.ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: list[Sidecar | FaultyUpstream] = []
        self._sidecars: list[Sidecar] = []
        self._detected = EventStream(clock)

    def sidecar(self, **options: Any) -> Any:
        """Return a started sidecar of the thread, or in a coroutine one to be awaited."""
        if not options.get("real_time"):
            options.setdefault("clock", self._clock)
        sidecar = Sidecar(**options)
        self._sidecars.append(sidecar)
        return self._start(sidecar)

    def faulty_upstream(self, **fields: Any) -> Any:
        """Return a started upstream of the thread, or in a coroutine one to be awaited."""
        return self._start(FaultyUpstream(**fields))

    def detector(
        self,
        settings: OutlierDetection | Mapping[str, Any] | None = None,
        *,
        hosts: Iterable[str] = (),
        cluster_name: str = "test",
        seed: int = 1,
        **fields: Any,
    ) -> Detector:
        """Return a detector on the test's clock.

        Args:
            settings: Envoy's settings, or its proto's fields by name; None makes them of `fields`.
            hosts: Addresses of its first hosts.
            cluster_name: For events.
            seed: Of its chance.
            fields: Arguments of `OutlierDetection`.

        Raises:
            ConfigError: A setting is refused.
        """
        if isinstance(settings, Mapping):
            settings = OutlierDetection.from_fields(settings)
        detector = Detector(
            settings or OutlierDetection(**fields),
            cluster_name=cluster_name,
            time_source=self._clock,
            random=SeededRandom(seed),
            on_event=self._detected.publish_ejection,
        )
        for host in hosts:
            detector.add_host(host)
        self._clock.drive(detector)
        return detector

    def annotate(self, exc: BaseException) -> None:
        """Note on an exception what the test's detectors did."""
        notes = [sidecar.timeline() for sidecar in self._sidecars]
        detected = self._detected.since(0)
        if detected:
            notes.append(timeline_text(detected, self._clock.epoch_ms))
        for note in notes:
            if note not in getattr(exc, "__notes__", ()):
                exc.add_note(note)

    async def close(self) -> None:
        """Close what the test's coroutine started, the newest first."""
        while self._started:
            await self._started.pop().close()

    def finish(self) -> None:
        """Close everything else: threads, and what a fixture started in a loop that a synchronous test has not run."""
        self._threads.close()
        if self._started and self._loop is not None and not self._loop.is_closed():
            self._loop.run_until_complete(self.close())

    def _start(self, thing: Thing) -> Any:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._threads.enter_context(thing)
        return Starting(thing, self._started.append)
