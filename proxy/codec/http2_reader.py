"""The framing half of a HTTP/2 session: bytes into frames, frames checked for what needs no knowledge of streams.

Lengths, padding, which frames belong to a stream and which to the connection, header blocks over several frames, and
floods of frames that bring nothing (RFC 9113, 4 and 6). What frames mean is the session's.
"""

from proxy.codec.http2_floods import Floods
from proxy.codec.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER_BYTES,
    HAS_PRIORITY,
    MAX_FRAME_BYTES,
    MAX_STREAM_ID,
    SETTINGS,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    read_goaway,
    read_settings,
    read_word,
    strip_padding,
    unpack_header,
)

# CONTINUATION frames of one block: nghttp2's limit, and Envoy's with it.
MAX_CONTINUATIONS = 8

# Settings of one frame: nghttp2's limit, and Envoy's with it; RFC 9113 knows six.
MAX_SETTINGS = 32

_PRIORITY_BYTES = 5
_SETTING_BYTES = 6
_KIND = 3  # where a frame says what it is


class Http2Reader:
    """Frames of one direction; a session is one, and gets them through its `_on_...` methods."""

    __slots__ = ("_block", "_block_flags", "_block_stream_id", "_floods", "_preface", "_settings_seen", "_tail")

    def __init__(self, floods: Floods, preface: bytes) -> None:
        self._floods = floods
        self._preface = preface  # what is still to come of it
        self._tail = b""  # of a frame that is not here whole
        self._settings_seen = False
        self._block: list[bytes] = []  # a header block that is not here whole
        self._block_stream_id = 0
        self._block_flags = 0

    @property
    def in_head(self) -> bool:
        """Whether the peer owes the rest of something short: its preface, a header block, a frame other than DATA."""
        return bool(self._preface or self._block or (len(self._tail) > _KIND and self._tail[_KIND] != DATA))

    def _read(self, data: bytes) -> None:
        """Take what a read brought.

        Raises:
            ConnectionFault: The connection has to end.
        """
        if self._preface:
            data = self._read_preface(data)
        if self._tail:
            data = self._tail + data
        offset, size = 0, len(data)
        while size - offset >= FRAME_HEADER_BYTES:
            high, low, kind, flags, stream_id = unpack_header(data, offset)
            length = high << 16 | low
            if length > MAX_FRAME_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame above the limit")
            if not self._settings_seen and (kind != SETTINGS or flags & ACK):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            start = offset + FRAME_HEADER_BYTES
            if start + length > size:
                break
            offset = start + length
            if self._block and kind != CONTINUATION:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame within a header block")
            if kind < len(_FRAMES):
                stream_id &= MAX_STREAM_ID
                try:
                    _FRAMES[kind](self, flags, stream_id, data[start:offset])
                except StreamFault as fault:
                    self._on_stream_fault(stream_id, fault)
                self._floods.check_outbound()
        self._tail = data[offset:] if offset else data

    def _read_preface(self, data: bytes) -> bytes:
        """Return what follows the preface."""
        part = data[: len(self._preface)]
        if not self._preface.startswith(part):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "not the preface of HTTP/2")
        self._preface = self._preface[len(part) :]
        return data[len(part) :]

    def _read_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_stream(stream_id)
        body = strip_padding(payload, flags)
        self._floods.on_payload(empty=not body and not flags & END_STREAM)
        self._on_data(stream_id, body, len(payload), end_stream=flags & END_STREAM != 0)

    def _read_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_stream(stream_id)
        block = strip_padding(payload, flags)
        if flags & HAS_PRIORITY:
            if len(block) < _PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS too short for a priority")
            block = block[_PRIORITY_BYTES:]
        self._floods.on_payload(empty=not block and not flags & END_STREAM)
        if flags & END_HEADERS:
            self._on_headers(stream_id, block, end_stream=flags & END_STREAM != 0)
        else:
            self._block = [block]
            self._block_stream_id = stream_id
            self._block_flags = flags

    def _read_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        blocks = self._block
        if not blocks or stream_id != self._block_stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of no header block")
        self._floods.on_payload(empty=not payload)
        blocks.append(payload)
        if len(blocks) > 1 + MAX_CONTINUATIONS:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many CONTINUATION frames")
        if flags & END_HEADERS:
            self._block = []
            self._on_headers(stream_id, b"".join(blocks), end_stream=self._block_flags & END_STREAM != 0)

    def _read_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_stream(stream_id)
        if len(payload) != _PRIORITY_BYTES:
            raise StreamFault(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY is not of five bytes")
        self._floods.on_priority()

    def _read_rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_stream(stream_id)
        _needs_length(payload, 4)
        self._on_rst_stream(stream_id, read_word(payload))

    def _read_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_no_stream(stream_id)
        if flags & ACK:
            _needs_length(payload, 0)
            return
        if len(payload) % _SETTING_BYTES:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS is not of whole settings")
        if len(payload) > MAX_SETTINGS * _SETTING_BYTES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many settings in a frame")
        self._settings_seen = True
        self._on_settings(read_settings(payload))

    def _read_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which nobody may send us")

    def _read_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_no_stream(stream_id)
        _needs_length(payload, 8)
        self._on_ping(payload, ack=flags & ACK != 0)

    def _read_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_no_stream(stream_id)
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is too short")
        self._on_goaway(*read_goaway(payload))

    def _read_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        _needs_length(payload, 4)
        self._floods.on_window_update()
        increment = read_word(payload) & MAX_STREAM_ID
        if increment:
            self._on_window_update(stream_id, increment)
        elif stream_id:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        else:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")

    # The session's

    def _on_data(self, stream_id: int, body: bytes, size: int, *, end_stream: bool) -> None:
        """Take a piece of body; with its padding it has `size` bytes."""
        raise NotImplementedError

    def _on_headers(self, stream_id: int, block: bytes, *, end_stream: bool) -> None:
        """Take a whole header block."""
        raise NotImplementedError

    def _on_rst_stream(self, stream_id: int, error_code: int) -> None:
        raise NotImplementedError

    def _on_settings(self, values: list[tuple[int, int]]) -> None:
        raise NotImplementedError

    def _on_ping(self, payload: bytes, *, ack: bool) -> None:
        raise NotImplementedError

    def _on_goaway(self, last_stream_id: int, error_code: int) -> None:
        raise NotImplementedError

    def _on_window_update(self, stream_id: int, increment: int) -> None:
        """Take an increment, not 0; stream 0 is the connection."""
        raise NotImplementedError

    def _on_stream_fault(self, stream_id: int, fault: StreamFault) -> None:
        """End a stream for what the peer sent on it."""
        raise NotImplementedError


_FRAMES = (
    Http2Reader._read_data,
    Http2Reader._read_headers,
    Http2Reader._read_priority,
    Http2Reader._read_rst_stream,
    Http2Reader._read_settings,
    Http2Reader._read_push_promise,
    Http2Reader._read_ping,
    Http2Reader._read_goaway,
    Http2Reader._read_window_update,
    Http2Reader._read_continuation,
)


def _needs_stream(stream_id: int) -> None:
    if not stream_id:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of a stream, on none")


def _needs_no_stream(stream_id: int) -> None:
    if stream_id:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of the connection, on a stream")


def _needs_length(payload: bytes, length: int) -> None:
    if len(payload) != length:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame that has to be of {length} bytes")
