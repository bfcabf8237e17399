"""A cluster under test: a detector with a clock that the test moves."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings

from outlier import (
    Action,
    Behaviour,
    Detection,
    Detector,
    EjectionEvent,
    EnvoyRelease,
    HostMonitor,
    ListedRandom,
    OutlierDetection,
    RandomGenerator,
    Runtime,
    SimulatedTime,
)

# For runs that ask only whether something fails, not for the smallest example: `--hypothesis-profile=no-shrink`.
settings.register_profile("no-shrink", phases=[Phase.explicit, Phase.generate])


class Cluster:
    """A detector, its hosts by address, and everything it told."""

    def __init__(
        self,
        *,
        hosts: int = 0,
        release: EnvoyRelease | Behaviour = EnvoyRelease.V1_40,
        random: RandomGenerator | None = None,
        active_health_checker: bool = False,
        **config: Any,
    ) -> None:
        self.time = SimulatedTime()
        self.runtime = Runtime()
        self.events: list[EjectionEvent] = []
        self.changes: list[str] = []
        self.detections: list[Detection] = []
        self.detector = Detector(
            OutlierDetection(**{"max_ejection_percent": 100, **config}),
            cluster_name="c",
            time_source=self.time,
            random=random or ListedRandom(),
            release=release,
            runtime=self.runtime,
            active_health_checker=active_health_checker,
            on_event=self.events.append,
            on_detection=lambda _monitor, detection: self.detections.append(detection),
            on_change=lambda monitor: self.changes.append(monitor.address),
        )
        self.hosts = [self.detector.add_host(f"10.0.0.{i}:80") for i in range(hosts)]

    @property
    def stats(self) -> Any:
        return self.detector.stats

    def load_requests(self, host: HostMonitor, count: int, code: int) -> None:
        for _ in range(count):
            host.put_http_response_code(code)

    def eject(self, host: HostMonitor) -> None:
        """Make the host fail until its 5xx run is complete."""
        self.load_requests(host, self.detector.settings.value("consecutive_5xx"), 500)

    def sweep(self, at_ms: int) -> None:
        self.time.set_ms(at_ms)
        self.detector.on_interval_timer()

    def override(self, **values: int) -> None:
        self.runtime.modify({f"outlier_detection.{name}": value for name, value in values.items()})

    def ejected(self) -> list[str]:
        return [host.address for host in self.detector.hosts if host.ejected]

    def told(self) -> list[str]:
        """The events so far as `EJECT address TYPE`, with a question mark where not enforced."""
        return [
            f"{event.action.value} {event.upstream_url}"
            + (f" {event.type.value}" if event.action is Action.EJECT else "")
            + ("?" if event.action is Action.EJECT and not event.enforced else "")
            for event in self.events
        ]


@pytest.fixture
def make_cluster() -> Callable[..., Cluster]:
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Ten hosts, all of which may be ejected."""
    return Cluster(hosts=10)
