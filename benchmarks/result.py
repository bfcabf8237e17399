"""What one part of `python -m benchmarks` has found: run, kept in a file of `benchmarks/results`, read again.

The file's form is described in `benchmarks/README.md`.
"""

import datetime as dt
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from benchmarks.claims import Claim
from benchmarks.parts import PARTS, Part
from benchmarks.processes import NOT_INSTALLED, processor_name

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
MEASURED, FAILED, SKIPPED = "measured", "failed", "skipped"
_QUIET_LOAD = 0.5  # what a machine does for itself is less
# A part on a busy machine takes longer than its time; one that takes so much longer hangs.
_PATIENCE, _LEAST_PATIENCE_S = 4, 300


@attrs.frozen(kw_only=True)
class Result:
    """One part as it was run.

    `load` is how many processes ran or waited to run just before it. `message` says why there are no
    claims, `skipped` which competitors are missing.
    """

    part: str
    command: str
    date: str
    seconds: int
    machine: dict[str, Any]
    load: float
    status: str
    message: str = ""
    skipped: dict[str, str] = attrs.field(factory=dict)
    claims: tuple[Claim, ...] = ()
    figures: dict[str, Any] = attrs.field(factory=dict)

    @property
    def busy(self) -> bool:
        """Whether others used the machine, too."""
        return self.load > _QUIET_LOAD

    @property
    def right(self) -> bool:
        """Whether nothing failed and every limit is kept."""
        return self.status != FAILED and all(claim.kept for claim in self.claims)

    def write(self, folder: Path) -> None:
        """Write it to its file in a folder: a line for each field, and for each claim."""
        message = attrs.asdict(self, recurse=False) | {"claims": [claim.message() for claim in self.claims]}
        claims = ",\n".join(f"  {json.dumps(claim)}" for claim in message["claims"])
        texts = {key: json.dumps(value) for key, value in message.items()}
        texts["claims"] = f"[\n{claims}\n ]" if claims else "[]"
        lines = ",\n".join(f' "{key}": {text}' for key, text in texts.items())
        folder.mkdir(exist_ok=True)
        (folder / f"{self.part}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")

    @classmethod
    def from_text(cls, text: str) -> "Result":
        """Return what `write` wrote."""
        fields = json.loads(text)
        return cls(**fields | {"claims": tuple(Claim.from_message(claim) for claim in fields["claims"])})


def read_results(folder: Path = RESULTS) -> list[Result]:
    """Return the results in a folder, in the order of the parts."""
    found = {path.stem: Result.from_text(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    return [found[part.name] for part in PARTS if part.name in found]


def machine() -> dict[str, Any]:
    """Return what a reader has to know of this machine: nothing that names it."""
    kernel = ".".join(platform.release().split(".")[:2])
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9),
        "system": f"{platform.system()} {kernel}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def present_load() -> float:
    """Return how many processes run or wait to run, this one left out, on average of a second."""
    counts = []
    for _ in range(50):
        time.sleep(0.02)
        counts.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)
    return round(sum(counts) / len(counts), 2)


def run(part: Part, *, quick: bool, load: float, tell: Callable[[str], None]) -> Result:
    """Run a part in a process of its own, and return what it found; `tell` gets each line of its progress."""
    command = part.command(quick=quick)
    start = time.monotonic()
    errors: list[str] = []
    limit_s = max(part.seconds * _PATIENCE, _LEAST_PATIENCE_S)
    with subprocess.Popen(
        [sys.executable, "-m", *command, "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that what it has started can be ended with it
    ) as process:
        reading = threading.Thread(target=_read_errors, args=(process, errors, tell), daemon=True)
        reading.start()
        overdue = threading.Timer(limit_s, _end, (process,))
        overdue.start()
        try:
            assert process.stdout is not None
            output = process.stdout.read()
            process.wait()
        finally:
            overdue.cancel()
            _end(process)
            reading.join()
    found = outcome(process.returncode, output, errors, limit_s)
    return Result(
        part=part.name,
        command=f"python -m {' '.join(command)}",
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        seconds=round(time.monotonic() - start),
        machine=machine(),
        load=load,
        **found,
    )


def outcome(code: int, output: str, errors: list[str], limit_s: int) -> dict[str, Any]:
    """Return status, message, claims and figures of a part that has ended with this code and these outputs."""
    why = errors[-1] if errors else f"exit code {code}"
    if code == NOT_INSTALLED:
        return {"status": SKIPPED, "message": why}
    if code == -signal.SIGKILL:
        return {"status": FAILED, "message": f"had not ended after {limit_s} s"}
    last = output.rstrip().rpartition("\n")[2]
    try:
        figures = json.loads(last)
        claims = tuple(Claim.from_message(claim) for claim in figures.pop("claims"))
    except (ValueError, AttributeError, KeyError):
        return {"status": FAILED, "message": why}
    skipped = figures.pop("skipped", {})
    if code and all(claim.kept for claim in claims):
        return {"status": FAILED, "message": why, "skipped": skipped, "figures": figures}
    return {"status": MEASURED, "claims": claims, "skipped": skipped, "figures": figures}


def _read_errors(process: "subprocess.Popen[str]", errors: list[str], tell: Callable[[str], None]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text := line.strip():
            errors.append(text)
            tell(text)


def _end(process: "subprocess.Popen[str]") -> None:
    """End the whole family of a part, whatever is left of it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
