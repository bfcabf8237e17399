"""What upstreams send: HTTP/1.1 responses, interim ones included, each to a request that was sent.

Which statuses have no body, and that a HEAD response has none whatever its headers say, is decided here (RFC 9112,
6.3).
"""

from typing import Any

import httptools

from proxy.codec.headers import CONNECTION, UPGRADE, HeaderList, remove_headers
from proxy.codec.http1_parser import END, LINE_ENDS, End, Http1Parser, ProtocolError


class ResponseHead:
    """A response up to its empty line.

    `headers` are as received, connection headers removed; `marks` has the bits of those headers of the parser's table
    that were there. A `status` below 200 is an interim response, except 101. `end_stream` says that no body follows.
    """

    content_length = -1
    chunked = False
    end_stream = True

    def __init__(self, status: int, headers: HeaderList, marks: int) -> None:
        self.status = status
        self.headers = headers
        self.marks = marks

    def copy(self) -> "ResponseHead":
        """Return a head that may be changed without this one changing."""
        head = ResponseHead(self.status, self.headers.copy(), self.marks)
        head.content_length = self.content_length
        head.chunked = self.chunked
        head.end_stream = self.end_stream
        return head

    def __repr__(self) -> str:
        return f"ResponseHead({self.status})"


class ResponseParser(Http1Parser):
    """Events of one upstream connection: `ResponseHead`, `bytes`, `End`, and at last maybe a `ProtocolError`.

    The owner calls `expect` once for each request it sends and looks at `keep_alive` once the response has ended.
    `started` says that part of a response is here.
    """

    __slots__ = ("_head_request", "_interim", "_upgrade_wanted", "keep_alive", "started")

    def _new_llhttp(self) -> Any:
        return httptools.HttpResponseParser(self)

    def expect(self, *, head_request: bool, upgrade: bool = False) -> None:
        """Say what was asked for: a HEAD response has no body, a 101 is right only after an `Upgrade`."""
        self._head_request = head_request
        self._upgrade_wanted = upgrade
        self._interim = False
        self.keep_alive = True
        self.started = False
        if head_request or upgrade:
            self._last_head = b""  # the same bytes mean something else now

    def end_of_stream(self) -> list[Any]:
        """Return the events of the peer's orderly close: `[END]` if it ends a body of unstated length, else nothing.

        The close of an upgraded connection is no end: Envoy takes it for a lost connection.
        """
        if not self._until_close or self._interim:
            return []
        self._until_close = False
        return [END]

    def feed(self, data: bytes) -> list[Any]:
        """Parse one read; return its events in order (see `Http1Parser.feed`)."""
        # llhttp would skip an empty line, which is a client's licence; behind an interim head of the same read it does.
        if not self.started and data[:1] in LINE_ENDS and not self._interim:
            return [ProtocolError("http1.codec_error", reason="an empty line before the response")]
        events = super().feed(data)
        if self._head_request:
            for index, event in enumerate(events):
                if isinstance(event, ResponseHead) and (event.status >= 200 or event.status == 101):
                    return self._end_at_head(events, index)
        return events

    def _may_remember(self, event: Any) -> bool:
        if type(event) is not ResponseHead or event.status < 200 or not self.keep_alive:
            return False
        return (event.end_stream or event.content_length > 0) and not (self._head_request or self._upgrade_wanted)

    def _recall(self, head: Any, data: bytes) -> list[Any] | None:
        events = super()._recall(head, data)
        if events is not None:
            self.started = True
            self._interim = False
        return events

    def _end_at_head(self, events: list[Any], index: int) -> list[Any]:
        """Finish a HEAD response; llhttp would wait for the body that its headers announce."""
        if len(events) > index + 1:
            self.keep_alive = False  # bytes where no body may be
        self._llhttp = self._new_llhttp()
        self._body_left = 0
        self._until_close = False
        return events[: index + 1]

    def _on_other_header(self, mark: int, name: bytes, value: bytes) -> None:
        if mark == UPGRADE and self._upgrade_wanted:
            self._headers.append((name, value))
        else:
            self._dropped += 1

    def on_message_begin(self) -> None:
        """Start a head."""
        super().on_message_begin()
        self.started = True

    def on_headers_complete(self) -> None:
        """Emit the head."""
        llhttp = self._llhttp
        headers = self._finish_head(0)
        status = llhttp.get_status_code()
        if status < 100:
            raise ProtocolError("http1.codec_error", reason="no such status")
        keep_alive = llhttp.should_keep_alive()
        # llhttp keeps alive only 1.1 by itself; asking that is cheaper than asking for the version.
        if self._marks & CONNECTION or not keep_alive:
            version = llhttp.get_http_version()
            if version not in ("1.1", "1.0"):
                raise ProtocolError("http1.codec_error", reason="neither HTTP/1.1 nor HTTP/1.0")
            if self._head_request:  # llhttp looks for a body that a HEAD response has not
                keep_alive = b"close" not in self._connection and (
                    version == "1.1" or b"keep-alive" in self._connection
                )
        head = ResponseHead(status, headers, self._marks)
        if status < 200 or status == 204:
            self._refuse_framing(head)
        if status < 200:
            self._on_interim(head)
            self._events.append(head)
            return
        self._events.append(head)
        self._interim = False
        if not keep_alive:
            self.keep_alive = False
        head.content_length = self._content_length
        if self._head_request or status in (204, 304):
            self._content_length = -1
        else:
            head.chunked = self._chunked
            head.end_stream = self._content_length == 0
            self._until_close = self._content_length < 0 and not self._chunked

    def _refuse_framing(self, head: ResponseHead) -> None:
        """Refuse a length where no body may be; `content-length: 0` is only removed, as in Envoy."""
        if self._chunked:
            raise ProtocolError("http1.transfer_encoding_not_allowed")
        if self._content_length > 0:
            raise ProtocolError("http1.content_length_not_allowed")
        if self._content_length == 0:
            remove_headers(head.headers, {b"content-length"})
            self._content_length = -1

    def _on_interim(self, head: ResponseHead) -> None:
        if head.status == 101:
            if not self._upgrade_wanted:
                raise ProtocolError("http1.codec_error", reason="101 without an upgrade")
            self.keep_alive = False
            head.headers.append((b"connection", b"upgrade"))
            head.end_stream = False
        self._interim = True
        self._content_length = -1

    def on_message_complete(self) -> None:
        """Emit the end, unless the head was all."""
        self._content_length = -1
        self._between = True
        if self._interim:
            self.started = False
            return
        events = self._events
        if events and isinstance(head := events[-1], ResponseHead) and head.end_stream:
            return
        events.append(End(self._take_trailers()) if self._headers or self._dropped else END)

    def _on_upgrade(self, rest: bytes) -> bytes:
        """Pass on whatever follows an accepted upgrade."""
        if rest:
            self._events.append(rest)
        self._until_close = True
        return b""
