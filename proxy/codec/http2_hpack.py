"""Header blocks to lines (RFC 7541), by the package hpack: its errors in our words, its memory bounded.

What a peer sends again is remembered: most heads of a connection are equal to one before, and reading one costs more
than all else that is done with it.
"""

from hpack import Decoder, HPACKError, OversizedHeaderListError

from proxy.codec.headers import HeaderList
from proxy.codec.http2_frames import DEFAULT_TABLE_BYTES, ConnectionFault, ErrorCode

# Decoded bytes of one block, 32 more for each line. A head above its own limit is refused as one; a block above this
# one is a bomb (one byte of it can stand for a line of 4 KiB) and ends the connection.
MAX_DECODED_BYTES = 256 * 1024

_MAX_REMEMBERED_BLOCKS = 16
_MAX_REMEMBERED_BLOCK_BYTES = 1_024
_MAX_REMEMBERED_LINES = 64


class HeaderDecoder:
    """Blocks of one direction of one connection in, lines out.

    A block means the same again as long as the table is the same, so those that leave it alone are remembered until
    one changes it.
    """

    __slots__ = ("_decoder", "_remembered")

    def __init__(self) -> None:
        self._decoder = Decoder(MAX_DECODED_BYTES)
        self._decoder.max_allowed_table_size = DEFAULT_TABLE_BYTES
        self._remembered: dict[bytes, HeaderList] = {}

    def decode(self, block: bytes) -> HeaderList:
        """Return the lines of a block, pseudo-headers as they stand.

        Raises:
            ConnectionFault: The block cannot be read, or is a bomb; the table is lost with it.
        """
        remembered = self._remembered.get(block)
        if remembered is not None:
            return remembered.copy()
        table = self._decoder.header_table
        entries = table.dynamic_entries
        newest, count, size_bytes = entries[0] if entries else None, len(entries), table.maxsize
        try:
            lines: HeaderList = self._decoder.decode(block, raw=True)  # type: ignore[assignment]
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block of too many bytes") from error
        except HPACKError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from error
        # What is added stands first and is an object of its own, however equal to one that was there before.
        same = newest is (entries[0] if entries else None) and count == len(entries) and size_bytes == table.maxsize
        if not same:
            self._remembered.clear()
        elif len(block) <= _MAX_REMEMBERED_BLOCK_BYTES and len(lines) <= _MAX_REMEMBERED_LINES:
            if len(self._remembered) == _MAX_REMEMBERED_BLOCKS:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[block] = lines.copy()
        return lines
