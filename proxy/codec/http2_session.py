"""One HTTP/2 connection as bytes in, events out, and back: either side of it, no sockets, no clock (RFC 9113).

What breaks the protocol ends the stream or the connection with the error that the RFC names, and floods end it where
Envoy ends them. Package h2 was weighed: it cannot serve the streams that a GOAWAY leaves open, ends the connection for
what concerns one stream, and costs several times the CPU; of its family only tables are used (`http2_hpack`).
"""

from proxy.codec.headers import HeaderList
from proxy.codec.http2_events import (
    Http2Event,
    SessionError,
)
from proxy.codec.http2_frames import (
    DEFAULT_TABLE_BYTES,
    DEFAULT_WINDOW_BYTES,
    ENABLE_CONNECT_PROTOCOL,
    ENABLE_PUSH,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_STREAM_ID,
    PING,
    PREFACE,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    frame,
    goaway,
    settings,
    word,
)
from proxy.codec.http2_receiver import Http2Receiver


class Http2Session(Http2Receiver):
    """A server's or a client's end of one connection.

    Call `start` first. Every call may leave output behind: take it with `take_output` and write it, and call
    `on_written` whenever the socket has taken it, since what a peer makes us send and does not read is bounded. Calls
    that name a stream which is gone do nothing, so an owner need not know before it hears the event.

    A server's stream is gone once its response has ended: if the request has not, it is reset with `NO_ERROR`. A
    client's is gone once both have.

    `closed` says that a `SessionError` has been told.
    """

    __slots__ = ()

    # To the peer

    def start(self) -> None:
        """Send the preface and our settings."""
        options = self._options
        values = {HEADER_TABLE_SIZE: DEFAULT_TABLE_BYTES}
        if self._client:
            self._sender.raw(PREFACE)
            values[ENABLE_PUSH] = 0
        values[ENABLE_CONNECT_PROTOCOL] = 0
        values[MAX_CONCURRENT_STREAMS] = options.max_concurrent_streams
        values[INITIAL_WINDOW_SIZE] = options.stream_window_bytes
        self._sender.raw(settings(values))
        increment = options.connection_window_bytes - DEFAULT_WINDOW_BYTES
        if increment > 0:
            self._receive_window += increment
            self._sender.raw(frame(WINDOW_UPDATE, 0, 0, word(increment)))

    def take_output(self) -> bytes:
        """Return what is to be written now, empty if nothing; the caller writes it."""
        return self._sender.take()

    def on_written(self) -> None:
        """The socket has taken all output, or enough of it to take more after it was full."""
        self._floods.on_written()

    def has_stream(self, stream_id: int) -> bool:
        """Whether a stream is open, be it only because the end of our message waits for the peer's window."""
        return stream_id in self._streams

    @property
    def can_open_stream(self) -> bool:
        """Whether a client may open one more stream now."""
        return (
            not self.closed
            and not self._peer_has_gone_away
            and len(self._streams) < self._peer_max_concurrent_streams
            and self._next_stream_id <= MAX_STREAM_ID
        )

    def open_stream(self) -> int:
        """Return the id of a new stream of a client; `can_open_stream` is true. Its head is to be sent next."""
        stream_id = self._next_stream_id
        self._next_stream_id += 2
        self._add_stream(stream_id)
        return stream_id

    def send_headers(self, stream_id: int, lines: HeaderList, *, end_stream: bool) -> None:
        """Send a head, pseudo-headers first (`http2_headers.request_lines`, `response_lines`); interim heads too."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.local_ended:
            return
        if self._client:
            stream.head_request = lines[0][1] == b"HEAD"
        self._sender.headers(stream, lines, end_stream=end_stream)
        if end_stream:
            self._on_local_end(stream)

    def send_data(self, stream_id: int, data: bytes) -> bool:
        """Send a piece of body, or keep it until the peer's windows allow it.

        Returns:
            False when so much waits that the sender should stop; a `StreamWritable` says when to go on.
        """
        stream = self._streams.get(stream_id)
        return stream is None or stream.local_ended or self._sender.data(stream, data)

    def send_end(self, stream_id: int, trailers: HeaderList) -> None:
        """End our message, behind what waits."""
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.local_ended and self._sender.end(stream, trailers):
            self._on_local_end(stream)

    def reset_stream(self, stream_id: int, error_code: int) -> None:
        """Give a stream up; what waits on it is dropped, and no further event names it."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._stats.tx_reset += 1
            self._reset(stream, error_code)

    def go_away(self, error_code: int = ErrorCode.NO_ERROR, last_stream_id: int | None = None) -> None:
        """Tell the peer to open no more streams; those up to `last_stream_id` are served, None is the last one so far.

        A graceful end says `MAX_STREAM_ID` first and the real number later, since requests may be on their way. What
        has been said is not taken back by a higher number (RFC 9113, 6.8).
        """
        if last_stream_id is None:
            last_stream_id = min(self._last_peer_stream_id, self._last_served_stream_id)
        self._last_served_stream_id = last_stream_id
        self._stats.goaway_sent += 1
        self._sender.raw(goaway(last_stream_id, error_code))

    def ping(self, payload: bytes) -> None:
        """Send a ping of eight bytes; a `PingAck` answers it."""
        self._sender.raw(frame(PING, 0, 0, payload))

    def close(self) -> None:
        """Forget every stream; the connection is gone."""
        self.closed = True
        for stream in tuple(self._streams.values()):
            self._remove(stream, reset_here=False)

    # From the peer

    def feed(self, data: bytes) -> list[Http2Event]:
        """Take what a read brought; return its events in order."""
        if self.closed:
            return []
        events = self._events = []
        try:
            self._read(data)
        except ConnectionFault as fault:
            self.go_away(fault.error_code)
            self.closed = True
            events.append(SessionError(fault.error_code, fault.reason))
        self._events = []
        return events
