"""The half of HTTP/1.1 parsing that requests and responses share.

llhttp (through httptools) reads heads and chunks; this class turns its callbacks into a list of events per read: a
head, `bytes` of body, then `End`. A body of known length that does not arrive in one read bypasses llhttp: its bytes
are passed on as they came, uncopied. A head that equals the one before is not parsed again. An error is the last event
of a list, so that what came before it is still served.
"""

from collections.abc import Mapping
from typing import Any

import httptools

from proxy.codec.headers import (
    CONNECTION,
    CONTENT_LENGTH,
    NOTED_FIRST,
    TRANSFER_ENCODING,
    HeaderList,
    HeaderTable,
)
from proxy.codec.joined_headers import append_header

MAX_HEAD_BYTES = 60 * 1024  # Envoy's max_request_headers_kb
MAX_HEADERS = 100  # Envoy's max_headers_count

# Longest head that is kept for comparison with the next: an idle connection holds it, and should cost a few kilobytes.
_MAX_REMEMBERED_BYTES = 4_096

LINE_ENDS = (b"\r", b"\n")

_NOTHING: list[Any] = []  # what `_events` is between two reads


class End:
    """The end of a message; `trailers` are those of a chunked body, empty otherwise."""

    __slots__ = ("trailers",)

    def __init__(self, trailers: HeaderList) -> None:
        self.trailers = trailers


END = End([])


class ProtocolError(Exception):
    """Raised when a peer does not speak HTTP/1.1 as we accept it.

    `status` and `body` are the reply that a client gets for it, `details` is Envoy's response code detail.
    """

    def __init__(self, details: str, *, status: int = 400, body: bytes = b"Bad Request", reason: str = "") -> None:
        super().__init__(reason or details)
        self.details = details
        self.status = status
        self.body = body


class Http1Parser:
    """Bytes of one direction of one connection in, events out.

    Args:
        table: What to do with which header (`headers.FRAMING_HEADERS` and the caller's own); best shared.
        max_head_bytes: Longest accepted head, start line included.
        max_headers: Most header lines of a head, or of the trailers.
    """

    __slots__ = (
        "_between",
        "_body_left",
        "_body_seen",
        "_chunked",
        "_connection",
        "_content_length",
        "_dropped",
        "_events",
        "_head_bytes",
        "_headers",
        "_in_head",
        "_last_head",
        "_llhttp",
        "_marks",
        "_max_head_bytes",
        "_max_headers",
        "_memory",
        "_read_bytes",
        "_table",
        "_unknown_bytes",
        "_unproductive_bytes",
        "_until_close",
    )

    def __init__(
        self,
        table: HeaderTable | Mapping[bytes, int],
        *,
        max_head_bytes: int = MAX_HEAD_BYTES,
        max_headers: int = MAX_HEADERS,
    ) -> None:
        self._table = table if isinstance(table, HeaderTable) else HeaderTable(table)
        self._max_head_bytes = max_head_bytes
        self._max_headers = max_headers
        self._events: list[Any] = []
        self._body_left = 0  # bytes of body still to come past llhttp
        self._body_seen = 0  # bytes of body that llhttp delivered
        self._content_length = -1
        self._until_close = False
        self._in_head = False
        self._between = True  # no message has begun, or the last one is complete
        self._last_head = b""  # of the message before, where that can be remembered
        self._memory: Any = None  # what `_last_head` means, once it has come twice
        self._head_bytes = 0
        self._read_bytes = 0
        self._unknown_bytes = 0
        self._unproductive_bytes = 0  # of a chunked message since its last piece of body: sizes, extensions, trailers
        self._chunked = False
        self._headers: HeaderList = []
        self._llhttp = self._new_llhttp()

    def _new_llhttp(self) -> Any:
        raise NotImplementedError

    @property
    def in_head(self) -> bool:
        """Whether a head has begun and is not complete."""
        return self._in_head

    def feed(self, data: bytes) -> list[Any]:
        """Parse one read; return its events in order.

        After an event that is a `ProtocolError` the parser must not be fed again.
        """
        between = self._between
        repeated = between and self._last_head != b"" and data.startswith(self._last_head)
        if repeated and self._memory is not None:
            recalled = self._recall(self._memory, data)
            if recalled is not None:
                return recalled
        events = self._events = []
        self._parse(data, events)
        self._events = _NOTHING  # or an idle connection would keep the last body it has passed on
        # What one side repeats (polling, health checks, a file) begins with the same head again. Varied traffic pays
        # for this with one comparison: a head is kept parsed only if it has come twice.
        if not repeated:
            self._last_head = b""
            self._memory = None
            if between and events and self._may_remember(events[0]) and data[:1] not in LINE_ENDS:
                head_bytes = data.find(b"\r\n\r\n") + 4
                if head_bytes <= _MAX_REMEMBERED_BYTES:
                    self._last_head = data[:head_bytes]
        elif self._memory is None and self._may_remember(events[0]):
            self._memory = events[0].copy()
        return events

    def _may_remember(self, event: Any) -> bool:
        """Whether a read's first event is a head that means the same again and leaves the parser as it is."""
        raise NotImplementedError

    def _recall(self, head: Any, data: bytes) -> list[Any] | None:
        """Return the events of a read that begins with the remembered head; None if it holds more than its message."""
        body_bytes = len(data) - len(self._last_head)
        expected = 0 if head.end_stream else head.content_length
        if body_bytes > expected:
            return None
        events = [head.copy()]  # heads are changed by those who get them
        if body_bytes:
            events.append(data[-body_bytes:])
        if body_bytes < expected:
            self._between = False
            self._body_left = expected - body_bytes
        elif expected:
            events.append(END)
        return events

    def close(self) -> None:
        """Let go of llhttp: the two hold each other, and the collector would find that out late."""
        self._llhttp = None
        self._memory = None

    def _parse(self, data: bytes, events: list[Any]) -> None:
        """Add the events of one read to `events`."""
        if self._body_left or self._until_close:
            data = self._pass_body(data)
        self._read_bytes = len(data)
        if self._in_head:
            self._head_bytes += len(data)
        self._unproductive_bytes += len(data)
        while data:
            try:
                self._llhttp.feed_data(data)
                break
            except httptools.HttpParserCallbackError as error:
                cause = error.__context__
                if not isinstance(cause, ProtocolError):
                    raise
                events.append(cause.with_traceback(None))
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._on_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError as error:
                events.append(self._translate(str(error)))
                return
        if self._in_head:
            if self._head_bytes > self._max_head_bytes:
                events.append(head_too_large())
        elif self._chunked and self._unproductive_bytes > self._max_head_bytes:
            events.append(trailers_too_large())
        elif self._content_length > self._body_seen:
            self._body_left = self._content_length - self._body_seen
            self._content_length = -1
            self._llhttp = self._new_llhttp()

    def _pass_body(self, data: bytes) -> bytes:
        """Emit body bytes that need no parsing; return what follows the body."""
        if self._until_close or len(data) < self._body_left:
            self._events.append(data)
            if not self._until_close:
                self._body_left -= len(data)
            return b""
        body, rest = data[: self._body_left], data[self._body_left :]
        self._body_left = 0
        self._between = True
        self._events.append(body)
        self._events.append(END)
        return rest

    def _on_upgrade(self, rest: bytes) -> bytes:
        """Leave llhttp's upgraded state; return the bytes to parse on with."""
        raise NotImplementedError

    def _translate(self, error: str) -> ProtocolError:
        """Return our error for llhttp's message."""
        if "Transfer-Encoding" in error and "Content-Length" in error:
            return ProtocolError("http1.content_length_and_chunked_not_allowed", reason=error)
        if "Transfer-Encoding" in error:
            return unsupported_transfer_encoding(error)
        if error == "Invalid header value char":
            return ProtocolError("http1.invalid_characters", reason=error)
        return ProtocolError("http1.codec_error", reason=error)

    # httptools calls these; all of them run inside `feed`.

    def on_message_begin(self) -> None:
        """Start a head."""
        self._in_head = True
        self._between = False
        # A head that begins behind other messages has an unknown part of the read, so two bounds are kept.
        self._head_bytes, self._unknown_bytes = (0, self._read_bytes) if self._events else (self._read_bytes, 0)
        self._headers = []
        self._marks = 0
        self._dropped = 0
        self._content_length = -1
        self._body_seen = 0
        self._chunked = False
        self._connection = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one line of a head, or of the trailers."""
        name, mark = self._table[name]
        value = value.rstrip(b" \t")
        if mark is None:
            self._headers.append((name, value))
        elif mark >= NOTED_FIRST:
            if self._in_head:
                if self._marks & mark and name in self._table.joined:
                    append_header(self._headers, name, value, self._table.joined)
                    self._dropped += 1
                    return
                self._marks |= mark
            self._headers.append((name, value))
        else:
            self._on_framing_header(mark, name, value)

    def _on_framing_header(self, mark: int, name: bytes, value: bytes) -> None:
        """Take a line that means something to the codec; in trailers it is dropped."""
        if not self._in_head:
            self._dropped += 1
            return
        self._marks |= mark
        if mark == CONTENT_LENGTH:
            self._content_length = int(value)
            self._headers.append((name, value))
        elif mark == TRANSFER_ENCODING:
            if value.lower() != b"chunked" or self._chunked:
                raise unsupported_transfer_encoding(f"Transfer-Encoding is {value!r}")
            self._chunked = True
            self._dropped += 1
        elif mark == CONNECTION:
            self._connection = self._connection + b"," + value.lower() if self._connection else value.lower()
            self._dropped += 1
        else:
            self._on_other_header(mark, name, value)

    def _on_other_header(self, mark: int, name: bytes, value: bytes) -> None:
        raise NotImplementedError

    def _finish_head(self, start_line_bytes: int) -> HeaderList:
        """Check the limits and return the head's lines; from here on `on_header` collects trailers."""
        self._in_head = False
        headers, self._headers = self._headers, []
        if len(headers) + self._dropped > self._max_headers:
            raise ProtocolError("http1.too_many_headers", status=431, body=_TOO_LARGE)
        limit = self._max_head_bytes
        # Only long reads can hold a long head; adding up each would cost every request.
        if self._head_bytes + self._unknown_bytes > limit and start_line_bytes + _size(headers) > limit:
            raise head_too_large()
        self._dropped = 0
        self._unproductive_bytes = 0
        return headers

    def _take_trailers(self) -> HeaderList:
        """Check the limits and return the trailers."""
        trailers, self._headers = self._headers, []
        if len(trailers) + self._dropped > self._max_headers:
            raise ProtocolError("http1.too_many_trailers", status=431, body=_TOO_LARGE)
        if _size(trailers) > self._max_head_bytes:
            raise trailers_too_large()
        return trailers

    def on_body(self, data: bytes) -> None:
        """Take a piece of body."""
        self._body_seen += len(data)
        self._unproductive_bytes = 0
        self._events.append(data)


_TOO_LARGE = b"Request Header Fields Too Large"


def _size(headers: HeaderList) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def head_too_large() -> ProtocolError:
    """Return the error for a head above the limit."""
    return ProtocolError("http1.headers_too_large", status=431, body=_TOO_LARGE)


def trailers_too_large() -> ProtocolError:
    """Return the error for a chunked body's end (trailers, or chunk extensions) above the limit."""
    return ProtocolError("http1.trailers_too_large", status=431, body=_TOO_LARGE)


def unsupported_transfer_encoding(reason: str) -> ProtocolError:
    """Return the error for any transfer coding but `chunked`."""
    return ProtocolError("http1.invalid_transfer_encoding", status=501, body=b"Not Implemented", reason=reason)
