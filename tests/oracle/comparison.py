"""Runs scenarios on two proxies, one after the other, on the same upstream addresses."""

from collections.abc import Callable, Iterable, Sequence

from tests.oracle.driver import Stage, Transcript, run
from tests.oracle.scenario import Scenario
from tests.oracle.service import Service
from tests.oracle.subject import Subject


async def transcripts(
    scenarios: Sequence[Scenario], subjects: Iterable[Callable[[Sequence[Service]], Subject]]
) -> list[list[Transcript]]:
    """Return a list of transcripts for each kind of proxy, in the order of the scenarios.

    The same addresses matter for hashing: both proxies then build the same ring.
    """
    stages = [Stage(number, scenario) for number, scenario in enumerate(scenarios)]
    results = []
    try:
        for subject_class in subjects:
            async with subject_class([stage.service for stage in stages]) as subject:
                results.append(await run(stages, subject))
    finally:
        for stage in stages:
            stage.close()
    return results
