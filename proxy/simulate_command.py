"""`outlier simulate`: what a rule would do to hosts that misbehave, in virtual time, before it ships.

Reads scenarios (docs/scenarios.md), runs them under one or several Envoy releases, and under a second rule if there is
one, and prints what happened and why. Traffic that has happened is `replay_command`'s.
"""

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml
from rich.console import Console
from rich.progress import Progress
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
from proxy import replay_command
from proxy.config.destination_rule import DestinationRule
from proxy.config.resource import read_resources
from proxy.config.scenario_reader import read_scenario
from proxy.config.service_clusters import ConversionContext
from proxy.config_options import add_view_options, conversion_context, view_from_args
from proxy.errors import ProxyError

VIEW_OPTIONS = frozenset({"istio_release", "namespace"})


class UnreadableFileError(ProxyError):
    """Raised when a scenario or a rule cannot be read; the message names the file."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier simulate`."""
    parser = subparsers.add_parser(
        "simulate",
        help="run a scenario in virtual time",
        description="Run scenarios in virtual time and print what is ejected, when and why. "
        "With several releases, or a shadow rule, the differences show side by side. "
        "With --replay, run the requests of an access log instead.",
        epilog="example: outlier simulate docs/scenarios/one-of-three.yaml --check --plot hosts.svg\n"
        "example: outlier simulate --replay access.jsonl --config new.yaml",
    )
    parser.add_argument(
        "scenarios", nargs="*", type=Path, metavar="SCENARIO", help="a YAML file of one or more scenarios"
    )
    parser.add_argument(
        "--config", type=Path, metavar="PATH", help="take the rule from this file or folder of resources"
    )
    parser.add_argument(
        "--shadow", type=Path, metavar="PATH", help="run each scenario under the rule in this file or folder too"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="LOG", help="run an access log, JSON lines, against the rules of --config"
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
    add_view_options(parser, VIEW_OPTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the scenarios; return 1 if `--check` found an expectation unmet.

    Raises:
        ProxyError: A file cannot be read, or the plot cannot be drawn.
        OutlierError: A scenario or a rule is refused, or an option is missing.
    """
    view = view_from_args(args, VIEW_OPTIONS)
    if args.replay:
        return replay_command.run(args, view)
    if not args.scenarios:
        raise ConfigError("SCENARIO", "nothing", "at least one scenario, or --replay, is needed")
    rule = _rule_of(args.config) if args.config else None
    shadow = _rule_of(args.shadow) if args.shadow else None
    groups = [
        list(_columns(scenario, _releases(args.envoy_release) or scenario.releases, shadowed))
        for path in args.scenarios
        for scenario, shadowed in _read(path, rule, shadow, conversion_context(view))
    ]
    if args.format == "json":
        print(json.dumps([_as_dict(column) for group in groups for column in group], ensure_ascii=False))  # noqa: T201
    else:
        console = Console()
        for group in groups:
            _print_group(console, group)
    if args.plot:
        from proxy.simulate_plot import plot

        plot([column.simulation for group in groups for column in group], args.plot)
    return _check(groups) if args.check else 0


@attrs.frozen
class _Column:
    """One simulation of a scenario; `is_shadow` tells one under the shadow rule."""

    simulation: Simulation
    is_shadow: bool

    @property
    def release(self) -> str:
        release = self.simulation.release
        assert isinstance(release, EnvoyRelease)
        return release.value

    @property
    def label(self) -> str:
        return f"Envoy {self.release}{', shadow rule' if self.is_shadow else ''}"


def _columns(scenario: Scenario, releases: Sequence[EnvoyRelease], shadow: Scenario | None) -> Iterator[_Column]:
    """Run a scenario in every way asked for; under the shadow rule the hosts behave as under the live one."""
    for release in releases:
        yield _Column(_simulate(scenario, release), is_shadow=False)
        if shadow is not None:
            yield _Column(_simulate(shadow, release), is_shadow=True)


def _simulate(scenario: Scenario, release: EnvoyRelease) -> Simulation:
    """Run one simulation, with a bar on a terminal's stderr."""
    console = Console(stderr=True)
    if scenario.traffic is None or not console.is_terminal:
        return simulate(scenario, release)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(scenario.name, total=scenario.traffic.duration_ms)
        return simulate(scenario, release, on_progress=lambda now_ms: progress.update(task, completed=now_ms))


def _releases(versions: Sequence[str] | None) -> tuple[EnvoyRelease, ...]:
    return tuple(EnvoyRelease(version) for version in versions or ())


# Reading


def _read(
    path: Path, rule: DestinationRule | None, shadow: DestinationRule | None, context: ConversionContext
) -> Iterator[tuple[Scenario, Scenario | None]]:
    """Yield the scenarios of a file, one a document or those of a document's `cases`; each with its shadow, if any.

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
                data = {"name": path.stem, **data}
                scenario = read_scenario(data, rule=rule, istio=context.release, mesh=context.mesh)
                shadowed = None
                if shadow is not None:
                    shadowed = read_scenario(data, rule=shadow, istio=context.release, mesh=context.mesh)
                yield scenario, shadowed
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


def _print_group(console: Console, group: Sequence[_Column]) -> None:
    """Print one scenario: its timeline, with a column for each release and rule where there are several."""
    for column in group:
        console.print(_headline(column), markup=False, highlight=False)
    for live, shadow in _pairs(group):
        console.print(_comparison(live, shadow), markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=len(group) > 1)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("host", no_wrap=True)
    for column in group:
        table.add_column(column.label)
    if len(group) == 1:
        table.add_column("reason")
        for line in _lines(group[0].simulation):
            table.add_row(_time(line), line.host or "(cluster)", line.kind.value, line.reason)
    else:
        for row in _side_by_side(group):
            first = next(line for line in row if line is not None)
            cells = [f"{line.kind.value}: {line.reason}".rstrip(": ") if line else "" for line in row]
            table.add_row(_time(first), first.host or "(cluster)", *cells)
    console.print(table, highlight=False)
    for column in group:
        for unmet in () if column.is_shadow else column.simulation.unmet:
            console.print(f"unmet, {column.label}: {unmet}", markup=False, highlight=False)
    console.print()


def _pairs(group: Sequence[_Column]) -> Iterator[tuple[Simulation, Simulation]]:
    """Yield each release's simulation under the live rule with that under the shadow rule."""
    for live, shadow in itertools.pairwise(group):
        if shadow.is_shadow:
            yield live.simulation, shadow.simulation


def _comparison(live: Simulation, shadow: Simulation) -> str:
    saved = live.failed_requests - shadow.failed_requests
    verdict = f"saves {saved}" if saved > 0 else f"costs {-saved}" if saved < 0 else "saves and costs none"
    return f"the shadow rule {verdict} of {live.requests} requests"


def _headline(column: _Column) -> str:
    simulation = column.simulation
    text = f"{simulation.scenario.name}, {column.label}: {simulation.end_ms / 1000:g} s"
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


def _side_by_side(group: Sequence[_Column]) -> list[tuple[Moment | None, ...]]:
    """Return rows of moments, one column a simulation: what happened to one host at one time stands in one row."""
    rows: dict[tuple[int, str, int], list[Moment | None]] = {}
    for number, column in enumerate(group):
        seen: dict[tuple[int, str], int] = {}
        for moment in _lines(column.simulation):
            place = (moment.at_ms, moment.host or "")
            occurrence = seen[place] = seen.get(place, -1) + 1
            rows.setdefault((*place, occurrence), [None] * len(group))[number] = moment
    return [tuple(rows[key]) for key in sorted(rows)]


def _as_dict(column: _Column) -> dict[str, Any]:
    simulation = column.simulation
    return {
        "scenario": simulation.scenario.name,
        "envoy_release": column.release,
        "shadow": column.is_shadow,
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


def _check(groups: Sequence[Sequence[_Column]]) -> int:
    """Return 1 if an expectation was not met; they are the live rule's, a shadow need not meet them."""
    return 1 if any(column.simulation.unmet for group in groups for column in group if not column.is_shadow) else 0
