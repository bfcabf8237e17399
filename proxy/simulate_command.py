"""`outlier simulate`: what a rule would do to hosts that misbehave, in virtual time, before it ships.

Reads scenarios (docs/scenarios.md), turns an Istio rule in them into the detector's settings, runs them under one or
several Envoy releases, and prints what happened and why.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml
from rich.console import Console
from rich.table import Table

from outlier import (
    ConfigError,
    EnvoyRelease,
    Moment,
    MomentKind,
    Scenario,
    ScenarioError,
    Simulation,
    simulate,
)
from proxy.config.destination_rule import DestinationRule
from proxy.config.releases import IstioRelease
from proxy.config.resource import read_resources
from proxy.config.scenario_reader import read_scenario
from proxy.errors import ProxyError


class UnreadableFileError(ProxyError):
    """Raised when a scenario or a rule cannot be read; the message names the file."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier simulate`."""
    parser = subparsers.add_parser(
        "simulate",
        help="run a scenario in virtual time",
        description="Run scenarios in virtual time and print what is ejected, when and why. "
        "With several releases the differences show side by side.",
        epilog="example: outlier simulate docs/scenarios/one-of-three.yaml --check --plot hosts.svg",
    )
    parser.add_argument(
        "scenarios", nargs="+", type=Path, metavar="SCENARIO", help="a YAML file of one or more scenarios"
    )
    parser.add_argument(
        "--config", type=Path, metavar="PATH", help="take the rule from this file or folder of resources"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw hosts, ejections and panic over time")
    parser.add_argument("--check", action="store_true", help="exit 1 at the first expectation that is not met")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument(
        "--envoy-release",
        action="append",
        choices=[release.value for release in EnvoyRelease],
        help="whose rules apply; may be repeated (default: what the scenario names, else 1.40)",
    )
    parser.add_argument(
        "--istio-release", type=_istio_release, default="current", metavar="VERSION", help="who converts the rule"
    )


def run(args: argparse.Namespace) -> int:
    """Run the scenarios; return 1 if `--check` found an expectation unmet.

    Raises:
        ProxyError: A file cannot be read, or the plot cannot be drawn.
        OutlierError: A scenario or a rule is refused.
    """
    rule = _rule_of(args.config) if args.config else None
    groups = [
        [simulate(scenario, release) for release in _releases(args.envoy_release) or scenario.releases]
        for path in args.scenarios
        for scenario in _read(path, rule, args.istio_release)
    ]
    if args.format == "json":
        print(json.dumps([_as_dict(simulation) for group in groups for simulation in group], ensure_ascii=False))  # noqa: T201
    else:
        console = Console()
        for group in groups:
            _print_group(console, group)
    if args.plot:
        from proxy.simulate_plot import plot

        plot([simulation for group in groups for simulation in group], args.plot)
    return _check(groups) if args.check else 0


def _istio_release(text: str) -> IstioRelease:
    try:
        return IstioRelease.parse(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is neither current nor a version such as 1.1") from exc


def _releases(versions: Sequence[str] | None) -> tuple[EnvoyRelease, ...]:
    return tuple(EnvoyRelease(version) for version in versions or ())


# Reading


def _read(path: Path, rule: DestinationRule | None, istio: IstioRelease) -> Iterator[Scenario]:
    """Yield the scenarios of a file: one a document, or those of a document's `cases`.

    Raises:
        UnreadableFileError: The file cannot be read or is no YAML.
        ScenarioError: A scenario is refused; `path` begins with the file.
    """
    for document in _documents(path):
        if not isinstance(document, Mapping):
            raise ScenarioError(str(path), "a scenario is a mapping")
        for data in document.get("cases") or [document]:
            if data.get("kind", "scenario") != "scenario":
                continue
            try:
                yield read_scenario({"name": path.stem, **data}, rule=rule, istio=istio)
            except ScenarioError as exc:
                raise ScenarioError(f"{path}: {exc.path}", exc.reason) from exc
            except ConfigError as exc:
                raise ConfigError(f"{path}: {exc.path}", exc.value, exc.rule) from exc


def _documents(path: Path) -> list[Any]:
    try:
        return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]
    except OSError as exc:
        raise UnreadableFileError(f"{path}: {exc.strerror}") from exc
    except (UnicodeDecodeError, yaml.YAMLError) as exc:
        raise UnreadableFileError(f"{path}: {' '.join(str(exc).split())}") from exc


def _rule_of(path: Path) -> DestinationRule:
    """Return the one DestinationRule with outlier detection below `path`.

    Raises:
        UnreadableFileError: A file cannot be read, or there is no such rule, or more than one.
    """
    files = (
        sorted(file for file in path.rglob("*") if file.suffix in {".yaml", ".yml", ".json"})
        if path.is_dir()
        else [path]
    )
    rules = []
    for file in files:
        try:
            contents = read_resources(file.read_text(), str(file))
        except OSError as exc:
            raise UnreadableFileError(f"{file}: {exc.strerror}") from exc
        for issue in contents.errors:
            raise UnreadableFileError(str(issue))
        rules += [
            resource.body
            for resource in contents.resources.values()
            if isinstance(resource.body, DestinationRule)
            and resource.body.traffic_policy is not None
            and resource.body.traffic_policy.outlier_detection is not None
        ]
    if len(rules) != 1:
        raise UnreadableFileError(f"{path}: {len(rules)} DestinationRules with outlierDetection; exactly one is needed")
    return rules[0]


# Telling


def _version(simulation: Simulation) -> str:
    release = simulation.release
    assert isinstance(release, EnvoyRelease)
    return release.value


def _print_group(console: Console, group: Sequence[Simulation]) -> None:
    """Print one scenario: its timeline, with a column for each release where there are several."""
    for simulation in group:
        console.print(_headline(simulation), markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=len(group) > 1)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("host", no_wrap=True)
    for simulation in group:
        table.add_column(f"Envoy {_version(simulation)}")
    if len(group) == 1:
        table.add_column("reason")
        for line in _lines(group[0]):
            table.add_row(_time(line), line.host or "(cluster)", line.kind.value, line.reason)
    else:
        for row in _side_by_side(group):
            first = next(line for line in row if line is not None)
            cells = [f"{line.kind.value}: {line.reason}".rstrip(": ") if line else "" for line in row]
            table.add_row(_time(first), first.host or "(cluster)", *cells)
    console.print(table, highlight=False)
    for simulation in group:
        for unmet in simulation.unmet:
            console.print(f"unmet, Envoy {_version(simulation)}: {unmet}", markup=False, highlight=False)
    console.print()


def _headline(simulation: Simulation) -> str:
    text = f"{simulation.scenario.name}, Envoy {_version(simulation)}: {simulation.end_ms / 1000:g} s"
    if simulation.requests:
        text += f", {simulation.requests} requests, {simulation.failed_requests} failed"
    return f"{text}, {simulation.stats['ejections_enforced_total']} ejections"


def _time(moment: Moment) -> str:
    return f"{moment.at_ms / 1000:.3f} s"


def _lines(simulation: Simulation) -> list[Moment]:
    """Return the timeline for people: a host found again and again, but not ejected, gets one line and a count."""
    found: list[tuple[Moment, int]] = []
    newest: dict[str | None, int] = {}
    for moment in simulation.timeline:
        place = newest.get(moment.host)
        if place is not None and moment.kind is MomentKind.NOT_EJECTED and _alike(moment, found[place][0]):
            found[place] = (found[place][0], found[place][1] + 1)
        else:
            newest[moment.host] = len(found)
            found.append((moment, 1))
    return [
        attrs.evolve(moment, reason=f"{moment.reason} ({times} times)") if times > 1 else moment
        for moment, times in found
    ]


def _alike(one: Moment, other: Moment) -> bool:
    return (one.kind, one.reason) == (other.kind, other.reason)


def _side_by_side(group: Sequence[Simulation]) -> list[tuple[Moment | None, ...]]:
    """Return rows of moments, one column a simulation: what happened to one host at one time stands in one row."""
    rows: dict[tuple[int, str, int], list[Moment | None]] = {}
    for column, simulation in enumerate(group):
        seen: dict[tuple[int, str], int] = {}
        for moment in _lines(simulation):
            place = (moment.at_ms, moment.host or "")
            occurrence = seen[place] = seen.get(place, -1) + 1
            rows.setdefault((*place, occurrence), [None] * len(group))[column] = moment
    return [tuple(rows[key]) for key in sorted(rows)]


def _as_dict(simulation: Simulation) -> dict[str, Any]:
    return {
        "scenario": simulation.scenario.name,
        "envoy_release": _version(simulation),
        "end_ms": simulation.end_ms,
        "requests": simulation.requests,
        "failed_requests": simulation.failed_requests,
        "timeline": [
            {"at_ms": moment.at_ms, "kind": moment.kind.value, "host": moment.host, "reason": moment.reason}
            for moment in simulation.timeline
        ],
        "stats": dict(simulation.stats),
        "unmet": [str(unmet) for unmet in simulation.unmet],
    }


def _check(groups: Sequence[Sequence[Simulation]]) -> int:
    return 1 if any(simulation.unmet for group in groups for simulation in group) else 0
