"""Properties of a rule over simulated traffic, and counterexamples that `outlier simulate` replays.

For tests that draw their traffic (`strategies.traffic`), and for those that do not.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from outlier import EnvoyRelease, MomentKind, Simulation, simulate, spans
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.scenario_reader import read_scenario


@contextlib.contextmanager
def simulated(
    scenario: Mapping[str, Any],
    *,
    write_to: Path | str,
    envoy_release: EnvoyRelease = EnvoyRelease.V1_40,
    istio_release: IstioRelease = CURRENT,
) -> Iterator[Simulation]:
    """Run a scenario and give what came of it; when the block fails, write the scenario to a file.

    Args:
        scenario: As in docs/scenarios.md, with `destination_rule` or `outlier_detection`.
        write_to: The file for a counterexample; the exception gets a note that says how to replay it. Under
            hypothesis the block that fails last is the simplest one.
        envoy_release: Whose detection.
        istio_release: Whose conversion.

    Raises:
        ScenarioError: The scenario is refused.
        ConfigError: A setting of the detector is refused.
    """
    simulation = simulate(read_scenario(scenario, istio=istio_release), envoy_release)
    try:
        yield simulation
    except Exception as exc:
        if is_failure(exc):
            write_counterexample(scenario, Path(write_to), exc, envoy_release)
        raise


def most_ejected(simulation: Simulation) -> int:
    """Return the largest number of hosts that were ejected at the same moment."""
    changes = []
    for span in spans(simulation):
        if span.kind is MomentKind.EJECTED:
            changes += [(span.start_ms, 1), (span.end_ms, -1)]
    most = out = 0
    for _, change in sorted(changes):  # a host that returns at the moment another goes makes room for it
        out += change
        most = max(most, out)
    return most


def longest_ejection_ms(simulation: Simulation, host: str | None = None) -> int:
    """Return how long the longest ejection of `host`, or of any host, lasted; one still on counts so far."""
    return max(
        (
            span.end_ms - span.start_ms
            for span in spans(simulation)
            if span.kind is MomentKind.EJECTED and host in (None, span.host)
        ),
        default=0,
    )


def is_failure(exc: BaseException) -> bool:
    """Whether an exception is a test's failure; hypothesis steers its own search by exceptions too."""
    return isinstance(exc, Exception) and not type(exc).__module__.startswith("hypothesis")


def write_counterexample(
    scenario: Mapping[str, Any], file: Path, exc: BaseException, release: EnvoyRelease = EnvoyRelease.V1_40
) -> None:
    """Write a scenario and note on the exception how to replay it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(dict(scenario), sort_keys=False, width=120), encoding="utf-8")
    exc.add_note(f"replay: outlier simulate {file} --envoy-release {release.value}")
