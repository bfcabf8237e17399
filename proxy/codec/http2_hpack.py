"""Header compression (RFC 7541), by the package hpack: its errors in our words, its memory bounded."""

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple, OversizedHeaderListError

from proxy.codec.headers import HeaderList
from proxy.codec.http2_frames import DEFAULT_TABLE_BYTES, ConnectionFault, ErrorCode

# Decoded bytes of one block, 32 more for each line. A head above its own limit is refused as one; a block above this
# one is a bomb (one byte of it can stand for a line of 4 KiB) and ends the connection.
MAX_DECODED_BYTES = 256 * 1024

# Never put into a table: a peer on the same connection could find them out by guessing (RFC 7541, 7.1).
_SECRETS = frozenset((b"authorization", b"proxy-authorization"))


class HeaderDecoder:
    """Blocks of one direction of one connection in, lines out."""

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = Decoder(MAX_DECODED_BYTES)
        self._decoder.max_allowed_table_size = DEFAULT_TABLE_BYTES

    def decode(self, block: bytes) -> HeaderList:
        """Return the lines of a block, pseudo-headers as they stand.

        Raises:
            ConnectionFault: The block cannot be read, or is a bomb; the table is lost with it.
        """
        try:
            return self._decoder.decode(block, raw=True)  # type: ignore[return-value]
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block of too many bytes") from error
        except HPACKError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from error


class HeaderEncoder:
    """Lines in, blocks out."""

    __slots__ = ("_encoder",)

    def __init__(self) -> None:
        self._encoder = Encoder()

    def limit_table(self, table_bytes: int) -> None:
        """Keep the table as small as the peer wants it, never larger than the default."""
        self._encoder.header_table_size = min(table_bytes, DEFAULT_TABLE_BYTES)

    def encode(self, lines: HeaderList) -> bytes:
        """Return the block for lines; as they are, since package hpack takes milliseconds to shorten a long value."""
        return self._encoder.encode(
            [NeverIndexedHeaderTuple(*line) if line[0] in _SECRETS else line for line in lines], huffman=False
        )
