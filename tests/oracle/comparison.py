"""Runs scenarios on two proxies, one after the other, on the same upstream addresses, and says what differs."""

import asyncio
from collections.abc import Callable, Sequence

import attrs

from tests.oracle.driver import CONCURRENT_SCENARIOS, SETTLE_S, Stage, Transcript, run
from tests.oracle.patience import patiently
from tests.oracle.scenario import Scenario
from tests.oracle.service import Service
from tests.oracle.subject import Subject
from tests.oracle.verdict import differences

# A repetition gives Envoy's other thread more time, and few scenarios share the machine.
PATIENT_CONCURRENT_SCENARIOS = 8

MakeSubject = Callable[[Sequence[Service]], Subject]


@attrs.frozen
class Comparison:
    """What two proxies made of one scenario; `repeated` when they did not agree at once."""

    scenario: Scenario
    differences: list[str]
    repeated: bool = False


async def transcripts(
    scenarios: Sequence[Scenario],
    subjects: Sequence[MakeSubject],
    *,
    settle_s: float = SETTLE_S,
    concurrent: int = CONCURRENT_SCENARIOS,
) -> list[list[Transcript]]:
    """Return a list of transcripts for each kind of proxy, in the order of the scenarios.

    The same addresses serve one proxy after the other: with hashing all then build the same ring.
    """
    stages = [Stage(number, scenario) for number, scenario in enumerate(scenarios)]
    results = []
    try:
        for make_subject in subjects:
            async with make_subject([stage.service for stage in stages]) as subject:
                results.append(await run(stages, subject, settle_s=settle_s, concurrent=concurrent))
    finally:
        for stage in stages:
            stage.close()
    return results


def compare(scenarios: Sequence[Scenario], subjects: Sequence[MakeSubject]) -> list[Comparison]:
    """Return one comparison of two kinds of proxy for each scenario, in order.

    Envoy ejects a host some time after the failure, and a machine may stand still; a scenario that differs is therefore
    run again, slowly. What differs then too is no matter of luck.
    """
    repeated: set[str] = set()

    def observe(chosen: Sequence[Scenario], scale: int) -> list[list[str]]:
        if scale > 1:
            repeated.update(scenario.name for scenario in chosen)
        slower = [scenario.slower(scale) for scenario in chosen]
        return asyncio.run(_differences(slower, subjects, scale))

    found = patiently(scenarios, observe, lambda _, differing: not differing)
    return [
        Comparison(scenario, differing, repeated=scenario.name in repeated)
        for scenario, differing in zip(scenarios, found, strict=True)
    ]


async def _differences(scenarios: Sequence[Scenario], subjects: Sequence[MakeSubject], scale: int) -> list[list[str]]:
    settle_s = SETTLE_S * scale**1.5  # almost a second in the end
    concurrent = CONCURRENT_SCENARIOS if scale == 1 else PATIENT_CONCURRENT_SCENARIOS
    compared = await transcripts(scenarios, subjects, settle_s=settle_s, concurrent=concurrent)
    return [differences(scenario, *pair) for scenario, *pair in zip(scenarios, *compared, strict=True)]
