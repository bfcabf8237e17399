"""`python -m tests.outlier.mutations [NAME...]`: plant faults in a copy of the engine and see whether the tests notice.

Each fault is one small change that keeps the code running: a comparison flipped, a reset dropped, an order swapped. A
fault that no test notices survives; a survivor that is not excused here, with a reason, fails the run.
"""

# ruff: noqa: T201 - a command talks by printing

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.outlier.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
COPIED = (
    "outlier",
    "pyproject.toml",
    "tests/__init__.py",
    "tests/outlier",
    "tests/conformance/__init__.py",
    "tests/conformance/__main__.py",
    "tests/conformance/runner.py",
    "tests/conformance/outlier_detection.py",
    "tests/conformance/test_vectors.py",
    "tests/conformance/vectors/outlier-detection",
)


def plant(fault: Fault, package: Path) -> None:
    """Change the copy of the engine in `package`."""
    file = package / fault.file
    file.write_text(file.read_text().replace(fault.old, fault.new))


def noticed(folder: Path) -> bool:
    """Run the engine's tests in `folder` and return whether one fails."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=no-shrink"]
    options.append("--ignore=tests/outlier/test_mutations.py")  # asks whether the source is as it was
    command = [sys.executable, "-m", "pytest", *options, "tests/conformance", "tests/outlier"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1, 2}:
        raise SystemExit(f"the tests could not be run:\n{done.stdout}{done.stderr}")
    return done.returncode != 0


def main(argv: list[str] | None = None) -> int:
    """Plant each fault in turn; 1 if one survives without an excuse."""
    parser = argparse.ArgumentParser(prog="python -m tests.outlier.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these faults")
    names = set(parser.parse_args(argv).names)
    faults = [fault for fault in FAULTS if not names or fault.name in names]
    survivors = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in COPIED:
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        if noticed(folder):
            raise SystemExit("the tests fail without a fault")
        for fault in faults:
            intact = (folder / "outlier" / fault.file).read_text()
            plant(fault, folder / "outlier")
            started = time.monotonic()
            caught = noticed(folder)
            print(
                f"{'caught  ' if caught else 'SURVIVED'} {time.monotonic() - started:5.1f} s  {fault.name}", flush=True
            )
            (folder / "outlier" / fault.file).write_text(intact)
            if not caught:
                survivors.append(fault)
    for fault in survivors:
        print(f"survivor: {fault.name}: {fault.excuse or 'no excuse'}")
    print(f"{len(faults) - len(survivors)} of {len(faults)} faults caught")
    return 1 if any(not fault.excuse for fault in survivors) else 0


if __name__ == "__main__":
    sys.exit(main())
