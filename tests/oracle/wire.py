"""Just enough HTTP/1.1 framing to see exactly what a proxy put on the wire.

No library parser: those normalise case, order and whitespace, which is what the comparison is about.
"""

import attrs

Headers = tuple[tuple[bytes, bytes], ...]


@attrs.frozen
class Head:
    """Start line and headers as sent: names keep their case, values lose surrounding blanks."""

    start_line: bytes
    headers: Headers

    def get(self, name: bytes) -> bytes | None:
        """Return the first value of a header, by lower-case name."""
        return next((value for key, value in self.headers if key.lower() == name), None)


def take_head(data: bytes) -> tuple[Head, bytes] | None:
    """Split `data` behind its first blank line; None while there is none."""
    block, separator, rest = data.partition(b"\r\n\r\n")
    if not separator:
        return None
    start_line, *lines = block.split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return Head(start_line, tuple((name, value.strip(b" \t")) for name, _, value in pairs)), rest


def take_body(head: Head, data: bytes, *, until_close: bool = False) -> tuple[bytes, Headers, bytes] | None:
    """Return the decoded body, its trailers and what follows it; None while the body is incomplete.

    With `until_close` a message without framing headers never completes: its end is the end of the connection.
    """
    if head.get(b"transfer-encoding") == b"chunked":
        return _take_chunked(data)
    length = head.get(b"content-length")
    if length is None:
        return None if until_close else (b"", (), data)
    size = int(length)
    return (data[:size], (), data[size:]) if len(data) >= size else None


def _take_chunked(data: bytes) -> tuple[bytes, Headers, bytes] | None:
    body = b""
    while True:
        line, separator, data = data.partition(b"\r\n")
        if not separator:
            return None
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        if len(data) < size + 2:
            return None
        body += data[:size]
        data = data[size + 2 :]
    if data.startswith(b"\r\n"):
        return body, (), data[2:]
    block = take_head(b"\r\n" + data)
    return None if block is None else (body, block[0].headers, block[1])
