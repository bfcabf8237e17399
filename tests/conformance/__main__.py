"""`python -m tests.conformance PATH...`: run vector files, or folders of them, and say what does not agree."""

# ruff: noqa: T201 - a command talks by printing

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.runner import UnknownFileError, load_cases, run


def main(argv: list[str] | None = None) -> int:
    """Run the cases below the paths; 1 if one fails, 2 if a path cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a vector file, or a folder of them")
    parser.add_argument("--verbose", action="store_true", help="name the skipped cases too, and why")
    options = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    try:
        for _family, file, case in load_cases(options.paths):
            outcome = run(case)
            counts[outcome.result] += 1
            if outcome.result == "failed" or (options.verbose and outcome.result == "skipped"):
                print(f"{outcome.result.upper()} {file.name} {outcome.case_id}: {outcome.message}")
    except UnknownFileError as exc:
        print(exc, file=sys.stderr)
        return 2
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
