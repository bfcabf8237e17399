"""What happens in one comparison: hosts, a rule, and steps in which one host at a time misbehaves.

Envoy starts its round robin at a random host, so a step names the host that misbehaves, not the request that meets
it; what is compared is the list of answers of that host, and which hosts served besides. With `RING_HASH` a request
key aims at a host and every pick is comparable.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from tests.oracle.upstream import After, Answer

OK = "200"
REFUSE = "refuse"
ABORT = "abort"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"

# How a host may answer, besides by a status code. `refuse` closes the port; with `abort` the host keeps silent and
# the client leaves before the route timeout.
BEHAVIOURS: Mapping[str, Answer] = {
    "reset": Answer(after=After.RST),
    "fin": Answer(after=After.FIN),
    "garbage": Answer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", After.HOLD),
    "hang": Answer(after=After.HOLD),
    ABORT: Answer(after=After.HOLD),
    "cut": Answer(_HEAD + b"half", After.FIN),
    "stall": Answer(_HEAD + b"half", After.HOLD),
    "early-hints": Answer(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
    ),
    "degraded": Answer(b"HTTP/1.1 200 OK\r\nx-envoy-degraded: 1\r\ncontent-length: 0\r\n\r\n"),
}


def answer_for(behaviour: str) -> Answer:
    """Return the bytes for a behaviour: a key of `BEHAVIOURS`, or a status code."""
    known = BEHAVIOURS.get(behaviour)
    if known is not None:
        return known
    return Answer(f"HTTP/1.1 {int(behaviour)} Status\r\ncontent-length: 2\r\n\r\nok".encode())


@attrs.frozen
class Play:
    """One host gives these answers, one a request, until they are used up or it is not chosen any more.

    The other hosts answer 200. With round robin every host that is reachable answers 200 once before the first of
    them, so that runs of failures start afresh.
    """

    host: int
    behaviours: tuple[str, ...]

    def __str__(self) -> str:
        return f"play host {self.host}: {' '.join(self.behaviours)}"


@attrs.frozen
class Probe:
    """Every host answers 200; shows who is chosen."""

    def __str__(self) -> str:
        return "probe"


@attrs.frozen
class Load:
    """Every host gets `requests` requests at full speed; of host i the first `failing[i]` fail with `behaviour`.

    For round robin without ejections, where each host gets exactly its share.
    """

    requests: int
    failing: tuple[int, ...]
    behaviour: str = "500"

    def __str__(self) -> str:
        return f"load {self.requests} each, failing {self.failing} with {self.behaviour}"


@attrs.frozen
class AwaitUnejection:
    """Wait until no host is ejected; the next sweep is then a whole interval away."""

    def __str__(self) -> str:
        return "await unejection"


@attrs.frozen
class Rest:
    """Let this many sweeps pass after the last unejection, and half an interval more.

    More than there were ejections: the multiplier is 0 then. With fewer it is anybody's guess, because Envoy's first
    sweep after an unejection may come some microseconds before a whole interval is over, and then does not lower it.
    """

    sweeps: int

    def __str__(self) -> str:
        return f"rest {self.sweeps} sweeps"


@attrs.frozen
class AwaitSweep:
    """Wait for the next sweep and look at the rates that it leaves on `/clusters`."""

    def __str__(self) -> str:
        return "await sweep"


Step = Play | Probe | Load | AwaitUnejection | Rest | AwaitSweep


@attrs.frozen(kw_only=True)
class Scenario:
    """One cluster and what is done to it.

    `rule` is a DestinationRule's `outlierDetection`; `overrides` are Envoy fields that no rule reaches. `interval_ms`
    and `base_ejection_time_ms` complete the rule: the defaults let no sweep happen while the steps run.
    """

    name: str
    hosts: int
    rule: Mapping[str, Any]
    steps: tuple[Step, ...]
    overrides: dict[str, Any] = attrs.field(factory=dict)
    balancer: str = "ROUND_ROBIN"
    timeout_ms: int = 250
    interval_ms: int = 600_000
    base_ejection_time_ms: int = 600_000

    @property
    def outlier_detection(self) -> dict[str, Any]:
        """The whole `outlierDetection` block."""
        return {
            "interval": f"{self.interval_ms}ms",
            "baseEjectionTime": f"{self.base_ejection_time_ms}ms",
            **self.rule,
        }

    def slower(self, scale: int) -> "Scenario":
        """Return the same with times so many times as long; sweeps at most four times, as one may wait for several."""
        sweeps = min(scale, 4)
        durations = {name: value for name, value in self.overrides.items() if str(value).endswith("s")}
        return attrs.evolve(
            self,
            timeout_ms=self.timeout_ms * scale,
            interval_ms=self.interval_ms * sweeps,
            base_ejection_time_ms=self.base_ejection_time_ms * sweeps,
            overrides=self.overrides | {name: f"{float(value[:-1]) * sweeps:g}s" for name, value in durations.items()},
        )

    def describe(self) -> str:
        """Return the scenario as a person would write it down to repeat it."""
        lines = [f"{self.name}: {self.hosts} hosts, {self.balancer}, route timeout {self.timeout_ms}ms"]
        lines.append(f"  outlierDetection: {self.outlier_detection}")
        if self.overrides:
            lines.append(f"  Envoy fields: {dict(self.overrides)}")
        lines.extend(f"  {number}. {step}" for number, step in enumerate(self.steps))
        return "\n".join(lines)
