"""Runs a scenario in virtual time and tells what happened, when, and why.

The detector is the real one; only the clock, the hosts and the balancer are simulated. The same scenario and seed
give the same result.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import attrs

from outlier import scenario as sc
from outlier.detection import Detection, Outcome
from outlier.detector import Detector
from outlier.ejection import EjectionType
from outlier.errors import ScenarioError
from outlier.events import EjectionEvent
from outlier.expectations import Unmet, check
from outlier.host_monitor import HostMonitor
from outlier.releases import Behaviour, EnvoyRelease
from outlier.runtime import PREFIX, Runtime
from outlier.sources import ListedRandom, SeededRandom, SimulatedTime
from outlier.traffic import Balancer, Traffic, put_request
from outlier.verdict import describe_detection, describe_unejection

_CLUSTER_NAME = "scenario"
_PROGRESS_STEPS = 100


class MomentKind(enum.Enum):
    """What happened at one moment of a simulation."""

    EJECTED = "ejected"
    UNEJECTED = "unejected"
    NOT_EJECTED = "not ejected"
    DEGRADED = "degraded"
    UNDEGRADED = "no longer degraded"
    ADDED = "added"
    REMOVED = "removed"
    PANIC = "panic"
    PANIC_OVER = "panic over"


@attrs.frozen
class Moment:
    """One line of the timeline; `host` is None where the whole cluster is meant, `reason` a clause."""

    at_ms: int
    kind: MomentKind
    host: str | None
    reason: str
    event: EjectionEvent | None = None


@attrs.frozen(kw_only=True)
class Simulation:
    """What came of a scenario under one release.

    Attributes:
        scenario: What was run.
        release: Whose rules applied.
        end_ms: Virtual time at the end.
        timeline: What happened, in order.
        requests: Requests sent, 0 for the exact form; `failed_requests` of them failed or found no host.
        stats: The detector's statistics by Envoy's name.
        unmet: Expectations that did not hold, in order; empty means success.
    """

    scenario: sc.Scenario
    release: EnvoyRelease | Behaviour
    end_ms: int
    timeline: Sequence[Moment]
    requests: int
    failed_requests: int
    stats: Mapping[str, int]
    unmet: Sequence[Unmet]


@attrs.frozen
class Span:
    """When a host was ejected or degraded, or (`host` None) the cluster in panic; until before `end_ms`."""

    kind: MomentKind
    host: str | None
    start_ms: int
    end_ms: int


# What ends which kinds of span.
_ENDS: Mapping[MomentKind, tuple[MomentKind, ...]] = {
    MomentKind.UNEJECTED: (MomentKind.EJECTED,),
    MomentKind.UNDEGRADED: (MomentKind.DEGRADED,),
    MomentKind.REMOVED: (MomentKind.EJECTED, MomentKind.DEGRADED),
    MomentKind.PANIC_OVER: (MomentKind.PANIC,),
}
_STARTS = frozenset(kind for kinds in _ENDS.values() for kind in kinds)


def spans(simulation: Simulation) -> list[Span]:
    """Return every stretch of ejection, degradation and panic, by start; what is still on ends with the simulation."""
    found: list[Span] = []
    running: dict[tuple[MomentKind, str | None], int] = {}
    for moment in simulation.timeline:
        if moment.kind in _STARTS:
            running.setdefault((moment.kind, moment.host), moment.at_ms)
        for kind in _ENDS.get(moment.kind, ()):
            start_ms = running.pop((kind, moment.host), None)
            if start_ms is not None:
                found.append(Span(kind, moment.host, start_ms, moment.at_ms))
    found += [Span(kind, host, start_ms, simulation.end_ms) for (kind, host), start_ms in running.items()]
    return sorted(found, key=lambda span: span.start_ms)


def simulate(
    scenario: sc.Scenario,
    release: EnvoyRelease | Behaviour = EnvoyRelease.V1_40,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Run a scenario from its start to its end.

    Args:
        scenario: What to run.
        release: Whose rules apply.
        on_progress: Told the virtual time in milliseconds, about a hundred times; not for the exact form.

    Raises:
        ScenarioError: A step names a host that is not there, or an expectation is unknown.
    """
    return _Run(scenario, release, on_progress).run()


class _Run:
    """One scenario under way; also what its expectations look at."""

    def __init__(
        self, scenario: sc.Scenario, release: EnvoyRelease | Behaviour, on_progress: Callable[[int], None] | None
    ) -> None:
        self._scenario = scenario
        self._on_progress = on_progress
        self._release = release
        self._time = SimulatedTime()
        self._runtime = Runtime({PREFIX + key: value for key, value in scenario.runtime.items()})
        self._queue: list[Callable[[], None]] | None = None
        self.hosts: dict[str, HostMonitor] = {}
        self._names: dict[HostMonitor, str] = {}
        self._timeline: list[Moment] = []
        self._unmet: list[Unmet] = []
        self.new_events: list[EjectionEvent] = []
        self.new_callbacks: list[str] = []
        self.events: list[tuple[int, EjectionEvent]] = []
        self.requests = 0
        self.failed_requests = 0
        self.panic = False
        self._balancer: Balancer | None = None
        randoms = scenario.randoms
        self.detector = Detector(
            scenario.config,
            cluster_name=_CLUSTER_NAME,
            time_source=self._time,
            random=SeededRandom(scenario.seed) if randoms is None else ListedRandom(randoms),
            release=release,
            runtime=self._runtime,
            active_health_checker=scenario.active_health_checker,
            on_event=self._on_event,
            on_detection=self._on_detection,
            on_change=self._on_change,
            post=self._post,
        )
        self.timer_armed_ms = self.detector.interval_ms
        for name in scenario.hosts:
            self._add(name)

    def run(self) -> Simulation:
        if self._scenario.traffic is not None:
            self._run_traffic(self._scenario.traffic)
        else:
            self._run_steps(self._scenario.steps)
        return Simulation(
            scenario=self._scenario,
            release=self._release,
            end_ms=self._time.monotonic_ms(),
            timeline=self._timeline,
            requests=self.requests,
            failed_requests=self.failed_requests,
            stats={name: value for name, value, _ in self.detector.stats.items()},
            unmet=self._unmet,
        )

    # The exact form

    def _run_steps(self, steps: Sequence[sc.Step]) -> None:
        for step in steps:
            for action in step.actions:
                try:
                    self._act(action)
                except KeyError as exc:
                    raise ScenarioError(step.path, f"no host {exc.args[0]!r} at this moment") from exc
            self._check(step.expect, step.path)

    def _act(self, action: sc.Action) -> None:
        match action:
            case sc.SetTime(now_ms):
                self._time.set_ms(now_ms)
            case sc.Tick():
                self._sweep()
            case sc.Report():
                self._report(action)
            case sc.ReportResponseTime(host, ms):
                self.hosts[host].put_response_time(ms)
            case sc.AddHosts(hosts):
                for name in hosts:
                    self._add(name)
            case sc.RemoveHosts(hosts):
                for name in hosts:
                    self._remove(name)
            case sc.SetRuntime(overrides):
                self._runtime.modify({PREFIX + key: value for key, value in overrides.items()})
            case sc.ActiveHealthCheck(host, healthy, failed_active_hc):
                monitor = self.hosts[host]
                self.detector.on_active_health_check(monitor, healthy=healthy, failed_active_hc=failed_active_hc)
            case sc.DestroyDetector():
                self.detector.close()
            case sc.HoldMainThread():
                self._queue = []
            case sc.DeliverMainThread(times):
                for _ in range(times):
                    for task in self._queue or ():
                        task()
            case sc.AdjustGauge(change):
                self.detector.stats.ejections_active += change
            case sc.Repeat(times, steps):
                for _ in range(times):
                    self._run_steps(steps)
            case _:
                assert_never(action)

    def _report(self, report: sc.Report) -> None:
        names = tuple(self.hosts) if report.hosts is None else report.hosts
        for name in names:
            monitor = self.hosts[name]
            for _ in range(report.count):
                if report.result is not None:
                    monitor.put_result(report.result, report.code)
                elif report.code is not None:
                    monitor.put_http_response_code(report.code)

    def _sweep(self) -> None:
        self.detector.on_interval_timer()
        self.timer_armed_ms = self.detector.interval_ms

    # The form for people

    def _run_traffic(self, traffic: Traffic) -> None:
        """Play the scenario; at one moment members change first, then come sweep, requests and checks."""
        self._balancer = Balancer(traffic, SeededRandom(self._scenario.seed + 1))
        # Chance by request number, so that releases run side by side meet the same hosts in the same mood.
        mood = SeededRandom(self._scenario.seed + 2)
        self._refresh()
        changes = list(traffic.behaviours.memberships)
        expectations = list(traffic.expectations)
        never_ms = traffic.duration_ms + 1
        progress_ms = 0 if self._on_progress is not None else never_ms
        while True:
            request_ms = int(self.requests * 1000 / traffic.rate) if traffic.rate else never_ms
            next_ms = min(
                self.detector.next_sweep_ms,
                request_ms,
                changes[0].at_ms if changes else request_ms,
            )
            # Checks come after everything of their moment, so they run once time has moved past it.
            while expectations and expectations[0].at_ms < min(next_ms, never_ms):
                expectation = expectations.pop(0)
                self._time.set_ms(expectation.at_ms)
                self._check(expectation.expect, expectation.path)
            if next_ms > traffic.duration_ms:
                break
            self._time.set_ms(next_ms)
            if next_ms >= progress_ms:
                assert self._on_progress is not None
                self._on_progress(next_ms)
                progress_ms = next_ms + traffic.duration_ms // _PROGRESS_STEPS + 1
            if changes and changes[0].at_ms == next_ms:
                change = changes.pop(0)
                (self._add if change.added else self._remove)(change.host)
                self._refresh()
                self._tell_panic()
            elif self.detector.next_sweep_ms == next_ms:
                self._sweep()
            else:
                self._request(traffic, mood.random() % 100)
        self._time.set_ms(traffic.duration_ms)

    def _request(self, traffic: Traffic, draw: int) -> None:
        assert self._balancer is not None
        self.requests += 1
        monitor = self._balancer.choose()
        if monitor is None:
            self.failed_requests += 1
            return
        succeeded = put_request(
            monitor,
            traffic.behaviours.by_host[self._names[monitor]],
            now_ms=self._time.monotonic_ms(),
            draw=draw,
            error_codes=traffic.error_codes,
        )
        if not succeeded:
            self.failed_requests += 1

    def _refresh(self) -> None:
        if self._balancer is not None:
            self._balancer.refresh(self.detector.hosts)

    def _tell_panic(self) -> None:
        if self._balancer is not None and self._balancer.availability.panic != self.panic:
            self.panic = panic = self._balancer.availability.panic
            hosts = len(self.detector.hosts)
            out = sum(monitor.ejected for monitor in self.detector.hosts)
            kind = MomentKind.PANIC if panic else MomentKind.PANIC_OVER
            self._tell(kind, None, f"{out} of {hosts} hosts ejected")

    # Shared

    def name_of(self, monitor: HostMonitor) -> str:
        return self._names[monitor]

    def _add(self, name: str) -> None:
        if name in self.hosts:
            raise ScenarioError("hosts", f"{name!r} is there already at {self._time.monotonic_ms()} ms")
        monitor = self.detector.add_host(name)
        self.hosts[name] = monitor
        self._names[monitor] = name
        if self._time.monotonic_ms() > 0:
            self._tell(MomentKind.ADDED, name, "")

    def _remove(self, name: str) -> None:
        if name not in self.hosts:
            raise ScenarioError("hosts", f"{name!r} is not there at {self._time.monotonic_ms()} ms")
        self.detector.remove_host(self.hosts.pop(name))
        self._tell(MomentKind.REMOVED, name, "")

    def _check(self, expect: Mapping[str, object], path: str) -> None:
        self._unmet += check(self, expect, path, self._time.monotonic_ms())

    def _post(self, task: Callable[[], None]) -> None:
        if self._queue is None:
            task()
        else:
            self._queue.append(task)

    def _on_change(self, monitor: HostMonitor) -> None:
        self.new_callbacks.append(self._names[monitor])
        self._refresh()

    def _on_detection(self, monitor: HostMonitor, detection: Detection) -> None:
        if detection.outcome is Outcome.OVERFLOW:  # the one outcome without an event
            self._tell(MomentKind.NOT_EJECTED, self._names[monitor], describe_detection(detection))

    def _on_event(self, event: EjectionEvent) -> None:
        self.new_events.append(event)
        self.events.append((self._time.monotonic_ms(), event))
        name = self._names[event.monitor]
        if event.detection is not None:
            kinds = {
                Outcome.EJECTED: MomentKind.EJECTED,
                Outcome.DEGRADED: MomentKind.DEGRADED,
                Outcome.NOT_ENFORCED: MomentKind.NOT_EJECTED,
            }
            self._tell(kinds[event.detection.outcome], name, describe_detection(event.detection), event)
        elif event.unejection is not None:
            kind = MomentKind.UNEJECTED if event.unejection.type is not EjectionType.DEGRADED else MomentKind.UNDEGRADED
            self._tell(kind, name, describe_unejection(event.unejection), event)
        self._tell_panic()

    def _tell(self, kind: MomentKind, host: str | None, reason: str, event: EjectionEvent | None = None) -> None:
        self._timeline.append(Moment(self._time.monotonic_ms(), kind, host, reason, event))
