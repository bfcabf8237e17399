"""Traffic for people's scenarios: hosts that behave as sentences say, and a balancer that spreads requests over them.

The balancer is that of a single priority: healthy hosts first, degraded ones for what healthy ones cannot carry,
everyone in panic.
Ports that part of `LoadBalancerBase` (Envoy, source/common/upstream/load_balancer_impl.cc); the sidecar's own
balancer is `proxy.load_balancer`.
"""

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import attrs

from outlier.durations import duration_ms
from outlier.errors import ScenarioError
from outlier.host_monitor import HostMonitor
from outlier.reporting import report_connected, report_reset, report_response, report_timeout
from outlier.sources import RandomGenerator

_OVERPROVISIONING_FACTOR: Final = 140  # Envoy's default, in percent


class Answer(enum.Enum):
    """What becomes of a request on a host; a plain status is the fourth kind."""

    REFUSES = "refuses connections"
    RESETS = "resets connections"
    TIMES_OUT = "times out"


@attrs.frozen
class HostBehaviour:
    """What a host does from `start_ms` until before `end_ms` (None: for good).

    `answer` is a status or a failure below HTTP; `degraded` adds the header `x-envoy-degraded`; `percent` of the
    requests meet it.
    """

    answer: Answer | int
    degraded: bool
    percent: int
    start_ms: int
    end_ms: int | None

    def applies(self, now_ms: int, draw: int) -> bool:
        """Return whether a request at `now_ms` with the draw 0-99 meets it."""
        return self.start_ms <= now_ms and (self.end_ms is None or now_ms < self.end_ms) and draw < self.percent


@attrs.frozen
class Membership:
    """A host comes or goes."""

    at_ms: int
    host: str
    added: bool


@attrs.frozen
class Behaviours:
    """Everything the sentences said: what hosts do, and when they come and go."""

    by_host: Mapping[str, tuple[HostBehaviour, ...]]
    memberships: tuple[Membership, ...]


_DOES = re.compile(
    r"(?P<host>\S+)\s+"
    r"(?:(?:fails with|answers)\s+(?P<code>\d{3})|(?P<answer>refuses connections|resets connections|times out)"
    r"|(?P<degraded>answers degraded))"
    r"(?:\s+in\s+(?P<percent>\d+)\s*%\s+of requests)?(?:\s+from\s+(?P<start>\S+))?(?:\s+to\s+(?P<end>\S+))?"
)
_MOVES = re.compile(r"(?P<host>\S+)\s+is\s+(?P<change>added|removed)\s+at\s+(?P<at>\S+)")


def read_behaviours(sentences: Sequence[str], hosts: Sequence[str]) -> Behaviours:
    """Return what sentences such as "b fails with 503 in 20 % of requests from 10s to 40s" mean.

    Raises:
        ScenarioError: A sentence is not understood or names an unknown host.
    """
    by_host: dict[str, list[HostBehaviour]] = {host: [] for host in hosts}
    memberships: list[Membership] = []
    for i, sentence in enumerate(sentences):
        path = f"behaviours[{i}]"
        if not isinstance(sentence, str):
            raise ScenarioError(path, f"{sentence!r} is not a sentence")
        try:
            if found := _MOVES.fullmatch(sentence):
                added = found["change"] == "added"
                memberships.append(Membership(duration_ms(found["at"]), found["host"], added))
                if added:
                    by_host.setdefault(found["host"], [])
            elif found := _DOES.fullmatch(sentence):
                by_host.setdefault(found["host"], []).append(_behaviour(found))
            else:
                raise ScenarioError(path, f"{sentence!r} is not understood; see docs/scenarios.md")
        except ValueError as exc:
            raise ScenarioError(path, str(exc)) from exc
    known = {*hosts, *(change.host for change in memberships if change.added)}
    for host in by_host.keys() | {change.host for change in memberships}:
        if host not in known:
            raise ScenarioError("behaviours", f"host {host!r} is neither in hosts nor added later")
    memberships.sort(key=lambda change: change.at_ms)
    return Behaviours({host: tuple(told) for host, told in by_host.items()}, tuple(memberships))


def _behaviour(found: re.Match[str]) -> HostBehaviour:
    return HostBehaviour(
        answer=Answer(found["answer"]) if found["answer"] else int(found["code"] or 200),
        degraded=found["degraded"] is not None,
        percent=int(found["percent"] or 100),
        start_ms=duration_ms(found["start"]) if found["start"] else 0,
        end_ms=duration_ms(found["end"]) if found["end"] else None,
    )


@attrs.frozen(kw_only=True)
class Traffic:
    """Requests at an even rate, and what must come of them.

    Attributes:
        duration_ms: How long to simulate.
        rate: Requests per second over the whole cluster; 0 sends none, and only sweeps happen.
        balancer: `round_robin` or `random`.
        panic_threshold: In percent; 0 switches panic off.
        error_codes: Statuses that are errors in place of 500 and above; empty keeps Envoy's rule.
        behaviours: What the hosts do.
        expectations: In order of time.
    """

    duration_ms: int
    rate: float
    balancer: str
    panic_threshold: int
    error_codes: frozenset[int]
    behaviours: Behaviours
    expectations: "tuple[Expectation, ...]"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], behaviours: Behaviours) -> Self:
        """Read the traffic part of a scenario for people.

        Raises:
            ScenarioError: A value is missing or refused.
        """
        rate = data.get("rate", 10)
        if not isinstance(rate, int | float) or not 0 <= rate <= 1_000_000:
            raise ScenarioError("rate", f"{rate!r} is not a number of requests per second, 0 to 1000000")
        balancer = data.get("balancer", "round_robin")
        if balancer not in {"round_robin", "random"}:
            raise ScenarioError("balancer", f"{balancer!r} is neither round_robin nor random")
        panic_threshold = data.get("panic_threshold", 50)
        if type(panic_threshold) is not int or not 0 <= panic_threshold <= 100:
            raise ScenarioError("panic_threshold", f"{panic_threshold!r} is not a whole percentage")
        if "duration" not in data:
            raise ScenarioError("duration", "is missing; for example 2m")
        duration = _time(data["duration"], "duration")
        expectations = _expectations(data.get("expect") or ())
        for expectation in expectations:
            if expectation.at_ms > duration:
                raise ScenarioError(expectation.path, f"is after the end, {duration} ms")
        return cls(
            duration_ms=duration,
            rate=rate,
            balancer=balancer,
            panic_threshold=panic_threshold,
            error_codes=_error_codes(data.get("error_codes") or ()),
            behaviours=behaviours,
            expectations=expectations,
        )


@attrs.frozen
class Expectation:
    """What must hold at one moment, or within a window that ends there; `path` says where it stands in its file."""

    at_ms: int
    path: str
    expect: Mapping[str, Any]


def _expectations(items: Sequence[Mapping[str, Any]]) -> tuple[Expectation, ...]:
    found = []
    for i, item in enumerate(items):
        path = f"expect[{i}]"
        if not isinstance(item, Mapping):
            raise ScenarioError(path, f"{item!r} is not a mapping")
        if ("at" in item) == ("between" in item):
            raise ScenarioError(path, "needs either `at: TIME` or `between: [TIME, TIME]`")
        if "at" in item:
            at_ms = _time(item["at"], f"{path}.at")
            found.append(Expectation(at_ms, path, {key: value for key, value in item.items() if key != "at"}))
        else:
            between = item["between"]
            if not isinstance(between, Sequence) or len(between) != 2:
                raise ScenarioError(f"{path}.between", f"{between!r} is not a pair of times")
            start, end = between
            window = (_time(start, f"{path}.between"), _time(end, f"{path}.between"))
            found.append(Expectation(window[1], path, {**item, "between": window}))
    return tuple(sorted(found, key=lambda expectation: expectation.at_ms))


def _time(text: object, path: str) -> int:
    try:
        return duration_ms(str(text))
    except ValueError as exc:
        raise ScenarioError(path, str(exc)) from exc


def _error_codes(codes: Sequence[object]) -> frozenset[int]:
    for code in codes:
        if type(code) is not int or not 100 <= code <= 599:
            raise ScenarioError("error_codes", f"{code!r} is not a status in 100..599")
    return frozenset(code for code in codes if isinstance(code, int))


def put_request(
    monitor: HostMonitor,
    behaviours: Sequence[HostBehaviour],
    *,
    now_ms: int,
    draw: int,
    error_codes: frozenset[int] = frozenset(),
) -> bool:
    """Report one request as the host's behaviours have it, and return whether it succeeded.

    The first behaviour that applies decides; without one the answer is 200. Answers come at once.
    """
    told = next((behaviour for behaviour in behaviours if behaviour.applies(now_ms, draw)), None)
    answer = told.answer if told else 200
    if answer is not Answer.REFUSES:
        report_connected(monitor)
    if isinstance(answer, int):
        matched = answer in error_codes if error_codes else None
        report_response(monitor, answer, matched=matched, degraded=told is not None and told.degraded)
        return not (answer >= 500 if matched is None else matched)
    if answer is Answer.TIMES_OUT:
        report_timeout(monitor)
    else:
        report_reset(monitor)
    return False


@attrs.frozen
class Availability:
    """Whom a balancer may choose: the hosts, the share of the healthy list in percent, and whether this is panic."""

    healthy: Sequence[HostMonitor]
    degraded: Sequence[HostMonitor]
    healthy_load: int
    panic: bool


def availability(hosts: Sequence[HostMonitor], panic_threshold: float) -> Availability:
    """Return the lists of a single priority and how its load is split (`recalculatePerPriorityState`).

    In panic both lists are all hosts.
    """
    healthy = [monitor for monitor in hosts if not monitor.ejected and not monitor.degraded]
    degraded = [monitor for monitor in hosts if not monitor.ejected and monitor.degraded]
    if not hosts:
        return Availability((), (), 100, False)
    healthy_share = min(100, _OVERPROVISIONING_FACTOR * len(healthy) // len(hosts))
    degraded_share = min(100, _OVERPROVISIONING_FACTOR * len(degraded) // len(hosts))
    available = min(100, healthy_share + degraded_share)
    if available != 100 and 100.0 * (len(healthy) + len(degraded)) / len(hosts) < panic_threshold:
        return Availability(hosts, hosts, 100, True)
    if available == 0:
        return Availability((), (), 100, False)
    load = healthy_share * 100 // available
    degraded_load = min(100 - load, degraded_share * 100 // available)
    return Availability(healthy, degraded, load if not healthy else 100 - degraded_load, False)


class Balancer:
    """Chooses a host for each request; `refresh` after each change of a host's health or of the membership."""

    def __init__(self, traffic: Traffic, random: RandomGenerator) -> None:
        self._panic_threshold = traffic.panic_threshold
        self._round_robin = traffic.balancer == "round_robin"
        self._random = random
        self._next = 0
        self.availability = availability((), 0)

    def refresh(self, hosts: Sequence[HostMonitor]) -> None:
        """Take over the present members and their health."""
        self.availability = availability(hosts, self._panic_threshold)

    def choose(self) -> HostMonitor | None:
        """Return the host for the next request, None when there is none to choose."""
        state = self.availability
        chosen = state.healthy if self._random.random() % 100 < state.healthy_load else state.degraded
        if not chosen:
            return None
        if self._round_robin:
            self._next += 1
            return chosen[self._next % len(chosen)]
        return chosen[self._random.random() % len(chosen)]
