"""Clients that open streams only to reset them: work for us and for hosts, none for them (CVE-2023-44487).

Those that break the protocol on a stream, so that it is reset here, do the same (CVE-2025-8671). Ports
`ConnectionManagerImpl::isPrematureRstStream` and `maybeDrainDueToPrematureResets` (Envoy,
source/common/http/conn_manager_impl.cc).
"""

# Envoy's `overload.premature_reset_total_stream_count`: so many streams show what a client is up to.
PREMATURE_RESET_STREAMS = 500

# A stream that is reset, by a client or for what it sent, within this time and before any answer was opened for that.
PREMATURE_RESET_LIFETIME_MS = 1_000


class PrematureResets:
    """The streams of one connection that have ended, and those of them that were reset early."""

    __slots__ = ("_ended", "_premature")

    def __init__(self) -> None:
        self._ended = 0
        self._premature = 0

    def on_stream_end(self, *, reset_unanswered: bool, lifetime_ms: int) -> bool:
        """Count a stream; return whether the connection is to end: half of its streams (or of 500) were reset."""
        self._ended += 1
        if reset_unanswered and lifetime_ms <= PREMATURE_RESET_LIFETIME_MS:
            self._premature += 1
        return self._premature * 2 >= max(self._ended, PREMATURE_RESET_STREAMS)
