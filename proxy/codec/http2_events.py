"""What a HTTP/2 session tells its owner, in the order in which it happened."""

import attrs

from proxy.codec.headers import HeaderList
from proxy.codec.http1_parser import ProtocolError
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead


@attrs.define
class StreamHead:
    """A head has come; `head.end_stream` says that it is the whole message.

    A server gets a `RequestHead`, once for each stream. A client gets `ResponseHead`s: interim ones (status below
    200), then the final one.
    """

    stream_id: int
    head: RequestHead | ResponseHead


@attrs.define
class StreamRefused:
    """A request that is sound HTTP/2 but not to be served; `error` has the reply. Servers only, in place of the head.

    What the client sends further on the stream is dropped by the session, the way it is for a stream that was reset.
    """

    stream_id: int
    error: ProtocolError


@attrs.define
class StreamData:
    """A piece of body, not empty; `Http2Session.consume` lets the peer send as much again."""

    stream_id: int
    data: bytes


@attrs.define
class StreamEnd:
    """The peer's message is complete, and it did not end with its head."""

    stream_id: int
    trailers: HeaderList


@attrs.define
class StreamReset:
    """A stream is gone before its time; no further event names it.

    `remote` says that the peer reset it; otherwise the session did, because of what the peer sent; it may be the first
    event of a request then, whose head is malformed. A client also hears it of each stream above the last one of a
    GOAWAY: those were not processed (`REFUSED_STREAM`).
    """

    stream_id: int
    error_code: int
    remote: bool


@attrs.define
class StreamWritable:
    """What waited on a stream whose `send_data` said False has gone out: send on."""

    stream_id: int


@attrs.define
class StreamFlushed:
    """What waited behind the peer's windows has gone out, and the end of our message with it."""

    stream_id: int


@attrs.define
class GoAway:
    """The peer takes no streams above `last_stream_id`; those up to it may go on."""

    error_code: int
    last_stream_id: int


@attrs.define
class SettingsReceived:
    """The peer's settings have come (or changed); `Http2Session.can_open_stream` may differ."""


@attrs.define
class PingAck:
    """The peer has answered the ping with this payload."""

    payload: bytes


@attrs.define
class SessionError:
    """The connection cannot go on; a GOAWAY is in the output. The last event of a session."""

    error_code: int
    reason: str


Http2Event = (
    StreamHead
    | StreamRefused
    | StreamData
    | StreamEnd
    | StreamReset
    | StreamWritable
    | StreamFlushed
    | GoAway
    | SettingsReceived
    | PingAck
    | SessionError
)
