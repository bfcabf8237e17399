"""Runs targets on input after input, and keeps what it finds in a form that repeats it."""

import collections
import gc
import json
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import attrs

from tests.fuzz.target import FindingError, Target, cut

HANG_S = 10  # wall time of one input: nothing here takes a hundredth of it
CPU_S = 0.5  # beside a share for each byte
CPU_S_PER_BYTE = 200e-6
BATCH = 500  # inputs between two looks for what is alive
MINIMISE_S = 5.0
MAX_FILES = 20
_ALIVE = "alive after its end"


class HangError(Exception):
    """Raised when an input takes too long."""


@attrs.frozen
class Finding:
    """A broken rule, and the pieces that break it."""

    target: str
    problem: str
    pieces: list[bytes]

    @property
    def kind(self) -> str:
        """What makes two findings one: the target, and the problem without its particulars."""
        return f"{self.target}: {self.problem.partition(':')[0]}"

    def write(self, path: Path) -> None:
        """Write it so that `read` and `--replay` take it."""
        pieces = [piece.hex() for piece in self.pieces]
        text = json.dumps({"target": self.target, "problem": self.problem, "pieces": pieces}, indent=1)
        path.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Finding":
        """Return what `write` has written."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(fields["target"], fields["problem"], [bytes.fromhex(piece) for piece in fields["pieces"]])


class Fuzzer:
    """One run; `executions` counts inputs, each of which is fed whole and in pieces."""

    def __init__(self, targets: Sequence[Target], seed: str) -> None:
        self._targets = targets
        self._seed = seed
        self.executions = 0
        self.kinds: collections.Counter[str] = collections.Counter()
        self.findings: dict[str, Finding] = {}
        self.resident_mb: list[float] = []
        self._broken = False  # whether a run of this batch has ended in a finding

    def run(self, *, inputs: int | None = None, seconds: float | None = None) -> None:
        """Feed so many inputs, or for so long."""
        deadline = None if seconds is None else time.monotonic() + seconds
        gc.collect()
        gc.freeze()  # what there is already need not be looked through each time
        gc.disable()
        try:
            while (inputs is None or self.executions < inputs) and (deadline is None or time.monotonic() < deadline):
                self._batch(BATCH if inputs is None else min(BATCH, inputs - self.executions))
        finally:
            gc.enable()
            gc.unfreeze()

    def _batch(self, count: int) -> None:
        first = self.executions
        self._broken = False
        for number in range(first, first + count):
            target, data, pieces = self._input(number)
            self._keep(self.check(target, data, pieces), data, target)
        self.executions += count
        # A broken run leaves things alive, which is no finding of its own.
        leaking = [target for target in self._targets if _alive([target])] if not self._broken else []
        gc.collect()
        for target in leaking:
            if f"{target.name}: {_ALIVE}" not in self.findings:
                self._find_leak(target, range(first, first + count))
        self.resident_mb.append(resident_mb())

    def _find_leak(self, suspect: Target, numbers: range) -> None:
        """Feed the inputs of a batch again, one by one, until one leaves something alive."""
        for number in numbers:
            target, data, pieces = self._input(number)
            if target is not suspect or self.check(target, data, pieces) is not None:
                continue
            if alive := _alive([target]):
                self._keep(Finding(target.name, f"{_ALIVE}: {alive}", pieces), data, target)
                break
        gc.collect()

    def _input(self, number: int) -> tuple[Target, bytes, list[bytes]]:
        target = self._targets[number % len(self._targets)]
        chance = random.Random(f"{self._seed}/{number}")
        data = target.make_input(chance)
        return target, data, cut(data, chance)

    def check(self, target: Target, data: bytes, pieces: list[bytes]) -> Finding | None:
        """Feed an input whole and in pieces; return what is wrong with it."""
        problem = None
        started = time.thread_time()
        fed = [data]
        try:
            with _limited():
                whole = target.run(fed)
                fed = pieces
                parts = target.run(fed)
            self.kinds.update(f"{target.name}: {kind}" for kind in whole.kinds)
            if whole.told != parts.told:
                problem = f"disagreement: whole {whole.told!r}, in pieces {parts.told!r}"
        except FindingError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            problem = f"{type(error).__name__}: {error}"
        spent = time.thread_time() - started
        if problem is None and spent > CPU_S + CPU_S_PER_BYTE * len(data):
            problem = f"slow: {spent:.2f} s of CPU for {len(data)} bytes"
        if problem is None:
            return None
        self._broken = True
        target.recover()
        return Finding(target.name, problem, fed)

    def _keep(self, finding: Finding | None, data: bytes, target: Target) -> None:
        if finding is None or finding.kind in self.findings or len(self.findings) >= MAX_FILES:
            return
        self.findings[finding.kind] = self._minimised(finding, data, target)

    def _minimised(self, finding: Finding, data: bytes, target: Target) -> Finding:
        """Return the same finding with fewer bytes, if leaving out some keeps it, fed byte by byte."""
        deadline = time.monotonic() + MINIMISE_S

        def broken(candidate: bytes) -> Finding | None:
            found = self.check(target, candidate, [candidate[index : index + 1] for index in range(len(candidate))])
            return found if found is not None and found.kind == finding.kind else None

        best = broken(data)
        if best is None:
            return finding
        size = len(data) // 2
        while size and time.monotonic() < deadline:
            start = 0
            while start < len(data) and time.monotonic() < deadline:
                shorter = data[:start] + data[start + size :]
                if (found := broken(shorter)) is not None:
                    best, data = found, shorter
                else:
                    start += size
            size //= 2
        return best


def resident_mb() -> float:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _alive(targets: Sequence[Target]) -> dict[str, int]:
    """Count the objects of connections that have ended; only the collector would free them."""
    types = tuple({kind for target in targets for kind in target.alive()})
    found = collections.Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, types))
    return dict(found)


@contextmanager
def _limited() -> Iterator[None]:
    def on_alarm(_: int, __: FrameType | None) -> None:
        raise HangError(f"still running after {HANG_S} s")

    before: Any = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(HANG_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
