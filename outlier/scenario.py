"""A scenario: a configuration, hosts, and what happens to them in virtual time, read from data.

Two forms. *Steps* are exact: each sets the clock, reports results, fires the sweep, checks. *Traffic* is for people:
a request rate over hosts that behave as sentences say ("b fails with 503 from 10s to 40s"). docs/scenarios.md
describes both. This module reads and refuses; `simulate` runs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from outlier.config import OutlierDetection
from outlier.errors import ScenarioError
from outlier.releases import EnvoyRelease
from outlier.result import Result
from outlier.runtime import RUNTIME_KEYS
from outlier.traffic import Traffic, read_behaviours

ALL_HOSTS: Final = "*"

# What the conformance vectors call a range of releases, and the release that stands for it here.
ERAS: Final[Mapping[str, EnvoyRelease]] = {
    "legacy": EnvoyRelease.V1_8,
    "mid": EnvoyRelease.V1_27,
    "current": EnvoyRelease.V1_40,
}


@attrs.frozen
class SetTime:
    """Set the monotonic clock, backwards too."""

    now_ms: int


@attrs.frozen
class Tick:
    """Fire the sweep timer."""


@attrs.frozen
class Report:
    """Report `count` results to each host in turn; `hosts` None means all members. `code` alone is an HTTP status."""

    hosts: tuple[str, ...] | None
    result: Result | None
    code: int | None
    count: int


@attrs.frozen
class ReportResponseTime:
    """Report a response time."""

    host: str
    ms: int


@attrs.frozen
class AddHosts:
    """Add members; a name that was there before is a new host."""

    hosts: tuple[str, ...]


@attrs.frozen
class RemoveHosts:
    """Remove members."""

    hosts: tuple[str, ...]


@attrs.frozen
class SetRuntime:
    """Override settings from here on; keys without the prefix `outlier_detection.`."""

    overrides: Mapping[str, int]


@attrs.frozen
class ActiveHealthCheck:
    """One active check of a host finished."""

    host: str
    healthy: bool
    failed_active_hc: bool


@attrs.frozen
class DestroyDetector:
    """The detector goes away; its hosts live on."""


@attrs.frozen
class HoldMainThread:
    """From here on runs that meet their threshold are queued instead of handled."""


@attrs.frozen
class DeliverMainThread:
    """Handle the whole queue so many times, without emptying it."""

    times: int


@attrs.frozen
class AdjustGauge:
    """Somebody else moves the exported gauge."""

    change: int


@attrs.frozen
class Repeat:
    """Run steps so many times."""

    times: int
    steps: "tuple[Step, ...]"


Action = (
    SetTime
    | Tick
    | Report
    | ReportResponseTime
    | AddHosts
    | RemoveHosts
    | SetRuntime
    | ActiveHealthCheck
    | DestroyDetector
    | HoldMainThread
    | DeliverMainThread
    | AdjustGauge
    | Repeat
)


@attrs.frozen
class Step:
    """Actions in order, then what must hold; `path` says where the step stands in its file."""

    path: str
    actions: tuple[Action, ...]
    expect: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Scenario:
    """What to simulate.

    Attributes:
        name: Its name, for messages.
        config: The detector's settings.
        hosts: Members at the start.
        runtime: Overrides at the start, keys without prefix.
        randoms: Numbers the random source returns, then 0; None takes them from `seed`.
        seed: Seed of the random source.
        active_health_checker: Whether the cluster has an active health checker.
        steps: The exact form; empty when there is traffic.
        traffic: The form for people; None when there are steps.
        releases: What it was written for.
    """

    name: str
    config: OutlierDetection
    hosts: tuple[str, ...]
    runtime: Mapping[str, int] = attrs.field(factory=dict)
    randoms: tuple[int, ...] | None = None
    seed: int = 1
    active_health_checker: bool = False
    steps: tuple[Step, ...] = ()
    traffic: Traffic | None = None
    releases: tuple[EnvoyRelease, ...] = (EnvoyRelease.V1_40,)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Scenario":
        """Read a scenario of either form; one with `steps` is of the exact form.

        Raises:
            ScenarioError: Something in it cannot be understood; `path` says where.
            ConfigError: A setting of the detector is refused.
        """
        return _from_steps(data) if "steps" in data else _from_traffic(data)


# Keys of a conformance case that say where it comes from; they change nothing.
_PROVENANCE = {"id", "title", "note", "source_test", "eras", "kind", "name"}


def _from_steps(data: Mapping[str, Any]) -> Scenario:
    _refuse_unknown(data, "", _PROVENANCE | {"config", "runtime", "hosts", "randoms", "active_health_checker", "steps"})
    return Scenario(
        name=str(data.get("name", data.get("id", "scenario"))),
        config=OutlierDetection.from_fields(_mapping(data.get("config") or {}, "config")),
        hosts=_names(data.get("hosts") or [], "hosts"),
        runtime=_overrides(data.get("runtime") or {}, "runtime"),
        randoms=tuple(data.get("randoms") or ()),
        active_health_checker=bool(data.get("active_health_checker", False)),
        steps=_steps(data["steps"], "steps"),
        releases=_eras(data.get("eras") or ("current",)),
    )


def _from_traffic(data: Mapping[str, Any]) -> Scenario:
    _refuse_unknown(
        data,
        "",
        {"name", "outlier_detection", "error_codes", "panic_threshold", "releases", "duration", "rate", "balancer"}
        | {"seed", "hosts", "behaviours", "runtime", "expect"},
    )
    hosts = _names(data.get("hosts") or [], "hosts")
    behaviours = read_behaviours(data.get("behaviours") or (), hosts)
    return Scenario(
        name=str(data.get("name", "scenario")),
        config=OutlierDetection.from_fields(_mapping(data.get("outlier_detection") or {}, "outlier_detection")),
        hosts=hosts,
        runtime=_overrides(data.get("runtime") or {}, "runtime"),
        seed=int(data.get("seed", 1)),
        traffic=Traffic.from_dict(data, behaviours),
        releases=_releases(data.get("releases")),
    )


def _releases(versions: Sequence[str] | None) -> tuple[EnvoyRelease, ...]:
    try:
        return tuple(EnvoyRelease(str(version)) for version in versions or ("1.40",))
    except ValueError as exc:
        known = ", ".join(release.value for release in EnvoyRelease)
        raise ScenarioError("releases", f"{exc}; known are {known}") from exc


def _eras(names: Sequence[str]) -> tuple[EnvoyRelease, ...]:
    for name in names:
        if name not in ERAS:
            raise ScenarioError("eras", f"{name!r} is unknown; known are {', '.join(ERAS)}")
    return tuple(ERAS[name] for name in names)


def _steps(steps: Sequence[Mapping[str, Any]], path: str) -> tuple[Step, ...]:
    return tuple(_step(step, f"{path}[{i}]") for i, step in enumerate(steps))


def _step(step: Mapping[str, Any], path: str) -> Step:
    """Read one step; its actions keep the order written, except that the clock is set first."""
    keys = sorted((key for key in step if key != "expect"), key=lambda key: key != "at_ms")
    actions = []
    for key in keys:
        read = _READERS.get(key)
        if read is None:
            raise ScenarioError(f"{path}.{key}", f"no such action; known are {', '.join(sorted(_READERS))}")
        try:
            actions.append(read(step[key], f"{path}.{key}"))
        except (KeyError, TypeError, ValueError) as exc:
            raise ScenarioError(f"{path}.{key}", f"cannot be read ({exc!r})") from exc
    return Step(path, tuple(actions), _mapping(step.get("expect") or {}, f"{path}.expect"))


def _report(value: Mapping[str, Any], path: str) -> Report:
    _refuse_unknown(value, path, {"host", "result", "code", "count"})
    result = Result[value["result"]] if "result" in value else None
    if result is None and "code" not in value:
        raise ScenarioError(path, "needs a code or a result")
    host = value["host"]
    hosts = None if host == ALL_HOSTS else _names([host] if isinstance(host, str) else host, f"{path}.host")
    return Report(hosts, result, value.get("code"), value.get("count", 1))


def _active_health_check(value: Mapping[str, Any], path: str) -> ActiveHealthCheck:
    _refuse_unknown(value, path, {"host", "result", "transition", "failed_active_hc"})
    if value["result"] not in {"healthy", "unhealthy"}:
        raise ScenarioError(f"{path}.result", f"{value['result']!r} is neither healthy nor unhealthy")
    return ActiveHealthCheck(value["host"], value["result"] == "healthy", value.get("failed_active_hc", False))


_READERS: Final[Mapping[str, Callable[[Any, str], Action]]] = {
    "at_ms": lambda value, _path: SetTime(int(value)),
    "tick": lambda _value, _path: Tick(),
    "report": _report,
    "response_time": lambda value, _path: ReportResponseTime(value["host"], int(value["ms"])),
    "add_hosts": lambda value, path: AddHosts(_names(value, path)),
    "remove_hosts": lambda value, path: RemoveHosts(_names(value, path)),
    "runtime": lambda value, path: SetRuntime(_overrides(value, path)),
    "active_health_check": _active_health_check,
    "destroy_detector": lambda _value, _path: DestroyDetector(),
    "hold_main_thread": lambda _value, _path: HoldMainThread(),
    "deliver_main_thread": lambda value, _path: DeliverMainThread(int(value["times"])),
    "gauge_adjust": lambda value, _path: AdjustGauge(int(value["ejections_active"])),
    "repeat": lambda value, path: Repeat(int(value["times"]), _steps(value["steps"], f"{path}.steps")),
}


def _refuse_unknown(data: Mapping[str, Any], path: str, known: set[str]) -> None:
    for key in data:
        if key not in known:
            raise ScenarioError(f"{path}.{key}".lstrip("."), f"no such key; known are {', '.join(sorted(known))}")


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ScenarioError(path, f"{value!r} is not a mapping")
    return value


def _names(value: Any, path: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ScenarioError(path, f"{value!r} is not a list of host names")
    return tuple(str(name) for name in value)


def _overrides(value: Any, path: str) -> Mapping[str, int]:
    overrides = _mapping(value, path)
    for key, override in overrides.items():
        if key not in RUNTIME_KEYS:
            raise ScenarioError(f"{path}.{key}", f"no such runtime key; known are {', '.join(RUNTIME_KEYS)}")
        if type(override) is not int or override < 0:
            raise ScenarioError(f"{path}.{key}", f"{override!r} is not a whole number, 0 or more")
    return overrides
