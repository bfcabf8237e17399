"""Whether what a scenario expects has come about.

Each key has one function that returns what is, next to what should be; the keys are those of docs/scenarios.md. Lists
of events and of callbacks start afresh with each check of their kind.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import attrs

from outlier.detector import Detector
from outlier.errors import ScenarioError
from outlier.events import Action, EjectionEvent
from outlier.host_monitor import HostMonitor

_RATE_TOLERANCE: Final = 1e-4  # the order of a sum is not part of the contract


@attrs.frozen
class Unmet:
    """One expectation that does not hold: where it stands, when it was checked, what was expected and what is."""

    path: str
    at_ms: int
    expected: object
    actual: object

    def __str__(self) -> str:
        return f"{self.path} at {self.at_ms} ms: expected {self.expected}, got {self.actual}"


class Observed(Protocol):
    """What an expectation may look at."""

    detector: Detector
    hosts: dict[str, HostMonitor]
    new_events: list[EjectionEvent]
    new_callbacks: list[str]
    timer_armed_ms: int
    panic: bool
    failed_requests: int
    events: list[tuple[int, EjectionEvent]]

    def name_of(self, monitor: HostMonitor) -> str:
        """Return the name of a host, also of a removed one."""


def check(observed: Observed, expect: Mapping[str, Any], path: str, at_ms: int) -> Iterator[Unmet]:
    """Yield each key of `expect` that does not hold.

    Raises:
        ScenarioError: A key is unknown, or names a host that is not there.
    """
    for key, expected in expect.items():
        if key in {"events_order", "between"}:
            continue
        look = _LOOKS.get(key)
        if look is None:
            raise ScenarioError(f"{path}.{key}", f"no such expectation; known are {', '.join(sorted(_LOOKS))}")
        try:
            wanted, actual = look(observed, expected, expect)
        except KeyError as exc:
            raise ScenarioError(f"{path}.{key}", f"{exc.args[0]!r} is unknown") from exc
        if wanted != actual:
            yield Unmet(f"{path}.{key}", at_ms, wanted, actual)


Look = Callable[[Observed, Any, Mapping[str, Any]], tuple[object, object]]


def _carrying(flag: str) -> Look:
    def look(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
        return sorted(expected), sorted(name for name, monitor in observed.hosts.items() if getattr(monitor, flag))

    return look


def _per_host(read: Callable[[HostMonitor], object]) -> Look:
    def look(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
        return dict(expected), {name: read(observed.hosts[name]) for name in expected}

    return look


def _ejections_active(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    return expected, observed.detector.stats.ejections_active


def _counters(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    values = {name: value for name, value, _ in observed.detector.stats.items()}
    return dict(expected), {name: values[name] for name in expected}


def _events(observed: Observed, expected: Any, expect: Mapping[str, Any]) -> tuple[object, object]:
    wanted = [_wanted_event(event) for event in expected for _ in range(event.get("times", 1))]
    actual = [_seen_event(observed, event) for event in observed.new_events]
    observed.new_events.clear()
    if expect.get("events_order") == "strict":
        return wanted, actual
    return Counter(wanted), Counter(actual)


def _wanted_event(event: Mapping[str, Any]) -> tuple[object, ...]:
    if event["action"] == "UNEJECT":  # carries neither a type of its own nor enforcement
        return ("UNEJECT", event["host"])
    return ("EJECT", event["host"], event["type"], event["enforced"])


def _seen_event(observed: Observed, event: EjectionEvent) -> tuple[object, ...]:
    name = observed.name_of(event.monitor)
    if event.action is Action.UNEJECT:
        return ("UNEJECT", name)
    return ("EJECT", name, event.type.value, event.enforced)


def _event(observed: Observed, expected: Any, expect: Mapping[str, Any]) -> tuple[object, object]:
    """Count the events of the window that have every field of `expected`; `times` asks for an exact number."""
    start_ms, end_ms = expect["between"]
    fields = {key: value for key, value in expected.items() if key != "times"}
    found = 0
    for at_ms, event in observed.events:
        seen: dict[str, object] = {
            "action": event.action.value,
            "host": observed.name_of(event.monitor),
            "type": event.type.value,
            "enforced": event.enforced,
        }
        found += start_ms <= at_ms <= end_ms and all(seen[key] == value for key, value in fields.items())
    wanted = expected.get("times")
    if wanted is None:
        return f"an event {fields}", f"an event {fields}" if found else "none"
    return wanted, found


def _callbacks(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    actual = list(observed.new_callbacks)
    observed.new_callbacks.clear()
    return list(expected), actual


def _success_rate(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    actual = {}
    for name, rates in expected.items():
        monitor = observed.hosts[name]
        shown = {"external": monitor.success_rate, "local": monitor.local_origin_success_rate}
        actual[name] = {origin: _near(shown[origin], wanted) for origin, wanted in rates.items()}
    return {name: dict(rates) for name, rates in expected.items()}, actual


def _cluster_success_rate(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    detector = observed.detector
    shown = {
        "external": {
            "average": detector.success_rate_average,
            "threshold": detector.success_rate_ejection_threshold,
        },
        "local": {
            "average": detector.local_origin_success_rate_average,
            "threshold": detector.local_origin_success_rate_ejection_threshold,
        },
    }
    actual = {
        origin: {key: _near(shown[origin][key], wanted) for key, wanted in values.items()}
        for origin, values in expected.items()
    }
    return {origin: dict(values) for origin, values in expected.items()}, actual


def _near(actual: float, wanted: float) -> float:
    return wanted if abs(actual - wanted) <= _RATE_TOLERANCE else actual


def _timer_armed_ms(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    return expected, observed.timer_armed_ms


def _panic(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    return expected, observed.panic


def _failed_requests_at_most(observed: Observed, expected: Any, _expect: Mapping[str, Any]) -> tuple[object, object]:
    return (
        f"at most {expected}",
        f"at most {expected}" if observed.failed_requests <= expected else observed.failed_requests,
    )


_LOOKS: Final[Mapping[str, Look]] = {
    "ejected": _carrying("ejected"),
    "degraded": _carrying("degraded"),
    "ejections_active": _ejections_active,
    "counters": _counters,
    "events": _events,
    "event": _event,
    "callbacks": _callbacks,
    "success_rate": _success_rate,
    "cluster_success_rate": _cluster_success_rate,
    "num_ejections": _per_host(lambda monitor: monitor.num_ejections),
    "backoff": _per_host(lambda monitor: monitor.backoff),
    "jitter_ms": _per_host(lambda monitor: monitor.jitter_ms),
    "ever_unejected": _per_host(lambda monitor: monitor.last_unejection_ms is not None),
    "timer_armed_ms": _timer_armed_ms,
    "panic": _panic,
    "failed_requests_at_most": _failed_requests_at_most,
}
