"""HTTP/2 on the wire: numbers of frames, flags, errors and settings (RFC 9113, 6 and 7), and how a frame is written."""

import enum
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
MAX_FRAME_BYTES = 16_384  # what every peer takes, and all that we take
MAX_WINDOW = 2**31 - 1
MAX_STREAM_ID = 2**31 - 1
DEFAULT_WINDOW_BYTES = 65_535
DEFAULT_TABLE_BYTES = 4_096

DATA = 0
HEADERS = 1
PRIORITY = 2
RST_STREAM = 3
SETTINGS = 4
PUSH_PROMISE = 5
PING = 6
GOAWAY = 7
WINDOW_UPDATE = 8
CONTINUATION = 9

END_STREAM = 1
ACK = 1
END_HEADERS = 4
PADDED = 8
HAS_PRIORITY = 32

HEADER_TABLE_SIZE = 1
ENABLE_PUSH = 2
MAX_CONCURRENT_STREAMS = 3
INITIAL_WINDOW_SIZE = 4
MAX_FRAME_SIZE = 5
MAX_HEADER_LIST_SIZE = 6
ENABLE_CONNECT_PROTOCOL = 8


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection ends (RFC 9113, 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


_HEADER = struct.Struct(">BHBBL")
_pack_header = _HEADER.pack
# `(length >> 16, length & 0xffff, kind, flags, stream id with the reserved bit)`
unpack_header = _HEADER.unpack_from
_WORD = struct.Struct(">L")
_SETTING = struct.Struct(">HL")
_TWO_WORDS = struct.Struct(">LL")


class ConnectionFault(Exception):  # noqa: N818 - a connection error of RFC 9113, 5.4.1
    """Raised when the peer has broken the connection's state; it has to end."""

    def __init__(self, error_code: int, reason: str) -> None:
        super().__init__(reason)
        self.error_code = error_code
        self.reason = reason


class StreamFault(Exception):  # noqa: N818 - a stream error of RFC 9113, 5.4.2
    """Raised when the peer has broken one stream; the others go on."""

    def __init__(self, error_code: int, reason: str) -> None:
        super().__init__(reason)
        self.error_code = error_code
        self.reason = reason


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    """Return one frame; `payload` has at most `MAX_FRAME_BYTES`."""
    length = len(payload)
    return _pack_header(length >> 16, length & 0xFFFF, kind, flags, stream_id) + payload


def word(value: int) -> bytes:
    """Return four bytes: the payload of RST_STREAM and WINDOW_UPDATE."""
    return _WORD.pack(value)


def read_word(data: bytes) -> int:
    """Return the number in the first four bytes."""
    value: int = _WORD.unpack_from(data)[0]
    return value


def goaway(last_stream_id: int, error_code: int) -> bytes:
    """Return a GOAWAY frame."""
    return frame(GOAWAY, 0, 0, _TWO_WORDS.pack(last_stream_id, error_code))


def read_goaway(payload: bytes) -> tuple[int, int]:
    """Return last stream id and error code."""
    last_stream_id, error_code = _TWO_WORDS.unpack_from(payload)
    return last_stream_id & MAX_STREAM_ID, error_code


def settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return identifier and value of each setting, in order; a multiple of six bytes."""
    return list(_SETTING.iter_unpack(payload))


def strip_padding(payload: bytes, flags: int) -> bytes:
    """Return a payload without its padding.

    Raises:
        ConnectionFault: The padding is as long as the payload, or there is no room for its length.
    """
    if not flags & PADDED:
        return payload
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without a length of the padding")
    padding = payload[0]
    if padding >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the padding is as long as the payload")
    return payload[1 : len(payload) - padding]
