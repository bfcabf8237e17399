"""The verdict: the first differences between two transcripts of one scenario, in words."""

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.oracle.driver import Entry, Transcript
from tests.oracle.scenario import Scenario
from tests.oracle.subject import Event


def differences(scenario: Scenario, expected: Transcript, actual: Transcript) -> list[str]:
    """Return one line for each difference, in the order in which they arose; empty when both agree.

    Of the trace only the first step that differs is told: what follows it is its consequence.
    """
    found = list(_trace_differences(expected.entries, actual.entries))
    found += _pairwise("event", events(scenario, expected), events(scenario, actual))
    found += _pairwise("final state of host", expected.hosts, actual.hosts)
    missing = sorted(expected.stat_names - actual.stat_names)
    extra = sorted(actual.stat_names - expected.stat_names)
    if missing or extra:
        found.append(f"statistics: missing {missing}, unknown {extra}")
    return found


def events(scenario: Scenario, transcript: Transcript) -> list[str]:
    """Return the event log in comparable form; of times only the multiple of the base that each ejection took.

    Hosts that one sweep unejects or judges are listed by number, because Envoy walks them in the order of a hash map.
    """
    ejected_at: dict[int, int] = {}
    lines: list[tuple[str, int, str]] = []
    for host, event in transcript.events:
        text = f"host {host} {_comparable(event)}"
        if event.line["action"] == "UNEJECT":
            text += f" after {_lasted(scenario, event, ejected_at.get(host))}"
        elif event.line["enforced"]:
            ejected_at[host] = event.time_ms
        lines.append((_sweep_kind(event), host, text))
    ordered: list[str] = []
    for kind, run in itertools.groupby(lines, key=operator.itemgetter(0)):
        ordered += [text for _, _, text in (sorted(run) if kind else run)]
    return ordered


def _sweep_kind(event: Event) -> str:
    """Return what a sweep was doing when it logged this event; empty for an event of no sweep."""
    if event.line["action"] == "UNEJECT":
        return "unejecting"
    kind = str(event.line["type"])
    return kind if kind.startswith(("SUCCESS_RATE", "FAILURE_PERCENTAGE")) else ""


def _lasted(scenario: Scenario, event: Event, ejected_at_ms: int | None) -> str:
    if ejected_at_ms is None:
        return "no ejection"
    if scenario.base_ejection_time_ms <= scenario.interval_ms:
        return "any time"  # the sweep decides, and it comes when it comes
    return f"{(event.time_ms - ejected_at_ms) // scenario.base_ejection_time_ms} x base"


def _comparable(event: Event) -> str:
    fields: dict[str, Any] = {
        name: value for name, value in event.line.items() if name not in ("timestamp", "cluster_name", "upstream_url")
    }
    if "secs_since_last_action" in fields:
        fields["secs_since_last_action"] = "present"
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _trace_differences(expected: Sequence[Entry], actual: Sequence[Entry]) -> Iterator[str]:
    for number, (left, right) in enumerate(zip(expected, actual, strict=True)):
        found = [
            f"{name}: {getattr(left, name)} against {getattr(right, name)}"
            for name in ("answers", "others", "rates")
            if getattr(left, name) != getattr(right, name)
        ]
        found += _mapping_differences(left.stats, right.stats)
        if found:
            yield from (f"step {number} ({left.step}): {text}" for text in found)
            return


def _mapping_differences(expected: Mapping[str, int], actual: Mapping[str, int]) -> Iterator[str]:
    for name in sorted(expected.keys() | actual.keys()):
        if expected.get(name, 0) != actual.get(name, 0):
            yield f"{name}: {expected.get(name, 0)} against {actual.get(name, 0)}"


def _pairwise(what: str, expected: Sequence[object], actual: Sequence[object]) -> Iterator[str]:
    for number in range(max(len(expected), len(actual))):
        left = expected[number] if number < len(expected) else None
        right = actual[number] if number < len(actual) else None
        if left != right:
            yield f"{what} {number}: {left} against {right}"
