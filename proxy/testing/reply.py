"""What a faulty upstream answers to one request, as bytes and pauses.

Pure: a `Reply` is data, and `plan` turns it into steps that somebody with a socket carries out.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

import attrs

from proxy.testing.request import RecordedRequest

HeaderPairs = tuple[tuple[str, str], ...]


class Fault(enum.Enum):
    """How a connection ends, or stalls, instead of a response head."""

    RESET = "reset"
    """TCP RST before any byte of the response."""
    CLOSE = "close"
    """TCP FIN before any byte of the response."""
    HANG = "hang"
    """The request is read and never answered; the connection stays open."""


class Framing(enum.Enum):
    """How the end of a response body is told."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class End(enum.Enum):
    """What happens to the connection after the last byte of a reply."""

    KEEP_ALIVE = "keep-alive"
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


def _to_bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _to_pairs(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> HeaderPairs:
    return tuple(headers.items() if isinstance(headers, Mapping) else headers)


@attrs.frozen(kw_only=True)
class Reply:
    """One scripted answer. Without arguments: `200`, empty body, connection kept.

    Attributes:
        status: Any integer of three digits; it is sent as it is.
        reason: Reason phrase; None takes the usual one, or nothing when there is none.
        body: Sent unless the request is HEAD or the status forbids a body; text is encoded as UTF-8.
        headers: Mapping or pairs; sent in this order, after the framing header that `framing` adds.
        echo: The body is the head and the body of the request, as received (`body` is ignored).
        framing: Content-Length, chunked, or body until close.
        trailers: Sent after the last chunk; only with `Framing.CHUNKED`.
        informational: Statuses (100..199) sent as soon as the request's head is there. When empty, an
            `Expect: 100-continue` is answered with 100.
        head_delay_ms: Pause before the response head, 0 or more.
        body_delay_ms: Pause before each piece of the body, 0 or more.
        piece_bytes: Size of those pieces, at least 1; None sends the body in one piece.
        truncate_at: Send so many bytes of the body, then end the connection as `end` says (`CLOSE` if it says keep).
        end: What happens to the connection afterwards.
        fault: Instead of a response.
        garbage: Instead of a response: these bytes, unchanged; then the connection ends as after `truncate_at`.
        early: Answer when the request's head is there, without waiting for its body.
    """

    status: int = 200
    reason: str | None = None
    body: bytes = attrs.field(default=b"", converter=_to_bytes)
    headers: HeaderPairs = attrs.field(default=(), converter=_to_pairs)
    echo: bool = False
    framing: Framing = attrs.field(default=Framing.LENGTH, converter=Framing)
    trailers: HeaderPairs = attrs.field(default=(), converter=_to_pairs)
    informational: tuple[int, ...] = attrs.field(default=(), converter=tuple)
    head_delay_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    body_delay_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    piece_bytes: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    truncate_at: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(0)))
    end: End = attrs.field(default=End.KEEP_ALIVE, converter=End)
    fault: Fault | None = attrs.field(default=None, converter=attrs.converters.optional(Fault))
    garbage: bytes | None = attrs.field(default=None, converter=attrs.converters.optional(_to_bytes))
    early: bool = False


@attrs.frozen
class Step:
    """After `delay_ms`, write `data`; then, when `end` is set, end the connection that way (the last step)."""

    delay_ms: int
    data: bytes = b""
    end: End | None = None


_FAULT_ENDS = {Fault.RESET: End.RESET, Fault.CLOSE: End.CLOSE, Fault.HANG: End.HANG}


def informational_heads(reply: Reply, request: RecordedRequest) -> bytes:
    """Return the 1xx heads due once the request's head is there; empty when none is."""
    statuses = reply.informational
    if not statuses and not reply.early and (request.header("expect") or "").lower() == "100-continue":
        statuses = (100,)
    return b"".join(f"HTTP/1.1 {status} {reason_phrase(status)}\r\n\r\n".encode() for status in statuses)


def plan(reply: Reply, request: RecordedRequest) -> Iterator[Step]:
    """Yield the steps that answer `request`; exactly the last one has an `end`."""
    if reply.fault is not None:
        yield Step(reply.head_delay_ms, end=_FAULT_ENDS[reply.fault])
        return
    broken_end = End.CLOSE if reply.end is End.KEEP_ALIVE else reply.end
    if reply.garbage is not None:
        yield Step(reply.head_delay_ms, reply.garbage, broken_end)
        return
    body = request.raw_head + bytes(request.body) if reply.echo else reply.body
    yield Step(reply.head_delay_ms, _head(reply, len(body)))
    if request.method == "HEAD" or reply.status in (204, 304) or reply.status < 200:
        yield Step(0, end=reply.end)
        return
    truncated = reply.truncate_at is not None
    for piece in _pieces(body[: reply.truncate_at], reply.piece_bytes):
        framed = b"%x\r\n%b\r\n" % (len(piece), piece) if reply.framing is Framing.CHUNKED else piece
        yield Step(reply.body_delay_ms, framed)
    if truncated:
        yield Step(reply.body_delay_ms, end=broken_end)
    elif reply.framing is Framing.CHUNKED:
        yield Step(0, b"0\r\n" + _fields(reply.trailers) + b"\r\n", reply.end)
    elif reply.framing is Framing.CLOSE:
        yield Step(0, end=broken_end)
    else:
        yield Step(0, end=reply.end)


def reason_phrase(status: int) -> str:
    """Return the usual reason phrase, or nothing for a status without one."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _head(reply: Reply, body_length: int) -> bytes:
    reason = reason_phrase(reply.status) if reply.reason is None else reply.reason
    framing: HeaderPairs = ()
    if reply.status not in (204, 304) and reply.status >= 200:
        if reply.framing is Framing.LENGTH:
            framing = (("content-length", str(body_length)),)
        elif reply.framing is Framing.CHUNKED:
            framing = (("transfer-encoding", "chunked"),)
    return f"HTTP/1.1 {reply.status} {reason}\r\n".encode("latin-1") + _fields(framing + reply.headers) + b"\r\n"


def _fields(pairs: HeaderPairs) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in pairs).encode("latin-1")


def _pieces(body: bytes, size: int | None) -> Iterator[bytes]:
    if not body:
        return
    step = size or len(body)
    for start in range(0, len(body), step):
        yield body[start : start + step]
