"""What a route does to headers: remove, set, add, in this order.

Made ready once per route; an operation list that changes nothing is None. Ports `HeaderParser::evaluateHeaders` (Envoy,
source/common/router/header_parser.cc). All values are made, after removals, before the first line is set; a set header
moves to the end; an empty value changes nothing.

Headers that frame a message or belong to one connection are neither set nor added: they are written by the codec.
`content-length` may be removed, and the body is then sent in chunks. A value that would end its line is left out; Envoy
refuses it.
"""

from collections.abc import Iterable, Sequence

from proxy.codec.headers import FRAMING_HEADERS, NOTED_FIRST, HeaderList, get_header, remove_headers
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.joined_headers import JOINED_REQUEST_HEADERS, JOINED_RESPONSE_HEADERS, append_header
from proxy.config.route_config import HeaderOperations
from proxy.router.header_format import HeaderFormat, StreamInfo, compile_format
from proxy.upstream.connection import RESPONSE_HEADERS

_Line = tuple[bytes, bytes | HeaderFormat]

_CONTENT_LENGTH = b"content-length"
_FRAMING_MARKS = NOTED_FIRST - 1
_LINE_ENDS = frozenset("\0\r\n")


def compile_operations(*operations: HeaderOperations) -> "HeaderEdits | None":
    """Return these operations, to be applied one list after the other; None when none changes anything.

    The rules of a weighted cluster come before those of its route, so that the route's win.
    """
    edits = [HeaderEdit(each) for each in operations if each.set or each.add or each.remove]
    return HeaderEdits(edits) if edits else None


class HeaderEdit:
    """One list of operations."""

    __slots__ = ("add", "remove", "set")

    def __init__(self, operations: HeaderOperations) -> None:
        self.remove = frozenset(name.lower().encode() for name in operations.remove) - {b"host"}
        self.set = _lines(operations.set)
        self.add = _lines(operations.add)

    def apply(
        self, headers: HeaderList, stream: StreamInfo, response: ResponseHead | None, joined: frozenset[bytes]
    ) -> None:
        """Change `headers`, which are those of `response`, or the request's if that is None."""
        if self.remove:
            remove_headers(headers, self.remove)
        to_set = _values(self.set, stream, response)
        to_add = _values(self.add, stream, response)
        for name, value in to_set:
            remove_headers(headers, {name})
            headers.append((name, value))
        for name, value in to_add:
            append_header(headers, name, value, joined)

    def removes_length(self, headers: HeaderList) -> bool:
        """Whether `headers` state a length and will not any more; a reply of our own states its length later."""
        return _CONTENT_LENGTH in self.remove and get_header(headers, _CONTENT_LENGTH) is not None


class HeaderEdits:
    """Lists of operations, in order."""

    __slots__ = ("_edits",)

    def __init__(self, edits: Sequence[HeaderEdit]) -> None:
        self._edits = tuple(edits)

    def apply_to_request(self, head: RequestHead, stream: StreamInfo) -> None:
        """Change a request before it is sent on; its marks go on to say what the client sent."""
        for edit in self._edits:
            if edit.removes_length(head.headers):
                head.content_length = -1
            edit.apply(head.headers, stream, None, JOINED_REQUEST_HEADERS)

    def apply_to_response(self, head: ResponseHead, stream: StreamInfo) -> None:
        """Change a response, the host's or our own, before the connection manager adds its lines.

        A head of our own is changed before its `content-length` and `content-type` are added, and may have the latter
        then.
        """
        for edit in self._edits:
            if edit.removes_length(head.headers):
                head.content_length = -1
            edit.apply(head.headers, stream, head, JOINED_RESPONSE_HEADERS)
        head.marks = head.marks & _FRAMING_MARKS | _noted(head.headers)


def _noted(headers: HeaderList) -> int:
    """Return the marks of the headers that the connection manager looks for."""
    marks = 0
    for name, _ in headers:
        marks |= RESPONSE_HEADERS.marks.get(name, 0) & ~_FRAMING_MARKS
    return marks


def _lines(pairs: Iterable[tuple[str, str]]) -> tuple[_Line, ...]:
    named = ((name.lower().encode(), value) for name, value in pairs if _LINE_ENDS.isdisjoint(value))
    return tuple((name, compile_format(value)) for name, value in named if name not in FRAMING_HEADERS)


def _values(lines: Iterable[_Line], stream: StreamInfo, response: ResponseHead | None) -> HeaderList:
    made = ((name, value if isinstance(value, bytes) else value(stream, response)) for name, value in lines)
    return [(name, value) for name, value in made if value]
