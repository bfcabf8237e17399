"""What gRPC says in HTTP headers: that a request is gRPC, the status of a response, the time that a call has.

Read as leniently as Envoy reads them, because what is decided by them has to be decided alike. Ports
`Common::isGrpcRequestHeaders`, `getGrpcStatus`, `getGrpcTimeout` and `toGrpcTimeout` (Envoy,
source/common/grpc/common.cc).
"""

from proxy.codec.headers import NOTED_FIRST, HeaderList, get_header
from proxy.codec.http1_request import RequestHead

# Marks of a request's headers: a request without them costs one comparison.
CONTENT_TYPE = NOTED_FIRST << 2
GRPC_TIMEOUT = NOTED_FIRST << 3

GRPC_CONTENT_TYPE = b"application/grpc"
INVALID_STATUS = -1  # Envoy's InvalidCode
_MAX_STATUS = 16
_MAX_TIMEOUT_VALUE = 99_999_999  # the grammar has eight digits
_NANOSECONDS = {b"H": 3_600 * 10**9, b"M": 60 * 10**9, b"S": 10**9, b"m": 10**6, b"u": 10**3, b"n": 1}


def is_grpc_request(head: RequestHead) -> bool:
    """Whether the client speaks gRPC: `application/grpc`, alone or with `+format`."""
    if not head.marks & CONTENT_TYPE:
        return False
    content_type = get_header(head.headers, b"content-type") or b""
    return content_type == GRPC_CONTENT_TYPE or content_type.startswith(GRPC_CONTENT_TYPE + b"+")


def grpc_status(headers: HeaderList) -> int | None:
    """Return a response's `grpc-status`, from its headers or its trailers.

    0 to 16; `INVALID_STATUS` for any other number and for what is no number; None without one or with an empty one.
    """
    value = get_header(headers, b"grpc-status")
    if not value:
        return None
    number = _number(value)
    return INVALID_STATUS if number is None or number > _MAX_STATUS else number


def parse_grpc_timeout(value: bytes) -> int | None:
    """Return a `grpc-timeout` in milliseconds, a fraction counting as a whole one; None for one that is malformed.

    >>> parse_grpc_timeout(b"2S"), parse_grpc_timeout(b"1500u"), parse_grpc_timeout(b"2")
    (2000, 2, None)
    """
    number = _number(value[:-1])
    unit = _NANOSECONDS.get(value[-1:])
    return None if number is None or number > _MAX_TIMEOUT_VALUE or unit is None else -(-number * unit // 10**6)


def format_grpc_timeout(timeout_ms: int) -> bytes:
    """Return a time in milliseconds as `grpc-timeout`: in the smallest unit that eight digits hold, rounded down.

    >>> format_grpc_timeout(1_500), format_grpc_timeout(100_000_000)
    (b'1500m', b'100000S')
    """
    number = timeout_ms
    for unit, longer in ((b"m", 1_000), (b"S", 60), (b"M", 60)):
        if number <= _MAX_TIMEOUT_VALUE:
            return b"%d%b" % (number, unit)
        number //= longer
    return b"%dH" % min(number, _MAX_TIMEOUT_VALUE)


def _number(text: bytes) -> int | None:
    """Return what Envoy takes for a number: digits, maybe after a plus sign, maybe between blanks."""
    text = text.strip()
    digits = text[1:] if text[:1] == b"+" else text
    if not digits.isdigit():
        return None
    # Of a number far beyond any limit only that matters, and Python refuses to read thousands of digits.
    return int(digits.lstrip(b"0")[:20] or b"0")
