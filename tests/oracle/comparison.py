"""Runs scenarios on two proxies, one after the other, on the same upstream addresses, and says what differs."""

from collections.abc import Callable, Sequence

import attrs

from tests.oracle.driver import CONCURRENT_SCENARIOS, SETTLE_S, Stage, Transcript, run
from tests.oracle.scenario import Scenario
from tests.oracle.service import Service
from tests.oracle.subject import Subject
from tests.oracle.verdict import differences

# The second time: Envoy's other thread has all the time it may need, even on a busy machine, and few scenarios share
# it.
PATIENT_SETTLE_S = 0.1
PATIENT_CONCURRENT_SCENARIOS = 4

MakeSubject = Callable[[Sequence[Service]], Subject]


@attrs.frozen
class Comparison:
    """What two proxies made of one scenario; `repeated` when they agreed only the second time."""

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


async def compare(scenarios: Sequence[Scenario], subjects: Sequence[MakeSubject]) -> list[Comparison]:
    """Return one comparison of two kinds of proxy for each scenario, in order.

    Envoy ejects a host some time after the failure; a scenario that differs is therefore run once more, slowly. What
    differs then too is no matter of luck.
    """
    first = [
        differences(*compared) for compared in zip(scenarios, *await transcripts(scenarios, subjects), strict=True)
    ]
    doubtful = [scenario for scenario, found in zip(scenarios, first, strict=True) if found]
    if not doubtful:
        return [Comparison(scenario, []) for scenario in scenarios]
    slow = await transcripts(doubtful, subjects, settle_s=PATIENT_SETTLE_S, concurrent=PATIENT_CONCURRENT_SCENARIOS)
    again = iter([differences(*compared) for compared in zip(doubtful, *slow, strict=True)])
    return [
        Comparison(scenario, next(again), repeated=True) if found else Comparison(scenario, [])
        for scenario, found in zip(scenarios, first, strict=True)
    ]
