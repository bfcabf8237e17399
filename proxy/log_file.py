"""A file that one line after another goes to, and that somebody may rename while it is open (logrotate)."""

import os
import sys
from pathlib import Path

from proxy.errors import ProxyError

STDOUT = Path("-")


class LogFileError(ProxyError):
    """Raised when a log file cannot be opened; `path` names it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: cannot be opened for writing; {reason}")
        self.path = path


class LogFile:
    """Appends lines; each is in the file when `write_line` returns.

    Args:
        path: The file, made when it is not there; `-` is stdout.

    Raises:
        LogFileError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._open()

    def write_line(self, line: str) -> None:
        """Append one line, without its newline."""
        if self._path == STDOUT:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        else:
            os.write(self._descriptor, f"{line}\n".encode())

    def reopen(self) -> None:
        """Close and open again by name; if that fails the open file stays in use.

        Raises:
            LogFileError: The file cannot be opened.
        """
        new = self._open()
        self.close()
        self._descriptor = new

    def close(self) -> None:
        """Close the file; stdout stays open."""
        if self._path != STDOUT:
            os.close(self._descriptor)

    def _open(self) -> int:
        if self._path == STDOUT:
            return -1
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as exc:
            raise LogFileError(self._path, exc.strerror or str(exc)) from exc
