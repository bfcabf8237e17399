"""A file that one line after another goes to, and that somebody may rename while it is open (logrotate)."""

import sys
from pathlib import Path
from typing import TextIO

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
        self._file = self._open()

    def write_line(self, line: str) -> None:
        """Append one line, without its newline."""
        self._file.write(line + "\n")

    def reopen(self) -> None:
        """Close and open again by name; if that fails the open file stays in use.

        Raises:
            LogFileError: The file cannot be opened.
        """
        new = self._open()
        self.close()
        self._file = new

    def close(self) -> None:
        """Close the file; stdout stays open."""
        if self._path == STDOUT:
            self._file.flush()
        else:
            self._file.close()

    def _open(self) -> TextIO:
        if self._path == STDOUT:
            return sys.stdout
        try:
            return self._path.open("a", encoding="utf-8", buffering=1)
        except OSError as exc:
            raise LogFileError(self._path, exc.strerror or str(exc)) from exc
