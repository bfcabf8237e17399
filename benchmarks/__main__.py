"""Every claim, measured: `python -m benchmarks`.

Runs all parts one after the other, shows their progress and then one table, and keeps what they found in
`benchmarks/results`. A part that fails is shown with its error and the others still run; what a part needs and this
machine does not have is named in the table.
"""

import argparse
import functools
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.status import Status

from benchmarks import result
from benchmarks.parts import PARTS
from benchmarks.report import rewrite_readmes, terminal_table

# A table is read where it was kept: in a file, or in a log that is 80 columns wide and folds it.
LEAST_WIDTH = 150


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; return 1 when one failed or a limit is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [part.name for part in PARTS]
    parser.add_argument("--only", metavar="NAMES", help=f"some parts, separated by commas: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that all works; nothing is kept")
    parser.add_argument("--readme", action="store_true", help="run nothing; write what was kept into the READMEs")
    options = parser.parse_args(arguments)
    if options.readme:
        rewrite_readmes(result.read_results())
        return 0
    wanted = options.only.split(",") if options.only else names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"--only: unknown {', '.join(unknown)}; known are {', '.join(names)}")
    parts = [part for part in PARTS if part.name in wanted]
    progress = Console(stderr=True)
    found = []
    for position, part in enumerate(parts, 1):
        about = "" if options.quick else f", about {part.seconds} s"
        progress.print(
            f"[{position}/{len(parts)}] {part.name}: {part.shows}{about}", markup=False, highlight=False, soft_wrap=True
        )
        with progress.status(part.name) as status:
            load = result.present_load()
            tell = functools.partial(_tell, status)
            taken = result.run(part, quick=options.quick, load=load, tell=tell)
        found.append(taken)
        outcome = taken.status if taken.right else "failed" if taken.message else "a limit is not kept"
        progress.print(
            f"    {outcome} in {taken.seconds} s {taken.message}", markup=False, highlight=False, soft_wrap=True
        )
        if not options.quick:
            taken.write(result.RESULTS)
    console = Console()
    console.width = max(console.width, LEAST_WIDTH)
    console.print(terminal_table(found))
    return 0 if all(taken.right for taken in found) else 1


def _tell(status: Status, line: str) -> None:
    status.update(line[:100])


if __name__ == "__main__":
    sys.exit(main())
