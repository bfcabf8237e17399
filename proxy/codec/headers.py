"""Header lists: how a message head is held between two connections.

A head is a list of `(name, value)` byte pairs, names in lower case, order and duplicates as received. Lists, not
mappings: a proxy forwards every line and looks at a few, and those few are noted while parsing (`HeaderTable`), not
searched for later.
"""

from collections.abc import Mapping

HeaderList = list[tuple[bytes, bytes]]

# What the parser does with a header it finds in its table. The values are bits, so that "which of them were there" is
# one integer.
DROP = 1  # do not forward
HOST = 2
CONTENT_LENGTH = 4
TRANSFER_ENCODING = 8
CONNECTION = 16
TE = 32
EXPECT = 64
UPGRADE = 128
PROXY_CONNECTION = 256
NOTED_FIRST = 512  # bits from here on belong to the caller: the header is forwarded and its presence noted

FRAMING_HEADERS: dict[bytes, int] = {
    b"host": HOST,
    b"content-length": CONTENT_LENGTH,
    b"transfer-encoding": TRANSFER_ENCODING,
    b"connection": CONNECTION,
    b"keep-alive": DROP,
    b"proxy-connection": PROXY_CONNECTION,
    b"upgrade": UPGRADE,
    b"te": TE,
    b"expect": EXPECT,
}

# Names remembered per table; clients repeat a few dozen, and one that invents names must not fill the memory.
_MAX_REMEMBERED_NAMES = 1_000
_MAX_REMEMBERED_NAME_BYTES = 64


class HeaderTable(dict[bytes, tuple[bytes, int | None]]):
    """Header name as received -> the name in lower case and its mark, None for a header of no interest.

    Filled as names are seen, because messages repeat them and their spelling.

    Args:
        marks: Lower-case name -> what the parser does with that header.
        joined: Names of which only one line is kept, further ones joined to it by commas; each gets a mark.
    """

    def __init__(self, marks: Mapping[bytes, int], joined: frozenset[bytes] = frozenset()) -> None:
        super().__init__()
        self.marks = dict(marks)
        self.joined = joined
        bit = max([NOTED_FIRST, *marks.values()])
        for name in sorted(joined - marks.keys()):
            bit <<= 1
            self.marks[name] = bit

    def __missing__(self, name: bytes) -> tuple[bytes, int | None]:
        lower = name.lower()
        known = (lower, self.marks.get(lower))
        if len(self) < _MAX_REMEMBERED_NAMES and len(name) <= _MAX_REMEMBERED_NAME_BYTES:
            self[name] = known
        return known


_pair = b": ".join
_lines = b"\r\n".join


def render_head(start_line: bytes, headers: HeaderList) -> bytes:
    """Return a message head, the empty line included; `start_line` ends with CRLF."""
    return b"%b%b\r\n\r\n" % (start_line, _lines(map(_pair, headers))) if headers else start_line + b"\r\n"


def get_header(headers: HeaderList, name: bytes) -> bytes | None:
    """Return the first value of `name` (lower case), or None."""
    for key, value in headers:
        if key == name:
            return value
    return None


def replace_header(headers: HeaderList, name: bytes, value: bytes) -> None:
    """Give the first line of `name` this value where it stands, and drop further ones; append if there is none."""
    line: tuple[bytes, bytes] | None = (name, value)
    doomed = []
    for index, (key, _) in enumerate(headers):
        if key == name:
            if line is None:
                doomed.append(index)
            else:
                headers[index] = line
                line = None
    if line is not None:
        headers.append(line)
    for index in reversed(doomed):
        del headers[index]


def remove_headers(headers: HeaderList, names: frozenset[bytes] | set[bytes]) -> None:
    """Drop every line whose name is in `names`."""
    headers[:] = [pair for pair in headers if pair[0] not in names]


_REASONS = {
    100: "Continue",
    101: "Switching Protocols",
    102: "Processing",
    103: "Early Hints",
    200: "OK",
    201: "Created",
    202: "Accepted",
    203: "Non-Authoritative Information",
    204: "No Content",
    205: "Reset Content",
    206: "Partial Content",
    207: "Multi-Status",
    208: "Already Reported",
    226: "IM Used",
    300: "Multiple Choices",
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    304: "Not Modified",
    305: "Use Proxy",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Payload Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Entity",
    423: "Locked",
    424: "Failed Dependency",
    425: "Too Early",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
    506: "Variant Also Negotiates",
    507: "Insufficient Storage",
    508: "Loop Detected",
    510: "Not Extended",
    511: "Network Authentication Required",
    599: "Last Unassigned Server Error Code",
}


def reason_phrase(status: int) -> str:
    """Return Envoy's reason phrase; `Unknown` where it has none (an upstream's own phrase is never forwarded)."""
    return _REASONS.get(status, "Unknown")


class _StatusLines(dict[int, bytes]):
    """Status lines, each built once."""

    def __missing__(self, status: int) -> bytes:
        line = self[status] = f"HTTP/1.1 {status} {reason_phrase(status)}\r\n".encode()
        return line


STATUS_LINES = _StatusLines()
