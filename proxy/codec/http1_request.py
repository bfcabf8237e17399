"""What clients send: HTTP/1.1 requests, in order, pipelined or not.

Refuses what could be read in two ways (both lengths, a repeated Host, a version other than 1.1); each refusal carries
the reply and the response code detail that Envoy's HTTP/1 codec and connection manager give. Knows no routes and adds
no header.
"""

from collections.abc import Mapping
from typing import Any

import httptools

from proxy.codec.headers import (
    CONNECTION,
    EXPECT,
    HOST,
    NOTED_FIRST,
    PROXY_CONNECTION,
    TE,
    UPGRADE,
    HeaderList,
    HeaderTable,
    remove_headers,
)
from proxy.codec.http1_parser import END, MAX_HEAD_BYTES, MAX_HEADERS, End, Http1Parser, ProtocolError

# Not names of headers to remove: handled by name, or what the message cannot be forwarded without.
_OWN_CONNECTION_TOKENS = frozenset((b"", b"close", b"keep-alive", b"upgrade", b"te", b"content-length"))
_PROTECTED = frozenset((b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto"))
_BEYOND_HOST = NOTED_FIRST - 1 - HOST  # any framing header but Host


class RequestHead:
    """A request up to its empty line.

    `headers` begins with `host` (the effective authority) and goes on as received, connection headers removed.
    `marks` has the bits of those headers of the parser's table that were there. `content_length` is -1 when not
    stated; `end_stream` says that no body follows. `upgrade` is the protocol asked for by `Upgrade`, lower case,
    empty without one. `http2` says that the client speaks HTTP/2.
    """

    content_length = -1
    chunked = False
    end_stream = True
    keep_alive = True
    expects_continue = False
    upgrade = b""
    http2 = False

    def __init__(self, method: bytes, path: bytes, authority: bytes, headers: HeaderList, marks: int) -> None:
        self.method = method
        self.path = path
        self.authority = authority
        self.headers = headers
        self.marks = marks

    def copy(self) -> "RequestHead":
        """Return a head that may be changed without this one changing."""
        head = RequestHead(self.method, self.path, self.authority, self.headers.copy(), self.marks)
        if self.http2 or self.marks & _BEYOND_HOST:
            head.http2 = self.http2
            head.content_length = self.content_length
            head.chunked = self.chunked
            head.end_stream = self.end_stream
            head.keep_alive = self.keep_alive
            head.expects_continue = self.expects_continue
            head.upgrade = self.upgrade
        return head

    def __repr__(self) -> str:
        return f"RequestHead({self.method!r}, {self.path!r}, {self.authority!r})"


class RequestParser(Http1Parser):
    """Events of one client connection: `RequestHead`, `bytes`, `End`, and at last maybe a `ProtocolError`.

    A head whose `end_stream` is true is a whole request: no `End` follows it. After a head with `upgrade` and no body
    the parser holds back what follows until `refuse_upgrade` or `accept_upgrade` says whose bytes they are.
    """

    __slots__ = (
        "_expects_continue",
        "_held",
        "_host",
        "_proxy_close",
        "_reframed",
        "_replaying",
        "_target",
        "_upgrade",
    )

    def __init__(
        self,
        table: HeaderTable | Mapping[bytes, int],
        *,
        max_head_bytes: int = MAX_HEAD_BYTES,
        max_headers: int = MAX_HEADERS,
    ) -> None:
        super().__init__(table, max_head_bytes=max_head_bytes, max_headers=max_headers)
        self._held: bytes | None = None
        self._replaying = False

    def _new_llhttp(self) -> Any:
        return httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> list[Any]:
        """Parse one read; return its events in order (see `Http1Parser.feed`)."""
        if self._held is not None:
            self._held += data
            return []
        return super().feed(data)

    def _may_remember(self, event: Any) -> bool:
        return type(event) is RequestHead and not event.chunked and not event.upgrade

    @property
    def held_bytes(self) -> int:
        """How much is held back."""
        return 0 if self._held is None else len(self._held)

    def refuse_upgrade(self) -> list[Any]:
        """Go on as if no upgrade had been asked for; return the events of what was held back."""
        held, self._held = self._held, None
        return self.feed(held) if held else []

    def accept_upgrade(self) -> list[Any]:
        """Pass every further byte on unparsed; return those held back."""
        held, self._held = self._held, None
        self._until_close = True
        self._last_head = b""  # what looks like a head from here on is the other protocol's
        return [held] if held else []

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self._reframed = self._replaying  # the body of a request for another protocol: its head has ended already
        self._target = b""
        self._host: bytes | None = None
        self._upgrade = b""
        self._expects_continue = False
        self._proxy_close = False

    def on_url(self, piece: bytes) -> None:
        """Take a piece of the request target."""
        self._target += piece

    def _on_other_header(self, mark: int, name: bytes, value: bytes) -> None:
        if mark == HOST:
            if self._host is not None:
                # Envoy joins them with a comma; no reader could agree with us on what that names.
                raise ProtocolError("http1.codec_error", reason="Host is there twice")
            self._host = value
            self._dropped += 1
            return
        if mark == TE:
            self._on_te(value)
            return
        self._dropped += 1
        if mark == PROXY_CONNECTION:
            self._proxy_close = value.lower() == b"close"
        elif mark == EXPECT:
            self._expects_continue = value.lower() == b"100-continue"
            if not self._expects_continue:
                self._headers.append((name, value))  # an expectation of the host's, not ours to answer
                self._dropped -= 1
        elif mark == UPGRADE:
            self._upgrade = value.lower()

    def _on_te(self, value: bytes) -> None:
        """Keep of TE what a next hop may be told: `trailers`, exactly so, or nothing."""
        if not value or b"trailers" in {coding.strip() for coding in value.split(b",")}:
            self._headers.append((b"te", b"trailers" if value else b""))
        else:
            self._dropped += 1

    def on_headers_complete(self) -> None:
        """Emit the head."""
        if self._replaying:
            self._in_head = False
            self._headers = []
            return
        llhttp = self._llhttp
        # llhttp keeps alive only 1.1 by itself; asking that is cheaper than asking for the version.
        if (self._marks & CONNECTION or not llhttp.should_keep_alive()) and llhttp.get_http_version() != "1.1":
            raise ProtocolError("low_version", status=426, body=b"Upgrade Required")
        headers = self._finish_head(len(self._target))
        method = llhttp.get_method()
        path, authority = self._target, self._host
        if path[:1] != b"/" or authority is None or b"#" in path:
            path, authority = split_target(method, path, authority)
        headers.insert(0, (b"host", authority))
        head = RequestHead(method, path, authority, headers, self._marks)
        if self._marks & _BEYOND_HOST:
            self._apply_framing(head)
        self._events.append(head)

    def _apply_framing(self, head: RequestHead) -> None:
        """Set what the headers of the framing table say."""
        if self._connection:
            tokens = {token.strip() for token in self._connection.split(b",")}
            head.keep_alive = b"close" not in tokens
            nominated = tokens - _OWN_CONNECTION_TOKENS
            if nominated:
                self._remove_nominated(head, nominated)
            if b"upgrade" in tokens:
                head.upgrade = self._upgrade
        if self._proxy_close:
            head.keep_alive = False
        head.content_length = self._content_length
        head.chunked = self._chunked
        head.end_stream = self._content_length <= 0 and not self._chunked
        head.expects_continue = self._expects_continue
        if head.method == b"CONNECT" and not head.end_stream:
            raise ProtocolError("http1.codec_error", reason="CONNECT with a body")

    def _remove_nominated(self, head: RequestHead, nominated: set[bytes]) -> None:
        """Drop the headers that Connection names; those that say who asks for what may not be made to vanish."""
        if b"host" in nominated:
            raise ProtocolError("http1.connection_header_rejected", body=b"", reason="Connection names host")
        if nominated & _PROTECTED:
            raise ProtocolError("http1.connection_header_rejected", reason="Connection names x-forwarded-*")
        remove_headers(head.headers, nominated)
        for name in nominated:
            head.marks &= ~self._table.marks.get(name, 0)

    def on_message_complete(self) -> None:
        """Emit the end, unless the head was all."""
        self._content_length = -1
        self._between = True
        events = self._events
        head = events[-1] if events and not self._reframed else None
        if isinstance(head, RequestHead) and (head.end_stream or head.upgrade):
            return
        events.append(End(self._take_trailers()) if self._headers or self._dropped else END)

    def _on_upgrade(self, rest: bytes) -> bytes:
        """Hold back what follows a head that asks for another protocol.

        llhttp ends such a message at its head, a stated body included. A body counts, so its framing is read again
        behind a made-up head.
        """
        head: RequestHead = self._events[-1]
        self._llhttp = self._new_llhttp()
        if head.end_stream:
            self._held = rest
            return b""
        length = b"transfer-encoding: chunked" if head.chunked else b"content-length: %d" % head.content_length
        self._replaying = True
        self._llhttp.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % length)
        self._replaying = False
        return rest


def split_target(method: bytes, target: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    """Return path and authority of a request target; an absolute-form target overrides `host`.

    Raises:
        ProtocolError: No authority, or a fragment in the path (neither has a meaning that all readers share).
    """
    if b"#" in target:
        raise ProtocolError("path_normalization_failed", body=b"")
    if target[:1] != b"/" and target != b"*":
        if method == b"CONNECT":
            return b"", target
        scheme, separator, rest = target.partition(b"://")
        if not separator or not scheme.isalpha():
            raise ProtocolError("http1.codec_error", reason="the request target is neither a path nor a URI")
        slash = min((i for i in (rest.find(b"/"), rest.find(b"?")) if i >= 0), default=len(rest))
        host, target = rest[:slash].rpartition(b"@")[2], rest[slash:]
        if target[:1] != b"/":
            target = b"/" + target
    if host is None:
        raise ProtocolError("missing_host_header", body=b"")
    return target, host
