"""Lines to header blocks (RFC 7541): an encoder that looks each line up and computes little.

Peers send much the same lines again and again; those that do not change are sent as an index from the second time on.
Nothing is Huffman coded: it saves a fifth of the bytes and costs more time than all else.
"""

from collections import deque

from hpack.table import HeaderTable

from proxy.codec.headers import HeaderList
from proxy.codec.http2_frames import DEFAULT_TABLE_BYTES

# Never put into a table: a peer on the same connection could find them out by guessing (RFC 7541, 7.1).
_SECRETS = frozenset((b"authorization", b"proxy-authorization"))

# Their values seldom come twice, so in the table they would only drive out others.
_VARYING = frozenset(
    (
        *(b":path", b"age", b"content-length", b"cookie", b"etag", b"if-modified-since", b"if-none-match", b"location"),
        *(b"set-cookie", b"grpc-timeout", b"traceparent", b"x-request-id"),
        *(b"x-envoy-expected-rq-timeout-ms", b"x-envoy-upstream-service-time"),
    )
)

_ENTRY_OVERHEAD_BYTES = 32  # RFC 7541, 4.1
_STATIC_ENTRIES = 61

_INDEXED, _WITH_INDEXING, _WITHOUT_INDEXING, _NEVER_INDEXED, _TABLE_SIZE = 0x80, 0x40, 0x00, 0x10, 0x20
_PREFIX_BITS = {_INDEXED: 7, _WITH_INDEXING: 6, _WITHOUT_INDEXING: 4, _NEVER_INDEXED: 4, _TABLE_SIZE: 5}


def _integer(value: int, kind: int) -> bytes:
    """Return an integer behind the bits of a representation (RFC 7541, 5.1)."""
    limit = (1 << _PREFIX_BITS[kind]) - 1
    if value < limit:
        return bytes((kind | value,))
    encoded = bytearray((kind | limit,))
    value -= limit
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_LENGTHS = tuple(bytes((length,)) for length in range(127))


def _string(text: bytes) -> bytes:
    """Return a string as it is: its length, seven bits of which stand in the first byte, and its bytes."""
    length = len(text)
    return (_LENGTHS[length] if length < 127 else b"\x7f" + _integer(length, _INDEXED)[1:]) + text


_INDICES = tuple(_integer(index, _INDEXED) for index in range(_STATIC_ENTRIES + 1 + DEFAULT_TABLE_BYTES // 32))
_STATIC_LINES = {line: _INDICES[index] for index, line in enumerate(HeaderTable.STATIC_TABLE, start=1)}
_STATIC_NAMES: dict[bytes, int] = {}
for _index, (_name, _) in enumerate(HeaderTable.STATIC_TABLE, start=1):
    _STATIC_NAMES.setdefault(_name, _index)


def _start(name: bytes, kind: int) -> bytes:
    """Return a literal up to its value."""
    static = _STATIC_NAMES.get(name)
    return bytes((kind,)) + _string(name) if static is None else _integer(static, kind)


_VARYING_STARTS = {name: _start(name, _WITHOUT_INDEXING) for name in _VARYING}


class HeaderEncoder:
    """Lines in, blocks out; one for each direction of a connection, whose blocks arrive in the order of the calls."""

    __slots__ = ("_added", "_entries", "_limit_bytes", "_numbers", "_size_bytes", "_smallest_limit_bytes")

    def __init__(self) -> None:
        self._entries: deque[tuple[bytes, bytes]] = deque()  # the newest first
        self._numbers: dict[tuple[bytes, bytes], int] = {}  # of each entry: how many were added before it
        self._added = 0
        self._size_bytes = 0
        self._limit_bytes = DEFAULT_TABLE_BYTES
        self._smallest_limit_bytes: int | None = None  # of those that the peer has not been told of

    def limit_table(self, table_bytes: int) -> None:
        """Keep the table as small as the peer wants it, never larger than the default."""
        limit = min(table_bytes, DEFAULT_TABLE_BYTES)
        if limit == self._limit_bytes:
            return
        smallest = self._smallest_limit_bytes
        self._smallest_limit_bytes = limit if smallest is None else min(smallest, limit)
        self._limit_bytes = limit
        self._evict(0)

    def encode(self, lines: HeaderList) -> bytes:
        """Return the block for lines, which must be sent before that of the next call."""
        block = [] if self._smallest_limit_bytes is None else [self._size_updates(self._smallest_limit_bytes)]
        numbers = self._numbers
        for line in lines:
            known = _STATIC_LINES.get(line)
            if known is None:
                number = numbers.get(line)
                known = self._literal(line) if number is None else _INDICES[_STATIC_ENTRIES + self._added - number]
            block.append(known)
        return b"".join(block)

    def _literal(self, line: tuple[bytes, bytes]) -> bytes:
        name, value = line
        start = _VARYING_STARTS.get(name)
        if start is None:
            if name in _SECRETS:
                start = _start(name, _NEVER_INDEXED)
            else:
                start = _start(name, _WITH_INDEXING if self._add(line) else _WITHOUT_INDEXING)
        return start + _string(value)

    def _add(self, line: tuple[bytes, bytes]) -> bool:
        """Put a line into the table if it is not too large to leave others there."""
        size_bytes = _entry_bytes(line)
        if size_bytes > self._limit_bytes // 2:
            return False
        self._evict(size_bytes)
        self._entries.appendleft(line)
        self._numbers[line] = self._added
        self._added += 1
        self._size_bytes += size_bytes
        return True

    def _evict(self, room_bytes: int) -> None:
        """Let the oldest go until there is room."""
        while self._entries and self._size_bytes + room_bytes > self._limit_bytes:
            line = self._entries.pop()
            self._size_bytes -= _entry_bytes(line)
            del self._numbers[line]

    def _size_updates(self, smallest_bytes: int) -> bytes:
        """Tell the peer of a new size, and of a smaller one that was in between (RFC 7541, 4.2)."""
        self._smallest_limit_bytes = None
        update = _integer(self._limit_bytes, _TABLE_SIZE)
        return update if smallest_bytes == self._limit_bytes else _integer(smallest_bytes, _TABLE_SIZE) + update


def _entry_bytes(line: tuple[bytes, bytes]) -> int:
    return len(line[0]) + len(line[1]) + _ENTRY_OVERHEAD_BYTES
