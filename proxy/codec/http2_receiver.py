"""The receiving half of a HTTP/2 session: what a frame means for its stream, and which streams are open (RFC 9113, 5).

Turns frames into events, and faults of the peer into the end of a stream or of the connection.
"""

from collections.abc import Iterable

from proxy.codec.headers import HeaderList
from proxy.codec.http1_parser import ProtocolError
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.http2_events import (
    GoAway,
    Http2Event,
    PingAck,
    SettingsReceived,
    StreamData,
    StreamEnd,
    StreamFlushed,
    StreamHead,
    StreamRefused,
    StreamReset,
    StreamWritable,
)
from proxy.codec.http2_floods import Floods
from proxy.codec.http2_frames import (
    ACK,
    DEFAULT_WINDOW_BYTES,
    ENABLE_CONNECT_PROTOCOL,
    ENABLE_PUSH,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_BYTES,
    MAX_FRAME_SIZE,
    MAX_STREAM_ID,
    MAX_WINDOW,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    frame,
    word,
)
from proxy.codec.http2_headers import malformed, read_request_head, read_response_head, read_trailers
from proxy.codec.http2_hpack import HeaderDecoder
from proxy.codec.http2_options import Http2Options, Http2Stats
from proxy.codec.http2_reader import Http2Reader
from proxy.codec.http2_sender import Http2Sender
from proxy.codec.http2_stream import ClosedStreams, Http2Stream

_ACK_SETTINGS = frame(SETTINGS, ACK, 0, b"")
_LARGEST_FRAME_BYTES = 2**24 - 1


class Http2Receiver(Http2Reader):
    """The streams of one connection, as the peer's frames make them; a session adds what is sent."""

    __slots__ = (
        "_client",
        "_closed_streams",
        "_decoder",
        "_events",
        "_last_peer_stream_id",
        "_last_served_stream_id",
        "_next_stream_id",
        "_options",
        "_peer_has_gone_away",
        "_peer_max_concurrent_streams",
        "_receive_window",
        "_sender",
        "_stats",
        "_streams",
        "_unacknowledged",
        "closed",
    )

    def __init__(self, *, client: bool, options: Http2Options, stats: Http2Stats) -> None:
        floods = Floods(stats)
        super().__init__(floods, b"" if client else PREFACE)
        self._client = client
        self._options = options
        self._stats = stats
        self._decoder = HeaderDecoder()
        self._sender = Http2Sender(options, stats, floods)
        self._events: list[Http2Event] = []
        self._streams: dict[int, Http2Stream] = {}
        self._closed_streams = ClosedStreams()
        self._next_stream_id = 1
        self._last_peer_stream_id = 0
        self._last_served_stream_id = MAX_STREAM_ID  # what our GOAWAY has promised
        self._peer_has_gone_away = False
        self._peer_max_concurrent_streams = MAX_STREAM_ID
        self._receive_window = DEFAULT_WINDOW_BYTES
        self._unacknowledged = 0  # of the connection: let go, and the peer not told
        self.closed = False

    def consume(self, stream_id: int, size: int) -> None:
        """Let go of `size` bytes of body, so that the peer may send as many; not calling this stops it in time."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return  # let go when it was closed
        stream.unconsumed -= size
        stream.unacknowledged += size
        if not stream.remote_ended and stream.unacknowledged * 2 >= self._options.stream_window_bytes:
            stream.receive_window += stream.unacknowledged
            self._sender.raw(frame(WINDOW_UPDATE, 0, stream_id, word(stream.unacknowledged)))
            stream.unacknowledged = 0
        self._acknowledge(size)

    def _on_data(self, stream_id: int, body: bytes, size: int, *, end_stream: bool) -> None:
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the connection's window")
        stream = self._streams.get(stream_id)
        if stream is None:
            self._acknowledge(size)
            self._check_closed(stream_id)
            return
        if stream.remote_ended or stream.refused or not stream.head_done:
            self._acknowledge(size)
            if stream.refused and not stream.remote_ended:
                stream.remote_ended = end_stream
                return
            raise StreamFault(
                ErrorCode.STREAM_CLOSED if stream.remote_ended else ErrorCode.PROTOCOL_ERROR, "DATA where none may be"
            )
        stream.receive_window -= size
        stream.unconsumed += size
        if stream.receive_window < 0:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "more than the stream's window")
        if stream.left >= 0:
            left = stream.left - len(body)
            if left < 0 or (end_stream and left):
                raise malformed("the body is not as long as content-length says")
            stream.left = left
        if size > len(body):
            self.consume(stream_id, size - len(body))
        if body:
            self._events.append(StreamData(stream_id, body))
        if end_stream:
            self._on_remote_end(stream, [])

    def _on_headers(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        lines = self._decoder.decode(block)
        stream = self._streams.get(stream_id)
        if stream is None:
            if self._client or not stream_id & 1 or stream_id <= self._last_peer_stream_id:
                self._stats.headers_cb_no_stream += 1
                self._check_closed(stream_id)
            else:
                self._accept_stream(stream_id, lines, end_stream=end_stream)
        elif stream.remote_ended:
            raise StreamFault(ErrorCode.STREAM_CLOSED, "HEADERS behind the end")
        elif stream.refused:
            stream.remote_ended = end_stream
        elif stream.head_done:
            if not end_stream:
                raise malformed("trailers that do not end the stream")
            if stream.left > 0:
                raise malformed("the body is not as long as content-length says")
            self._stats.trailers += 1
            self._on_remote_end(stream, self._checked_trailers(lines))
        else:
            self._take_response_head(stream, lines, end_stream=end_stream)

    def _accept_stream(self, stream_id: int, lines: HeaderList, *, end_stream: bool) -> None:
        """Open the stream of a request."""
        self._last_peer_stream_id = stream_id
        if stream_id > self._last_served_stream_id:
            self._closed_streams.add(stream_id, reset_here=True)  # it has been told
            return
        if len(self._streams) >= self._options.max_concurrent_streams:
            self._stats.stream_refused_errors += 1
            self._closed_streams.add(stream_id, reset_here=True)
            self._send_reset(stream_id, ErrorCode.REFUSED_STREAM)
            return
        stream = self._add_stream(stream_id)
        stream.remote_ended = end_stream
        try:
            head = read_request_head(lines, self._options, end_stream=end_stream)
        except ProtocolError as error:
            if error.status == 431:
                self._stats.header_overflow += 1
            stream.refused = True
            self._events.append(StreamRefused(stream_id, error.with_traceback(None)))  # that would hold all of us
            return
        stream.left = head.content_length
        self._announce(stream, head)

    def _take_response_head(self, stream: Http2Stream, lines: HeaderList, *, end_stream: bool) -> None:
        try:
            head = read_response_head(lines, self._options, end_stream=end_stream, head_request=stream.head_request)
        except ProtocolError as error:
            self._stats.header_overflow += 1
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, str(error)) from error
        if head.status < 200:
            stream.interim_bytes += sum(len(name) + len(value) + 4 for name, value in lines)
            if stream.interim_bytes > self._options.max_head_bytes:
                self._stats.header_overflow += 1
                raise malformed("interim heads without end")
            self._events.append(StreamHead(stream.id, head))
            return
        if not stream.head_request and head.status != 304:
            stream.left = head.content_length
        elif not end_stream:
            stream.left = 0
        stream.remote_ended = end_stream
        self._announce(stream, head)
        if end_stream:
            self._close_if_done(stream)

    def _announce(self, stream: Http2Stream, head: RequestHead | ResponseHead) -> None:
        stream.head_done = True
        self._events.append(StreamHead(stream.id, head))

    def _checked_trailers(self, lines: HeaderList) -> HeaderList:
        try:
            return read_trailers(lines, self._options)
        except ProtocolError as error:
            self._stats.header_overflow += 1
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, str(error)) from error

    def _on_rst_stream(self, stream_id: int, error_code: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_not_idle(stream_id)
            return
        self._stats.rx_reset += 1
        self._remove(stream, reset_here=False)
        self._events.append(StreamReset(stream_id, error_code, remote=True))

    def _on_settings(self, values: list[tuple[int, int]]) -> None:
        sender = self._sender
        initial_window = sender.initial_window
        for name, value in values:
            if name == HEADER_TABLE_SIZE:
                sender.limit_table(value)
            elif name in (ENABLE_PUSH, ENABLE_CONNECT_PROTOCOL):
                if value > 1 or (name == ENABLE_PUSH and value and self._client):
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a setting that is neither 0 nor 1")
            elif name == MAX_CONCURRENT_STREAMS:
                self._peer_max_concurrent_streams = value
            elif name == INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "an initial window above the limit")
                initial_window = value  # the last one counts; each would be a look at every stream
            elif name == MAX_FRAME_SIZE and not MAX_FRAME_BYTES <= value <= _LARGEST_FRAME_BYTES:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame size out of range")
        drained = sender.set_initial_window(initial_window, self._streams.values())
        sender.raw(_ACK_SETTINGS, control=True)
        self._on_drained(drained)  # a peer may count by the old window until it has our acknowledgement
        self._events.append(SettingsReceived())

    def _on_ping(self, payload: bytes, *, ack: bool) -> None:
        if ack:
            self._events.append(PingAck(payload))
        else:
            self._sender.raw(frame(PING, ACK, 0, payload), control=True)

    def _on_goaway(self, last_stream_id: int, error_code: int) -> None:
        self._peer_has_gone_away = True
        self._events.append(GoAway(error_code, last_stream_id))
        if self._client:
            for stream in [stream for stream in self._streams.values() if stream.id > last_stream_id]:
                self._remove(stream, reset_here=True)
                self._events.append(StreamReset(stream.id, ErrorCode.REFUSED_STREAM, remote=True))

    def _on_window_update(self, stream_id: int, increment: int) -> None:
        if not stream_id:
            self._on_drained(self._sender.widen(increment))
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_not_idle(stream_id)
        elif self._sender.widen_stream(stream, increment):
            self._on_drained([stream])

    def _on_stream_fault(self, stream_id: int, fault: StreamFault) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:  # nothing to reset
            raise ConnectionFault(fault.error_code, fault.reason)
        if fault.error_code == ErrorCode.PROTOCOL_ERROR:
            self._stats.rx_messaging_error += 1
        self._reset(stream, fault.error_code)
        self._events.append(StreamReset(stream_id, fault.error_code, remote=False))

    # Streams

    def _add_stream(self, stream_id: int) -> Http2Stream:
        stream = Http2Stream(stream_id, self._sender.initial_window, self._options.stream_window_bytes)
        self._streams[stream_id] = stream
        self._floods.streams_opened += 1
        self._stats.streams_active += 1
        return stream

    def _remove(self, stream: Http2Stream, *, reset_here: bool) -> None:
        del self._streams[stream.id]
        self._closed_streams.add(stream.id, reset_here=reset_here)
        self._stats.streams_active -= 1
        self._sender.forget(stream)
        if stream.unconsumed and not self.closed:
            self._acknowledge(stream.unconsumed)

    def _reset(self, stream: Http2Stream, error_code: int) -> None:
        self._remove(stream, reset_here=True)
        self._send_reset(stream.id, error_code)

    def _send_reset(self, stream_id: int, error_code: int) -> None:
        self._sender.raw(frame(RST_STREAM, 0, stream_id, word(error_code)), control=True)

    def _on_local_end(self, stream: Http2Stream) -> None:
        if not self._client and not stream.remote_ended:
            self._reset(stream, ErrorCode.NO_ERROR)
        else:
            self._close_if_done(stream)

    def _on_remote_end(self, stream: Http2Stream, trailers: HeaderList) -> None:
        stream.remote_ended = True
        self._events.append(StreamEnd(stream.id, trailers))
        self._close_if_done(stream)

    def _close_if_done(self, stream: Http2Stream) -> None:
        if stream.local_ended and stream.remote_ended:
            self._remove(stream, reset_here=False)

    def _on_drained(self, streams: Iterable[Http2Stream]) -> None:
        """Go on with streams of which all has been sent that waited."""
        for stream in streams:
            if stream.ending is not None:
                self._sender.end(stream, stream.ending)
                self._events.append(StreamFlushed(stream.id))
                self._on_local_end(stream)
            elif stream.stopped:
                stream.stopped = False
                self._events.append(StreamWritable(stream.id))

    def _acknowledge(self, size: int) -> None:
        """Tell the peer in time that the connection has room again."""
        self._unacknowledged += size
        if self._unacknowledged * 2 >= self._options.connection_window_bytes:
            self._receive_window += self._unacknowledged
            self._sender.raw(frame(WINDOW_UPDATE, 0, 0, word(self._unacknowledged)))
            self._unacknowledged = 0

    def _check_closed(self, stream_id: int) -> None:
        """Refuse a frame on a stream that is not open, unless it was reset here: the peer may not know yet."""
        self._check_not_idle(stream_id)
        reset_here = self._closed_streams.was_reset_here(stream_id)
        if not reset_here:
            code = ErrorCode.PROTOCOL_ERROR if reset_here is None else ErrorCode.STREAM_CLOSED
            raise ConnectionFault(code, "a frame on a closed stream")

    def _check_not_idle(self, stream_id: int) -> None:
        last = self._next_stream_id - 1 if self._client else self._last_peer_stream_id
        if not stream_id & 1 or stream_id > last:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame on a stream that nobody has opened")
