"""How much Python a piece of work is: executed opcodes, calls, and the memory it holds at its dearest moment.

Unlike times these do not depend on the machine or on who else uses it: the same code counts the same, on the same
minor version of Python. What C extensions do inside one call is one call.
"""

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

_OWN_FOLDER = str(Path(__file__).parent)


class Counting:
    """Counts what this thread executes inside a `with` block, the modules of this folder left out.

    `calls` are those of Python functions and of C functions.
    """

    def __init__(self) -> None:
        self.opcodes = 0
        self.calls = 0
        self._own: dict[CodeType, bool] = {}

    def __enter__(self) -> Self:
        self._before = (sys.gettrace(), sys.getprofile())
        sys.setprofile(self._on_profile)
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        trace, profile = self._before
        sys.settrace(trace)
        sys.setprofile(profile)

    def _is_own(self, code: CodeType) -> bool:
        if code not in self._own:
            self._own[code] = code.co_filename.startswith(_OWN_FOLDER)
        return self._own[code]

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._is_own(frame.f_code):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._on_opcode

    def _on_opcode(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            self.opcodes += 1
        return self._on_opcode

    def _on_profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_call") and not self._is_own(frame.f_code):
            self.calls += 1


def count_of(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return what one of so many repetitions counts, after a warm-up that fills caches."""
    for _ in range(repeats):
        work()
    with Counting() as count:
        for _ in range(repeats):
            work()
    return {"opcodes": count.opcodes / repeats, "calls": count.calls / repeats}


class PeakMemory:
    """The most bytes that Python objects hold between `begin` and `end`, above those held at `begin`."""

    def __enter__(self) -> Self:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        tracemalloc.stop()

    def begin(self) -> None:
        """Start a measurement."""
        tracemalloc.reset_peak()
        self._before, _ = tracemalloc.get_traced_memory()

    def end(self) -> int:
        """Return the bytes."""
        return tracemalloc.get_traced_memory()[1] - self._before
