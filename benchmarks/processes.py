"""Commands that a benchmark needs, and what the kernel says of running processes."""

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def require(command: str, package: str) -> str:
    """Return the path of a command.

    Raises:
        SystemExit: It is not installed; the message names the package that brings it.
    """
    # Debian keeps servers in /usr/sbin, which is not on every user's PATH.
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"))
    path = shutil.which(command, path=search)
    if path is None:
        raise SystemExit(f"{command} is not installed; {package} brings it")
    return path


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
    """Return the user and system time of a process, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_descriptors(pid: int) -> int:
    """Return how many file descriptors a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def processor_name() -> str:
    """Return the model of this machine's processor, for the table's caption."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"
