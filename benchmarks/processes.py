"""Commands that a benchmark needs, and what the kernel says of running processes."""

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

NOT_INSTALLED = 77  # exit code of a benchmark that misses a tool; automake's tests say "skipped" with it
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def find(command: str) -> str | None:
    """Return the path of a command, None when it is not installed."""
    # Debian keeps servers in /usr/sbin, which is not on every user's PATH.
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"))
    return shutil.which(command, path=search)


def require(command: str, package: str) -> str:
    """Return the path of a command.

    Raises:
        SystemExit: It is not installed: `NOT_INSTALLED`, after a line on stderr that names the package that brings it.
    """
    path = find(command)
    if path is None:
        give_up(f"{command} is not installed; {package} brings it")
    return path


def give_up(reason: str) -> NoReturn:
    """End this benchmark because of something that the machine does not have.

    Raises:
        SystemExit: `NOT_INSTALLED`.
    """
    print(reason, file=sys.stderr)
    raise SystemExit(NOT_INSTALLED)


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """Run this process on one core; what it starts meanwhile stays there, with all its threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process and of those it has started, all threads together."""
    ticks = 0
    for process in family(pid):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and of those it has started."""
    pages = sum(int(Path(f"/proc/{process}/statm").read_text().split()[1]) for process in family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """Return a process and all that live below it."""
    found = [pid]
    for process in found:
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
                found += map(int, children.read_text().split())
    return found


def open_descriptors(pid: int) -> int:
    """Return how many file descriptors a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def processor_name() -> str:
    """Return the model of this machine's processor, for the table's caption."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"
