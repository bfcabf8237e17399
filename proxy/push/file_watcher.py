"""Which configuration files changed since the last look.

Looks instead of listening: a change of modification time, size or inode, seen through symbolic links, covers edits in
place, atomic renames, Kubernetes' swap of `..data`, and files deleted and made again. A change counts once it has been
still for a moment, so a half written file is not read. Knows nothing of what the files hold.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from proxy.errors import ProxyError

SUFFIXES = (".yaml", ".yml", ".json")
SETTLE_MS = 40  # longer than the granularity of modification times, so what is read is what was stamped
GONE_MS = 250  # some editors delete a file before they write it anew

_Fingerprint = tuple[int, int, int, int]


class PathMissingError(ProxyError):
    """Raised when a configured path is neither a file nor a folder.

    Attributes:
        path: The path as given.
        reason: What the operating system says.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@attrs.define
class _Seen:
    fingerprint: _Fingerprint | None
    since_ms: int


@attrs.frozen
class FileChanges:
    """Files to read (new or changed), files that are gone, and whether there are changes that are not still yet."""

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    pending: bool = False


class FileWatcher:
    """Remembers files by fingerprint.

    Args:
        paths: Files, or folders whose YAML and JSON files are taken, hidden names apart. A configured path that
            vanishes keeps its files: only a file missing from a folder that is there counts as removed.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._read: dict[str, _Fingerprint] = {}
        self._seen: dict[str, _Seen] = {}

    def first_look(self) -> tuple[str, ...]:
        """Return all files, sorted within each configured path, and remember them.

        Raises:
            PathMissingError: A configured path is not there, or cannot be listed.
        """
        files: dict[str, _Fingerprint] = {}
        for path in self._paths:
            try:
                Path(path).stat()
                files |= dict(_files(path))
            except OSError as exc:
                raise PathMissingError(path, exc.strerror or str(exc)) from exc
        self._read = files
        return tuple(files)

    def look(self, now_ms: int) -> FileChanges:
        """Return what changed since it was read last and has been still since; it is remembered as read.

        Args:
            now_ms: Monotonic time.
        """
        present: dict[str, _Fingerprint] = {}
        lost: list[str] = []
        for path in self._paths:
            try:
                Path(path).stat()
                present |= dict(_files(path))
            except OSError:
                lost.append(path)
        changed: list[str] = []
        removed: list[str] = []
        for name, fingerprint in present.items():
            if self._read.get(name) == fingerprint:
                self._seen.pop(name, None)
            elif self._still(name, fingerprint, now_ms, SETTLE_MS):
                changed.append(name)
                self._read[name] = fingerprint
        for name in [name for name in self._read if name not in present]:
            if any(name == path or Path(path) in Path(name).parents for path in lost):
                self._seen.pop(name, None)
            elif self._still(name, None, now_ms, GONE_MS):
                removed.append(name)
                del self._read[name]
        return FileChanges(tuple(changed), tuple(removed), pending=bool(self._seen))

    def _still(self, name: str, fingerprint: _Fingerprint | None, now_ms: int, settle_ms: int) -> bool:
        seen = self._seen.get(name)
        if seen is None or seen.fingerprint != fingerprint:
            self._seen[name] = _Seen(fingerprint, now_ms)
            return False
        if now_ms - seen.since_ms < settle_ms:
            return False
        del self._seen[name]
        return True


def _files(path: str) -> Iterator[tuple[str, _Fingerprint]]:
    """Yield the configuration files of a path, sorted; raises OSError when the path itself cannot be read."""
    status = Path(path).stat()
    if not stat.S_ISDIR(status.st_mode):
        yield path, _fingerprint(status)
        return
    yield from _folder(path, {(status.st_dev, status.st_ino)})


def _folder(path: str, above: set[tuple[int, int]]) -> Iterator[tuple[str, _Fingerprint]]:
    with os.scandir(path) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name.startswith("."):  # `..data` and its targets are seen through the links beside them
            continue
        try:
            status = entry.stat()
            if stat.S_ISDIR(status.st_mode):
                identity = (status.st_dev, status.st_ino)
                if identity not in above:  # a link back up would never end
                    yield from _folder(entry.path, above | {identity})
            elif entry.name.endswith(SUFFIXES) and stat.S_ISREG(status.st_mode):
                yield entry.path, _fingerprint(status)
        except OSError:
            continue  # vanished between listing and looking, or a dangling link


def _fingerprint(status: os.stat_result) -> _Fingerprint:
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
