"""Feeds parsers and puts what they say into plain values that tests can compare."""

from collections.abc import Iterable, Iterator
from typing import Any

from proxy.codec.headers import FRAMING_HEADERS
from proxy.codec.http1_parser import End, Http1Parser, ProtocolError
from proxy.codec.http1_request import RequestHead, RequestParser
from proxy.codec.http1_response import ResponseHead, ResponseParser

POST = "POST /x HTTP/1.1"
CHUNKED = "Transfer-Encoding: chunked"

RESPONSE_TABLE = {name: mark for name, mark in FRAMING_HEADERS.items() if name not in {b"host", b"te", b"expect"}}


def request(*lines: str, body: bytes = b"", line: str = "GET /x HTTP/1.1", host: str | None = "a") -> bytes:
    """Return a request of CRLF lines; `host` None sends no Host."""
    head = [line, *([f"Host: {host}"] if host is not None else []), *lines, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def response(*lines: str, body: bytes = b"", line: str = "HTTP/1.1 200 OK") -> bytes:
    """Return a response of CRLF lines."""
    return "\r\n".join([line, *lines, "", ""]).encode("latin-1") + body


def request_parser(**limits: int) -> RequestParser:
    return RequestParser(FRAMING_HEADERS, **limits)


def response_parser(*, head_request: bool = False, upgrade: bool = False, **limits: int) -> ResponseParser:
    """Return a parser that expects one response."""
    parser = ResponseParser(RESPONSE_TABLE, **limits)
    parser.expect(head_request=head_request, upgrade=upgrade)
    return parser


def feed(parser: Http1Parser, pieces: Iterable[bytes]) -> list[Any]:
    """Return all events of the pieces; nothing is fed after an error, as the parser demands."""
    events: list[Any] = []
    for piece in pieces:
        events += parser.feed(piece)
        if events and isinstance(events[-1], ProtocolError):
            break
    return events


def requests(data: bytes, **limits: int) -> list[Any]:
    """Return what one read of `data` brings, summarised."""
    return summary(feed(request_parser(**limits), [data]))


def responses(data: bytes, *, head_request: bool = False, upgrade: bool = False, **limits: int) -> list[Any]:
    """Return what one read of `data` brings as the response to one request, summarised."""
    return summary(feed(response_parser(head_request=head_request, upgrade=upgrade, **limits), [data]))


def only_request(data: bytes) -> RequestHead:
    """Return the head of the one request in `data`."""
    (head,) = [event for event in feed(request_parser(), [data]) if isinstance(event, RequestHead)]
    return head


def only_response(data: bytes, **asked: bool) -> ResponseHead:
    """Return the head of the one response in `data`."""
    (head,) = [event for event in feed(response_parser(**asked), [data]) if isinstance(event, ResponseHead)]
    return head


def refusal(events: list[Any]) -> tuple[int, str] | None:
    """Return status and details of the error that ends summarised events, None if they do not end in one."""
    return events[-1][1:3] if events and events[-1][0] == "error" else None


def summary(events: Iterable[Any]) -> list[Any]:
    """Return events as tuples; neighbouring pieces of body are one, however they were cut."""
    told: list[Any] = []
    for event in events:
        if isinstance(event, bytes) and told and isinstance(told[-1], bytes):
            told[-1] += event
        else:
            told.append(_tell(event))
    return told


def _tell(event: Any) -> Any:
    match event:
        case bytes():
            return event
        case RequestHead():
            return ("request", event.method, event.path, event.authority, *_shared(event), event.keep_alive)
        case ResponseHead():
            return ("response", event.status, *_shared(event))
        case End():
            return ("end", list(event.trailers))
        case ProtocolError():
            return ("error", event.status, event.details, event.body)
    raise AssertionError(f"not an event: {event!r}")


def _shared(head: RequestHead | ResponseHead) -> tuple[Any, ...]:
    return list(head.headers), head.content_length, head.chunked, head.end_stream


def split_in_two(data: bytes) -> Iterator[list[bytes]]:
    """Yield `data` cut at every place between two bytes."""
    for index in range(1, len(data)):
        yield [data[:index], data[index:]]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]
