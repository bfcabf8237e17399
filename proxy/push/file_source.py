"""Configuration from files: read once, then watched.

Each file is a part of the source of its own, so a changed file costs its own parsing only, done off the event loop.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from proxy.config.issue import ABSENT, Issue, Severity
from proxy.config.resource import Contents, read_resources
from proxy.errors import ProxyError
from proxy.push.file_watcher import SETTLE_MS, FileWatcher

POLL_INTERVAL_MS = 250
# Looking at very many files takes a while; then look less often, so that it stays below this share of one core.
_MAX_SHARE = 0.05
SOURCE_NAME = "file"


class ConfigRejectedError(ProxyError):
    """Raised when the configuration of a start has errors: half a configuration is a surprise.

    Attributes:
        issues: All of them.
    """

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("\n".join(map(str, issues)))
        self.issues = tuple(issues)


def read_file(path: str) -> Contents:
    """Return what a file holds; a file that cannot be read or decoded is reported as unreadable contents."""
    text = read_text(path)
    return Contents(issues=(text,), readable=False) if isinstance(text, Issue) else read_resources(text, path)


def read_text(path: str) -> str | Issue:
    """Return the text of a file, or why it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as exc:
        reason = f"cannot be read: {exc.strerror or exc}"
    except UnicodeDecodeError as exc:
        reason = f"is not UTF-8: {exc.reason} at byte {exc.start}"
    return Issue(severity=Severity.ERROR, path=(), value=ABSENT, rule=reason, source=path)


class FileTarget(Protocol):
    """Takes what files hold; `ConfigPipeline` does."""

    def update(self, source: str, parts: Mapping[str, Contents], removed: Iterable[str] = ()) -> object:
        """Replace parts by name, and drop others."""
        ...


class FileSource:
    """Feeds files into a pipeline.

    Args:
        paths: Files and folders, as given by the user.
        pipeline: Takes each file as a part.
    """

    def __init__(self, paths: Sequence[str], pipeline: FileTarget) -> None:
        self._pipeline = pipeline
        self._watcher = FileWatcher(paths)

    def load(self) -> None:
        """Read everything and apply it.

        Raises:
            PathMissingError: A path is not there.
            ConfigRejectedError: A file cannot be parsed, or a resource has errors; nothing is applied.
        """
        parts = {path: read_file(path) for path in self._watcher.first_look()}
        errors = [issue for contents in parts.values() for issue in contents.errors]
        if errors:
            raise ConfigRejectedError(errors)
        self._pipeline.update(SOURCE_NAME, parts)

    async def watch(self) -> None:
        """Apply changes as they come, until cancelled."""
        delay_ms = POLL_INTERVAL_MS
        while True:
            await asyncio.sleep(delay_ms / 1000)
            start = time.monotonic_ns()
            # In a thread like the reading: thousands of files take long enough to hold requests up.
            changes = await asyncio.to_thread(self._watcher.look, start // 1_000_000)
            took_ms = (time.monotonic_ns() - start) // 1_000_000
            if changes.changed or changes.removed:
                parts = {path: await asyncio.to_thread(read_file, path) for path in changes.changed}
                self._pipeline.update(SOURCE_NAME, parts, changes.removed)
            idle_ms = SETTLE_MS if changes.pending else POLL_INTERVAL_MS
            delay_ms = max(idle_ms, int(took_ms / _MAX_SHARE))
