"""What a session remembers of one open stream, and of those that are gone."""

from collections import deque

from proxy.codec.headers import HeaderList

# Closed streams that are remembered: a peer's frames may be under way to a stream that was reset here.
_MAX_REMEMBERED = 1_024


class Http2Stream:
    """One open stream. `left` is the stated body still to come, -1 when none is stated."""

    __slots__ = (
        "ending",
        "head_done",
        "head_request",
        "id",
        "interim_bytes",
        "left",
        "local_ended",
        "queue",
        "queued_bytes",
        "receive_window",
        "refused",
        "remote_ended",
        "send_window",
        "stopped",
        "unacknowledged",
        "unconsumed",
    )

    def __init__(self, stream_id: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.send_window = send_window
        self.receive_window = receive_window
        self.head_done = False  # what comes next with HEADERS is trailers
        self.head_request = False
        self.interim_bytes = 0  # of all interim heads so far
        self.refused = False  # what comes further is dropped
        self.left = -1
        self.remote_ended = False
        self.local_ended = False
        self.queue: deque[bytes | memoryview] = deque()  # body that waits for the peer's window
        self.queued_bytes = 0
        self.ending: HeaderList | None = None  # the trailers that end the stream behind the queue
        self.stopped = False  # the owner was told to send no more
        self.unconsumed = 0  # body that the owner has been given and not yet let go
        self.unacknowledged = 0  # body that it has let go and the peer has not been told of


class ClosedStreams:
    """The last streams that have closed, and whether they were reset here."""

    __slots__ = ("_reset",)

    def __init__(self) -> None:
        self._reset: dict[int, bool] = {}

    def add(self, stream_id: int, *, reset_here: bool) -> None:
        """Remember one more."""
        remembered = self._reset
        if len(remembered) >= _MAX_REMEMBERED:
            del remembered[next(iter(remembered))]
        remembered[stream_id] = reset_here

    def was_reset_here(self, stream_id: int) -> bool | None:
        """Return None for a stream that is not remembered."""
        return self._reset.get(stream_id)
