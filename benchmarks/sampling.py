"""Where a running Python process spends its time: py-spy's samples, summed by function."""

import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import attrs
from rich.table import Table

from benchmarks.processes import require

# Threads of a pool that wait for work; py-spy takes them for busy.
_WAITING = "_worker (concurrent/futures/thread.py"


@attrs.frozen
class Spent:
    """One function: the share of samples in itself, and in itself with what it calls; both in percent."""

    function: str
    own_percent: float
    total_percent: float


def sample(pid: int, seconds: float) -> list[Spent]:
    """Watch a process that is under load; return its functions, those with most time of their own first.

    Raises:
        RuntimeError: The process cannot be watched, for want of rights.
    """
    with tempfile.TemporaryDirectory(prefix="samples-") as directory:
        stacks = Path(directory, "stacks")
        done = subprocess.run(
            [
                *(require("py-spy", "the Python package py-spy"), "record", "--pid", str(pid), "--rate", "500"),
                *("--duration", f"{max(1, round(seconds))}", "--format", "raw", "--output", str(stacks)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"py-spy failed: {done.stderr}")
        return summed(stacks.read_text())


def summed(stacks: str) -> list[Spent]:
    """Read stacks, one a line: frames from the outermost inwards, divided by semicolons, and how often it was seen."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack.rpartition(";")[2].startswith(_WAITING):
            continue
        # `function (path:line)`: lines of one function belong together.
        frames = [frame.rpartition(":")[0] + ")" if frame.endswith(")") else frame for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            total[frame] += int(count)
    every = sum(own.values()) or 1
    return [Spent(name, 100 * seen / every, 100 * total[name] / every) for name, seen in own.most_common()]


def table(spent: list[Spent], title: str, *, rows: int = 25) -> Table:
    """Return the first rows as a table."""
    shown = Table(title=title, caption="share of samples, in percent")
    for heading in ("function", "own", "with calls"):
        shown.add_column(heading, justify="left" if heading == "function" else "right", no_wrap=True)
    for each in spent[:rows]:
        shown.add_row(each.function, f"{each.own_percent:.1f}", f"{each.total_percent:.1f}")
    return shown
