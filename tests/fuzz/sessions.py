"""An HTTP/2 session without a connection: what it says of some bytes."""

from collections.abc import Iterable
from typing import Any

from proxy.codec.http1_request import RequestHead
from proxy.codec.http2_events import (
    GoAway,
    PingAck,
    SessionError,
    StreamData,
    StreamEnd,
    StreamHead,
    StreamRefused,
    StreamReset,
)
from proxy.codec.http2_session import Http2Session


def tell_events(session: Http2Session, pieces: Iterable[bytes]) -> list[tuple[Any, ...]]:
    """Return the events of the pieces as tuples; neighbouring pieces of one body are one."""
    told: list[tuple[Any, ...]] = []
    for piece in pieces:
        for event in session.feed(piece):
            found = _tell(event)
            if found[0] == "data" and told and told[-1][:2] == found[:2]:
                found = ("data", found[1], told.pop()[2] + found[2])
            told.append(found)
        session.take_output()
        session.on_written()
        if session.closed:
            break
    return told


def _tell(event: Any) -> tuple[Any, ...]:
    match event:
        case StreamHead(stream_id, head):
            first = head.method if isinstance(head, RequestHead) else head.status
            return "head", stream_id, first, list(head.headers), head.content_length, head.end_stream
        case StreamRefused(stream_id, error):
            return "refused", stream_id, error.status, error.details
        case StreamData(stream_id, data):
            return "data", stream_id, data
        case StreamEnd(stream_id, trailers):
            return "end", stream_id, list(trailers)
        case StreamReset(stream_id, error_code, remote):
            return "reset", stream_id, error_code, remote
        case GoAway(error_code, last_stream_id):
            return "goaway", error_code, last_stream_id
        case PingAck(payload):
            return "ping", payload
        case SessionError(error_code, _):
            return "error", error_code
    return (type(event).__name__,)
