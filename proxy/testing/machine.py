"""A detector under everything that can happen to it, for hypothesis to search: extend it with invariants of your own.

It keeps what it did as a scenario of the exact form; the simplest history that breaks an invariant is written to a file
that `outlier simulate` replays.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from outlier import Detector, EnvoyRelease, HostMonitor, ListedRandom, Result, SimulatedTime
from outlier.reporting import report_connected, report_reset, report_response, report_timeout
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.scenario_reader import read_scenario
from proxy.testing.properties import is_failure, write_counterexample

_HOST: st.SearchStrategy[str] = st.runner().flatmap(lambda machine: st.sampled_from(machine.host_names))
_COUNT = st.integers(1, 10)

_CONNECTED = Result.LOCAL_ORIGIN_CONNECT_SUCCESS
_RESET = Result.LOCAL_ORIGIN_CONNECT_FAILED
_TIMEOUT = Result.LOCAL_ORIGIN_TIMEOUT
_SUCCEEDED = Result.EXT_ORIGIN_REQUEST_SUCCESS
_FAILED = Result.EXT_ORIGIN_REQUEST_FAILED


class DetectorMachine(RuleBasedStateMachine):
    """Hosts that answer, fail, time out, while time passes and sweeps come.

    A subclass sets the attributes, adds `@invariant()`s and perhaps rules, and is run as `MyMachine.TestCase`.

    Attributes:
        destination_rule: The rule: a spec, a Kubernetes object or an MCP resource; None takes `outlier_detection`.
        outlier_detection: Envoy's settings, by the names of its proto.
        host_count: Hosts at the start, 1 or more; they are named h0, h1, ...
        envoy_release: Whose detection; 1.27 or younger, as older ones are told of results in another form.
        istio_release: Whose conversion.
        scenario_file: Where a counterexample goes; None is `<name of the class>.yaml` in the working directory.
        detector: The detector. Every chance is drawn as 0: what may be enforced is, and there is no jitter.
        time: Its clock.
        monitors: The present hosts by name.
    """

    destination_rule: ClassVar[Mapping[str, Any] | None] = None
    outlier_detection: ClassVar[Mapping[str, Any]] = {}
    host_count: ClassVar[int] = 4
    envoy_release: ClassVar[EnvoyRelease] = EnvoyRelease.V1_40
    istio_release: ClassVar[IstioRelease] = CURRENT
    scenario_file: ClassVar[Path | None] = None

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[dict[str, Any]] = []
        self.time = SimulatedTime()
        self.detector = Detector(
            read_scenario({**self._settings(), "hosts": [], "steps": []}, istio=self.istio_release).config,
            cluster_name=type(self).__name__,
            time_source=self.time,
            random=ListedRandom(),
            release=self.envoy_release,
        )
        self._names = [f"h{number}" for number in range(self.host_count)]
        self.monitors: dict[str, HostMonitor] = {name: self.detector.add_host(name) for name in self._names}

    @property
    def host_names(self) -> list[str]:
        """The present hosts."""
        return list(self.monitors)

    @property
    def ejected(self) -> list[str]:
        """The hosts that are ejected now."""
        return [name for name, monitor in self.monitors.items() if monitor.ejected]

    # What happens

    @rule(host=_HOST, status=st.sampled_from([200, 404, 500, 502, 503, 504]), count=_COUNT)
    def respond(self, host: str, status: int, count: int) -> None:
        """So many requests are answered."""
        monitor = self.monitors[host]
        for _ in range(count):
            report_connected(monitor)
            report_response(monitor, status)
        answer = {"host": host, "result": (_FAILED if status >= 500 else _SUCCEEDED).name, "code": status}
        self._record_requests(count, {"host": host, "result": _CONNECTED.name}, answer)

    @rule(host=_HOST, count=_COUNT)
    def refuse(self, host: str, count: int) -> None:
        """So many connections fail."""
        for _ in range(count):
            report_reset(self.monitors[host])
        self._record_requests(count, {"host": host, "result": _RESET.name})

    @rule(host=_HOST, count=_COUNT)
    def time_out(self, host: str, count: int) -> None:
        """So many requests get no answer in time."""
        monitor = self.monitors[host]
        for _ in range(count):
            report_connected(monitor)
            report_timeout(monitor)
        timeout = {"host": host, "result": _TIMEOUT.name, "code": 504}
        self._record_requests(count, {"host": host, "result": _CONNECTED.name}, timeout)

    @rule(seconds=st.sampled_from([1, 5, 10, 30, 60, 300]))
    def time_passes(self, seconds: int) -> None:
        """Time goes on, and every sweep that is due happens."""
        end_ms = self.time.monotonic_ms() + seconds * 1000
        while self.detector.next_sweep_ms <= end_ms:
            self.time.set_ms(self.detector.next_sweep_ms)
            self._steps.append({"at_ms": self.time.monotonic_ms(), "tick": True})
            self.detector.on_interval_timer()
        self.time.set_ms(end_ms)
        self._steps.append({"at_ms": end_ms})

    # For rules of a subclass

    def add_host(self, host: str) -> None:
        """A host joins; one that was there before is a new one."""
        self.monitors[host] = self.detector.add_host(host)
        self._steps.append({"add_hosts": [host]})

    def remove_host(self, host: str) -> None:
        """A host leaves."""
        self.detector.remove_host(self.monitors.pop(host))
        self._steps.append({"remove_hosts": [host]})

    # The history

    def scenario(self) -> dict[str, Any]:
        """Return what has happened as a scenario that expects the hosts to be ejected that are."""
        return {
            "name": type(self).__name__,
            **self._settings(),
            "hosts": self._names,
            "steps": [*self._steps, {"expect": {"ejected": self.ejected}}],
        }

    def teardown(self) -> None:
        """Write the history that broke something; the last one written is the simplest."""
        exc = sys.exception()
        if exc is not None and is_failure(exc):
            file = self.scenario_file or Path(f"{type(self).__name__}.yaml")
            write_counterexample(self.scenario(), file, exc, self.envoy_release)

    def _settings(self) -> dict[str, Any]:
        if self.destination_rule is not None:
            return {"destination_rule": dict(self.destination_rule)}
        return {"config": dict(self.outlier_detection)}

    def _record_requests(self, count: int, *reports: dict[str, Any]) -> None:
        self._steps.append({"repeat": {"times": count, "steps": [{"report": report} for report in reports]}})
