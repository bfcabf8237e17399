"""Floods of cheap frames: what a peer may send, and make us send, for nothing. Limits are Envoy's.

Ports `ProtocolConstraints` (Envoy, source/common/http/http2/protocol_constraints.cc).
"""

from proxy.codec.http2_frames import ConnectionFault, ErrorCode
from proxy.codec.http2_options import Http2Stats

MAX_OUTBOUND_FRAMES = 10_000  # not yet taken by the socket; of DATA those that the peer's windows held back
MAX_OUTBOUND_CONTROL_FRAMES = 1_000  # PING and SETTINGS acknowledgements, RST_STREAM
MAX_EMPTY_FRAMES = 1  # one behind the other, DATA or HEADERS without a payload that end nothing
MAX_PRIORITY_FRAMES_PER_STREAM = 100
MAX_WINDOW_UPDATES_PER_DATA_FRAME = 10


class Floods:
    """The counts of one connection."""

    __slots__ = (
        "_empty_frames",
        "_priority_frames",
        "_stats",
        "_window_updates",
        "data_frames_sent",
        "outbound_control_frames",
        "outbound_frames",
        "streams_opened",
    )

    def __init__(self, stats: Http2Stats) -> None:
        self._stats = stats
        self._empty_frames = 0
        self._priority_frames = 0
        self._window_updates = 0
        self.data_frames_sent = 0
        self.outbound_frames = 0
        self.outbound_control_frames = 0
        self.streams_opened = 0

    def on_payload(self, *, empty: bool) -> None:
        """A DATA, HEADERS or CONTINUATION frame has come; `empty` ones bring nothing and end nothing."""
        if not empty:
            self._empty_frames = 0
            return
        self._empty_frames += 1
        if self._empty_frames > MAX_EMPTY_FRAMES:
            self._stats.inbound_empty_frames_flood += 1
            raise _flood("too many frames without a payload")

    def on_priority(self) -> None:
        """A PRIORITY frame has come."""
        self._priority_frames += 1
        if self._priority_frames > MAX_PRIORITY_FRAMES_PER_STREAM * (1 + self.streams_opened):
            self._stats.inbound_priority_frames_flood += 1
            raise _flood("too many PRIORITY frames")

    def on_window_update(self) -> None:
        """A WINDOW_UPDATE frame has come."""
        self._window_updates += 1
        sent = MAX_WINDOW_UPDATES_PER_DATA_FRAME * self.data_frames_sent
        if self._window_updates > 5 + 2 * (self.streams_opened + sent):
            self._stats.inbound_window_update_frames_flood += 1
            raise _flood("too many WINDOW_UPDATE frames")

    def check_outbound(self) -> None:
        """See whether the peer makes us send without reading it."""
        if self.outbound_control_frames > MAX_OUTBOUND_CONTROL_FRAMES:
            self._stats.outbound_control_flood += 1
            raise _flood("too many control frames wait for the peer")
        if self.outbound_frames > MAX_OUTBOUND_FRAMES:
            self._stats.outbound_flood += 1
            raise _flood("too many frames wait for the peer")

    def on_written(self) -> None:
        """The socket has taken what was sent."""
        self.outbound_frames = self.outbound_control_frames = 0


def _flood(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, reason)
