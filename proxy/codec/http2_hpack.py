"""Header blocks to lines (RFC 7541): a decoder that reads a block in one pass, and remembers those that come again.

Most heads of a connection are equal to one before, and reading one costs more than all else that is done with it. The
Huffman code is read by the package hpack.
"""

from typing import TypeVar

from hpack import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from proxy.codec.headers import HeaderList
from proxy.codec.http2_frames import DEFAULT_TABLE_BYTES, ConnectionFault, ErrorCode

# Decoded bytes of one block, 32 more for each line. A head above its own limit is refused as one; a block above this
# one is a bomb (one byte of it can stand for a line of 4 KiB) and ends the connection.
MAX_DECODED_BYTES = 256 * 1024

_ENTRY_OVERHEAD_BYTES = 32  # RFC 7541, 4.1
_STATIC_LINES = ((b"", b""), *HeaderTable.STATIC_TABLE)  # by index; there is none of index 0
_STATIC_ENTRIES = len(_STATIC_LINES) - 1
_MAX_SHIFT = 28  # of an integer's bytes beyond the first: no size or index here needs more

Meaning = TypeVar("Meaning")

_MAX_REMEMBERED_BLOCKS = 16
_MAX_REMEMBERED_BLOCK_BYTES = 1_024
_MAX_REMEMBERED_LINES = 64


class HeaderDecoder:
    """Blocks of one direction of one connection in, lines out.

    A block without an index of the table means always the same: it is remembered with the lines that it puts there.
    Any other means the same again as long as the table is the same: it is remembered until that changes.
    """

    __slots__ = (
        "_added",
        "_block",
        "_entries",
        "_indexed",
        "_limit_bytes",
        "_position",
        "_remembered",
        "_remembered_until_change",
        "_resized",
        "_size_bytes",
    )

    def __init__(self) -> None:
        self._entries: list[tuple[bytes, bytes]] = []  # the newest last
        self._size_bytes = 0
        self._limit_bytes = DEFAULT_TABLE_BYTES
        self._remembered: dict[bytes, tuple[HeaderList, HeaderList]] = {}  # lines, and those added
        self._remembered_until_change: dict[bytes, HeaderList] = {}
        # Of the block that is being read:
        self._block = b""
        self._position = 0
        self._added: HeaderList = []
        self._indexed = False  # whether it has an index of the table
        self._resized = False

    def decode(self, block: bytes) -> HeaderList:
        """Return the lines of a block, pseudo-headers as they stand.

        Raises:
            ConnectionFault: The block cannot be read, or is a bomb; the table is lost with it.
        """
        lines = self._remembered_until_change.get(block)
        if lines is not None:
            return lines.copy()
        remembered = self._remembered.get(block)
        if remembered is not None:
            lines, added = remembered
            for line in added:
                self._add(line)
            return lines.copy()
        self._block = block
        self._position = 0
        self._added = []
        self._indexed = self._resized = False
        try:
            lines = self._read_lines(len(block))
        except IndexError as error:  # the block ends too soon
            raise _unreadable("the block ends inside a line") from error
        except HPACKError as error:
            raise _unreadable(str(error)) from error
        finally:
            self._block = b""
        if not self._resized and len(block) <= _MAX_REMEMBERED_BLOCK_BYTES and len(lines) <= _MAX_REMEMBERED_LINES:
            if not self._indexed:
                _remember(self._remembered, block, (lines.copy(), self._added))
            elif not self._added:
                _remember(self._remembered_until_change, block, lines.copy())
        return lines

    def _read_lines(self, end: int) -> HeaderList:
        block = self._block
        lines: HeaderList = []
        decoded_bytes = 0
        while self._position < end:
            first = block[self._position]
            if first & 0x80:
                line = self._line(self._integer(0x7F))
            elif first & 0x40:
                line = self._literal(0x3F)
                self._added.append(line)
                self._add(line)
            elif first & 0x20:
                if lines:
                    raise _unreadable("the table's size changes inside a block")
                self._limit_table(self._integer(0x1F))
                continue
            else:  # not to be indexed, now or ever
                line = self._literal(0x0F)
            lines.append(line)
            decoded_bytes += len(line[0]) + len(line[1]) + _ENTRY_OVERHEAD_BYTES
            if decoded_bytes > MAX_DECODED_BYTES:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block of too many bytes")
        return lines

    def _integer(self, mask: int) -> int:
        """Read an integer whose first bits are those of `mask` in the next byte (RFC 7541, 5.1)."""
        block = self._block
        value = block[self._position] & mask
        self._position += 1
        if value < mask:
            return value
        for shift in range(0, _MAX_SHIFT + 1, 7):
            byte = block[self._position]
            self._position += 1
            value += (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _unreadable("an integer out of range")

    def _string(self) -> bytes:
        block = self._block
        coded = block[self._position] & 0x80
        length = self._integer(0x7F)
        start = self._position
        self._position += length
        if self._position > len(block):
            raise _unreadable("the block ends inside a string")
        text = block[start : self._position]
        return decode_huffman(text) if coded else text

    def _literal(self, mask: int) -> tuple[bytes, bytes]:
        index = self._integer(mask)
        name = self._line(index)[0] if index else self._string()
        return name, self._string()

    def _line(self, index: int) -> tuple[bytes, bytes]:
        if 0 < index <= _STATIC_ENTRIES:
            return _STATIC_LINES[index]
        age = index - _STATIC_ENTRIES
        if not 0 < age <= len(self._entries):
            raise _unreadable(f"no line has the index {index}")
        self._indexed = True
        return self._entries[-age]

    def _add(self, line: tuple[bytes, bytes]) -> None:
        """Put a line into the table; one that does not fit empties it (RFC 7541, 4.4)."""
        self._remembered_until_change.clear()
        size_bytes = len(line[0]) + len(line[1]) + _ENTRY_OVERHEAD_BYTES
        self._evict(size_bytes)
        if size_bytes <= self._limit_bytes:
            self._entries.append(line)
            self._size_bytes += size_bytes

    def _limit_table(self, limit_bytes: int) -> None:
        if limit_bytes > DEFAULT_TABLE_BYTES:
            raise _unreadable("a table larger than allowed")
        self._resized = True
        self._remembered_until_change.clear()
        self._limit_bytes = limit_bytes
        self._evict(0)

    def _evict(self, room_bytes: int) -> None:
        """Let the oldest go until there is room, or nothing is left."""
        gone = 0
        while gone < len(self._entries) and self._size_bytes + room_bytes > self._limit_bytes:
            name, value = self._entries[gone]
            self._size_bytes -= len(name) + len(value) + _ENTRY_OVERHEAD_BYTES
            gone += 1
        del self._entries[:gone]


def _remember(blocks: dict[bytes, Meaning], block: bytes, meaning: Meaning) -> None:
    if len(blocks) == _MAX_REMEMBERED_BLOCKS:
        del blocks[next(iter(blocks))]
    blocks[block] = meaning


def _unreadable(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason)
