"""Requests as a faulty upstream saw them, byte for byte, and the reader that finds their ends.

Lenient on purpose: it records what a proxy sends, it does not judge it.
"""

import enum
from collections.abc import Iterator

import attrs


@attrs.define(eq=False)
class RecordedRequest:
    """One request. `body` grows while it arrives; `complete` turns true at its end.

    Attributes:
        raw_head: Every byte up to and including the empty line.
        headers: `(name, value)` in order, names as sent, decoded as Latin-1.
        connection: 1 for the first connection that the upstream accepted, 2 for the next, ...
        trailers: As `headers`, after a chunked body.
    """

    raw_head: bytes
    method: str
    target: str
    headers: list[tuple[str, str]]
    connection: int
    body: bytearray = attrs.Factory(bytearray)
    trailers: list[tuple[str, str]] = attrs.Factory(list)
    complete: bool = False

    @classmethod
    def from_head(cls, raw_head: bytes, connection: int) -> "RecordedRequest":
        """Split a raw head; a malformed request line gives empty parts rather than an error."""
        request_line, *lines = raw_head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, _, rest = request_line.partition(" ")
        return cls(raw_head, method, rest.rpartition(" ")[0], _parse_fields(lines), connection)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        """Return the first value of that name, case-insensitively; None when absent."""
        name = name.lower()
        return next((value for key, value in self.headers if key.lower() == name), None)


def _parse_fields(lines: list[str]) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in lines if line)
    return [(name, value.strip(" \t")) for name, _, value in pairs]


class _State(enum.Enum):
    HEAD = enum.auto()
    LENGTH = enum.auto()
    CHUNK_SIZE = enum.auto()
    CHUNK_DATA = enum.auto()
    TRAILERS = enum.auto()


class RequestReader:
    """Cuts the bytes of one connection into requests."""

    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._state = _State.HEAD
        self._missing = 0
        self._request: RecordedRequest | None = None

    def feed(self, data: bytes) -> Iterator[RecordedRequest]:
        """Yield each request once, when its head is there; its body follows in this call or in later ones."""
        self._buffer += data
        while True:
            if self._state is _State.HEAD:
                request = self._read_head()
                if request is None:
                    return
                self._request = request
                self._start_body(request)
                yield request
            request = self._request
            assert request is not None
            if not self._read_body(request):
                return
            request.complete = True
            self._state = _State.HEAD

    def _read_head(self) -> RecordedRequest | None:
        raw_head = self._take_until(b"\r\n\r\n")
        return None if raw_head is None else RecordedRequest.from_head(raw_head, self._connection)

    def _start_body(self, request: RecordedRequest) -> None:
        if "chunked" in (request.header("transfer-encoding") or "").lower():
            self._state = _State.CHUNK_SIZE
        else:
            self._state = _State.LENGTH
            self._missing = int(request.header("content-length") or 0)

    def _read_body(self, request: RecordedRequest) -> bool:
        """Move what is there into the body; return whether the message has ended."""
        while True:
            match self._state:
                case _State.LENGTH:
                    return self._move_data(request)
                case _State.CHUNK_SIZE:
                    line = self._take_until(b"\r\n")
                    if line is None:
                        return False
                    self._missing = int(line.partition(b";")[0], 16)
                    self._state = _State.CHUNK_DATA if self._missing else _State.TRAILERS
                case _State.CHUNK_DATA:
                    if not self._move_data(request) or self._take_until(b"\r\n") is None:
                        return False
                    self._state = _State.CHUNK_SIZE
                case _:
                    line = self._take_until(b"\r\n")
                    if line is None:
                        return False
                    if line == b"\r\n":
                        return True
                    request.trailers += _parse_fields([line.decode("latin-1").rstrip("\r\n")])

    def _move_data(self, request: RecordedRequest) -> bool:
        data = self._buffer[: self._missing]
        del self._buffer[: self._missing]
        request.body += data
        self._missing -= len(data)
        return not self._missing

    def _take_until(self, end: bytes) -> bytes | None:
        index = self._buffer.find(end)
        if index < 0:
            return None
        taken = bytes(self._buffer[: index + len(end)])
        del self._buffer[: index + len(end)]
        return taken
