"""The last requests of a sink, for people.

Ports `RecentRequestsJournal` (Istio 1.4, pkg/mcp/sink/journal.go).
"""

from collections import deque

import attrs

from outlier.events import timestamp
from proxy.mcp.messages import Status

CAPACITY = 32


@attrs.frozen(kw_only=True)
class JournalEntry:
    """One request: when (wall clock), for what, answering which nonce, and why it refused; None for an ACK."""

    time_ms: int
    collection: str
    nonce: str
    error: Status | None

    @property
    def acked(self) -> bool:
        """Whether nothing was refused; a first request counts as acknowledging."""
        return self.error is None

    def as_dict(self) -> dict[str, object]:
        """Return the entry as JSON's types."""
        return {
            "time": timestamp(self.time_ms),
            "collection": self.collection,
            "nonce": self.nonce,
            "acked": self.acked,
            "error": None if self.error is None else {"code": self.error.code, "message": self.error.message},
        }


class Journal:
    """A ring of the last `CAPACITY` requests."""

    def __init__(self) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=CAPACITY)

    def record(self, entry: JournalEntry) -> None:
        """Add an entry; the oldest goes when the ring is full."""
        self._entries.append(entry)

    def entries(self) -> tuple[JournalEntry, ...]:
        """Return the entries, oldest first."""
        return tuple(self._entries)
