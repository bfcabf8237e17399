"""The sending half of a HTTP/2 session: frames out, body held back as the peer's windows demand.

At most what its owner sends behind a False of `send_data` waits on a stream; no body is collected otherwise.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from proxy.codec.headers import HeaderList
from proxy.codec.http2_encoder import HeaderEncoder
from proxy.codec.http2_floods import Floods
from proxy.codec.http2_frames import (
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW_BYTES,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MAX_FRAME_BYTES,
    MAX_WINDOW,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    frame,
)
from proxy.codec.http2_options import Http2Options, Http2Stats
from proxy.codec.http2_stream import Http2Stream


class Http2Sender:
    """Frames of one connection that are not yet taken, and the peer's windows."""

    __slots__ = (
        "_blocked",
        "_encoder",
        "_floods",
        "_initial_window",
        "_last_data",
        "_options",
        "_out",
        "_stats",
        "_window",
    )

    def __init__(self, options: Http2Options, stats: Http2Stats, floods: Floods) -> None:
        self._options = options
        self._stats = stats
        self._floods = floods
        self._encoder = HeaderEncoder()
        self._out: list[Any] = []  # bytes and views of them
        self._last_data = -1  # the stream whose DATA frame is last in `_out`
        self._window = DEFAULT_WINDOW_BYTES
        self._initial_window = DEFAULT_WINDOW_BYTES
        self._blocked: dict[int, Http2Stream] = {}  # streams with a queue; the one that waits longest is first

    @property
    def initial_window(self) -> int:
        """The window that a new stream has."""
        return self._initial_window

    def take(self) -> bytes:
        """Return what is to be written, and forget it."""
        out = self._out
        if not out:
            return b""
        self._out = []
        self._last_data = -1
        return b"".join(out)

    def limit_table(self, table_bytes: int) -> None:
        """Compress with no larger a table than the peer wants."""
        self._encoder.limit_table(table_bytes)

    def raw(self, data: bytes, *, control: bool = False) -> None:
        """Send one frame as it is; `control` frames are those that a peer makes us send."""
        self._last_data = -1
        self._floods.outbound_frames += 1
        if control:
            self._floods.outbound_control_frames += 1
        self._out.append(data)

    def headers(self, stream: Http2Stream, lines: HeaderList, *, end_stream: bool) -> None:
        """Send a block of lines."""
        block = self._encoder.encode(lines)
        flags = END_STREAM if end_stream else 0
        if len(block) <= MAX_FRAME_BYTES:
            self.raw(frame(HEADERS, flags | END_HEADERS, stream.id, block))
        else:
            self.raw(frame(HEADERS, flags, stream.id, block[:MAX_FRAME_BYTES]))
            for start in range(MAX_FRAME_BYTES, len(block), MAX_FRAME_BYTES):
                last = start + MAX_FRAME_BYTES >= len(block)
                part = block[start : start + MAX_FRAME_BYTES]
                self.raw(frame(CONTINUATION, END_HEADERS if last else 0, stream.id, part))
        stream.local_ended = end_stream

    def data(self, stream: Http2Stream, data: bytes) -> bool:
        """Send a piece of body, or keep what the windows do not allow; return whether more may follow."""
        allowed = 0 if stream.queue else min(stream.send_window, self._window)
        if len(data) <= allowed:
            self._data_frames(stream, data)
            return True
        rest: bytes | memoryview = data
        if allowed > 0:
            view = memoryview(data)
            self._data_frames(stream, view[:allowed])
            rest = view[allowed:]
        stream.queue.append(rest)
        stream.queued_bytes += len(rest)
        self._stats.pending_send_bytes += len(rest)
        self._blocked[stream.id] = stream
        stream.stopped = stream.queued_bytes > self._options.high_water_bytes
        return not stream.stopped

    def end(self, stream: Http2Stream, trailers: HeaderList) -> bool:
        """End the stream, now or behind its queue; return whether it is done."""
        if stream.queue:
            stream.ending = trailers
            return False
        if trailers:
            self.headers(stream, trailers, end_stream=True)
        elif self._last_data == stream.id:
            header = self._out[-2]
            self._out[-2] = b"%b\x01%b" % (header[:4], header[5:])  # the frame that is there ends the stream
        else:
            self.raw(frame(DATA, END_STREAM, stream.id, b""))
        stream.local_ended = True
        return True

    def forget(self, stream: Http2Stream) -> None:
        """Drop what waits on a stream that is gone."""
        self._stats.pending_send_bytes -= stream.queued_bytes
        stream.queue.clear()
        stream.queued_bytes = 0
        self._blocked.pop(stream.id, None)

    def widen(self, increment: int) -> Iterator[Http2Stream]:
        """Take the peer's WINDOW_UPDATE of the connection; send, and yield the streams that wait no longer."""
        self._window += increment
        if self._window > MAX_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window overflows")
        return self._flush()

    def widen_stream(self, stream: Http2Stream, increment: int) -> bool:
        """Take the peer's WINDOW_UPDATE of a stream; send, and return whether nothing waits on it that did."""
        stream.send_window += increment
        if stream.send_window > MAX_WINDOW:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, "the stream's window overflows")
        if not stream.queue:
            return False
        while stream.queue and self._window > 0 and stream.send_window > 0:
            self._send_queued_frame(stream)
        return not stream.queue

    def set_initial_window(self, size: int, streams: Iterable[Http2Stream]) -> Iterator[Http2Stream]:
        """Take the peer's new window for streams, `streams` being the open ones; otherwise like `widen`."""
        change = size - self._initial_window
        if not change:
            return iter(())
        self._initial_window = size
        for stream in streams:
            stream.send_window += change
            if stream.send_window > MAX_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window overflows")
        return self._flush()

    def _flush(self) -> Iterator[Http2Stream]:
        """Send what waits, a frame of each stream in turn, so that a narrow connection starves none."""
        progress = True
        while self._blocked and self._window > 0 and progress:
            progress = False
            for stream in tuple(self._blocked.values()):
                if self._window <= 0:
                    return
                if stream.send_window > 0:
                    progress = True
                    self._send_queued_frame(stream)
                    if not stream.queue:
                        yield stream

    def _send_queued_frame(self, stream: Http2Stream) -> None:
        """Send one frame, as full as the windows allow; it counts as one that the peer makes us send."""
        queue = stream.queue
        allowed = left = min(stream.send_window, self._window, MAX_FRAME_BYTES)
        pieces: list[bytes | memoryview] = []
        while queue and left:
            piece = queue.popleft()
            if len(piece) > left:
                view = memoryview(piece)
                piece = view[:left]
                queue.appendleft(view[left:])
            pieces.append(piece)
            left -= len(piece)
        size = allowed - left
        stream.queued_bytes -= size
        self._stats.pending_send_bytes -= size
        self._floods.outbound_frames += 1
        self._data_frames(stream, pieces[0] if len(pieces) == 1 else b"".join(pieces))
        del self._blocked[stream.id]
        if queue:
            self._blocked[stream.id] = stream  # behind the others

    def _data_frames(self, stream: Http2Stream, data: bytes | memoryview) -> None:
        """Send a piece that the windows allow."""
        size = len(data)
        stream.send_window -= size
        self._window -= size
        out = self._out
        floods = self._floods
        if size <= MAX_FRAME_BYTES:
            out.append(_data_header(size, stream.id))
            out.append(data)
            floods.data_frames_sent += 1
        else:
            view = memoryview(data)
            for start in range(0, size, MAX_FRAME_BYTES):
                part = view[start : start + MAX_FRAME_BYTES]
                out.append(_data_header(len(part), stream.id))
                out.append(part)
                floods.data_frames_sent += 1
        self._last_data = stream.id


def _data_header(size: int, stream_id: int) -> bytes:
    return b"%b\x00\x00%b" % (size.to_bytes(3, "big"), stream_id.to_bytes(4, "big"))
