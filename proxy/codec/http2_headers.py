"""Heads between HTTP/2's lines and the heads that the rest of the sidecar knows.

`:authority` becomes the `host` line of a `RequestHead` and the other pseudo-headers its attributes; cookie crumbs are
one line again (RFC 9113, 8.2.3). What RFC 9113, 8.2 and 8.3 call malformed is a `StreamFault`; what is sound HTTP/2
but not to be served is a `ProtocolError` with the reply.
"""

import re

from proxy.codec.headers import (
    CONTENT_LENGTH,
    DROP,
    EXPECT,
    HOST,
    NOTED_FIRST,
    TE,
    HeaderList,
    HeaderTable,
    remove_headers,
)
from proxy.codec.http1_parser import ProtocolError
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.http2_frames import ErrorCode, StreamFault
from proxy.codec.http2_options import Http2Options
from proxy.codec.joined_headers import append_header

# They are about a HTTP/1.1 connection; in HTTP/2 they make a message malformed (RFC 9113, 8.2.2).
_CONNECTION_HEADERS = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_REQUEST_PSEUDO_HEADERS = frozenset((b":method", b":scheme", b":authority", b":path"))
_METHODS = frozenset((b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"HEAD", b"OPTIONS"))  # which need no closer look
_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN_IN_VALUES = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

# Names seen and found sound; as many as a `HeaderTable` remembers.
_sound_names: set[bytes] = set()
_MAX_SOUND_NAMES = 1_000
_MAX_SOUND_NAME_BYTES = 64

_STATUSES = {b"%d" % status: status for status in range(100, 1000)}
_STATUS_LINES = {status: (b":status", text) for text, status in _STATUSES.items()}


def read_request_head(lines: HeaderList, options: Http2Options, *, end_stream: bool) -> RequestHead:
    """Return the head of a request.

    Raises:
        StreamFault: Malformed.
        ProtocolError: Not to be served: too large, or a fragment in the path.
    """
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in lines:
        if name[:1] != b":":
            break
        if name in pseudo:
            raise malformed(f"{name!r} is there twice")
        pseudo[name] = value
        count += 1
    if not _REQUEST_PSEUDO_HEADERS.issuperset(pseudo):
        raise malformed("unknown pseudo-headers")
    method = pseudo.get(b":method", b"")
    authority = pseudo.get(b":authority")
    path = pseudo.get(b":path")
    scheme = pseudo.get(b":scheme")
    if method not in _METHODS and not _METHOD.fullmatch(method):
        raise malformed("no method")
    if method == b"CONNECT":
        if authority is None or path is not None or scheme is not None:
            raise malformed("CONNECT takes an authority and nothing else")
        path = b""
    elif not path or not scheme:
        raise malformed("no path or no scheme")
    elif path[:1] != b"/" and not (path == b"*" and method == b"OPTIONS"):
        raise malformed("the path does not begin with a slash")
    headers: HeaderList = [(b"host", b"")]
    head = RequestHead(method, path, b"", headers, 0)
    host = _read_lines(lines, count, headers, head, options)
    authority = host if authority is None else authority
    if not authority:
        raise malformed("no authority")
    target = authority + path
    if b" " in target or b"\t" in target:  # other control characters are in no value
        raise malformed("a blank in the path or the authority")
    if b"#" in path:
        raise ProtocolError("path_normalization_failed", body=b"")
    head.http2 = True
    head.authority = authority
    headers[0] = (b"host", authority)
    head.end_stream = end_stream
    if end_stream and head.content_length > 0:
        raise malformed("a content-length without a body")
    return head


def read_response_head(
    lines: HeaderList, options: Http2Options, *, end_stream: bool, head_request: bool
) -> ResponseHead:
    """Return the head of a response, an interim one included.

    Raises:
        StreamFault: Malformed, or too large.
        ProtocolError: Too large.
    """
    if not lines or lines[0][0] != b":status":
        raise malformed("no status")
    status = _STATUSES.get(lines[0][1], 0)
    if not status or status == 101:
        raise malformed("no such status in HTTP/2")
    headers: HeaderList = []
    head = ResponseHead(status, headers, 0)
    _read_lines(lines, 1, headers, head, options)
    head.end_stream = end_stream
    if status < 200 and end_stream:
        raise malformed("an interim response ends the stream")
    if status < 200 or status == 204:
        _refuse_length(head)
    elif end_stream and head.content_length > 0 and not head_request and status != 304:
        raise malformed("a content-length without a body")
    return head


def _refuse_length(head: ResponseHead) -> None:
    """Refuse a length where no body may be; `content-length: 0` is only removed, as in HTTP/1.1."""
    if head.content_length > 0:
        raise malformed("a content-length where no body may be")
    if head.content_length == 0:
        remove_headers(head.headers, {b"content-length"})
        head.content_length = -1


def read_trailers(lines: HeaderList, options: Http2Options) -> HeaderList:
    """Return trailers; lines that mean something to the codec are dropped, as in HTTP/1.1.

    Raises:
        StreamFault: Malformed, or too large.
    """
    marks = options.table.marks
    _check(lines, 0, options)
    return [line for line in lines if marks.get(line[0], NOTED_FIRST) >= NOTED_FIRST]


def request_lines(head: RequestHead, headers: HeaderList, scheme: bytes) -> HeaderList:
    """Return the lines to send for a request; `headers` begins with `host`, as those of a `RequestHead` do."""
    authority = headers[0][1]
    if head.method == b"CONNECT":
        return [(b":method", b"CONNECT"), (b":authority", authority), *headers[1:]]
    return [
        (b":method", head.method),
        (b":scheme", scheme),
        (b":authority", authority),
        (b":path", head.path),
        *headers[1:],
    ]


def response_lines(status: int, headers: HeaderList) -> HeaderList:
    """Return the lines to send for a response; connection headers are not in a `ResponseHead`."""
    return [_STATUS_LINES[status], *headers]


def malformed(reason: str) -> StreamFault:
    """Return the error for a message that RFC 9113 calls malformed."""
    return StreamFault(ErrorCode.PROTOCOL_ERROR, reason)


def _check(lines: HeaderList, start: int, options: Http2Options) -> None:
    """Check the number and size of all lines, all values, and the names behind the pseudo-headers."""
    if len(lines) > options.max_headers:
        raise too_large("http2.too_many_headers")
    if not lines:
        return
    names, values = zip(*lines, strict=True)
    text = b"".join(values)
    if len(text) + sum(map(len, names)) + 4 * len(lines) > options.max_head_bytes:
        raise too_large("http2.headers_too_large")
    if _FORBIDDEN_IN_VALUES.search(text):
        raise malformed("a control character in a value")
    if not _sound_names.issuperset(names[start:]):
        for name in names[start:]:
            _check_name(name)


def _check_name(name: bytes) -> None:
    if not _TOKEN.fullmatch(name):
        raise malformed("a name that is none, or not in lower case")
    if name in _CONNECTION_HEADERS:
        raise malformed("a header of HTTP/1.1 connections")
    if len(_sound_names) < _MAX_SOUND_NAMES and len(name) <= _MAX_SOUND_NAME_BYTES:
        _sound_names.add(name)


def too_large(details: str) -> ProtocolError:
    """Return the error for a head above a limit."""
    return ProtocolError(details, status=431, body=b"Request Header Fields Too Large")


def _read_lines(
    lines: HeaderList, start: int, headers: HeaderList, head: RequestHead | ResponseHead, options: Http2Options
) -> bytes | None:
    """Add the regular lines to `headers`, and what they say to `head`; return the value of `host`."""
    _check(lines, start, options)
    table: HeaderTable = options.table
    marks = 0
    host = None
    crumbs: list[bytes] = []
    for line in lines[start:]:
        name, value = line
        mark = table[name][1]
        if mark is None:
            if name == b"cookie":
                crumbs.append(value)
            else:
                headers.append(line)
        elif mark >= NOTED_FIRST:
            if marks & mark and name in table.joined:
                append_header(headers, name, value, table.joined)
            else:
                headers.append(line)
                marks |= mark
        else:
            marks |= mark
            if mark == CONTENT_LENGTH:
                _read_content_length(head, line, headers)
            elif mark == HOST:
                host = value
            elif mark == TE:
                if value != b"trailers":
                    raise malformed("te is not `trailers`")
                headers.append(line)
            elif mark == EXPECT and isinstance(head, RequestHead):
                head.expects_continue = value.lower() == b"100-continue"
                if not head.expects_continue:
                    headers.append(line)
            elif mark != DROP:
                headers.append(line)
    if crumbs:
        headers.append((b"cookie", b"; ".join(crumbs)))  # behind the others, where Envoy puts it
    head.marks = marks
    return host


def _read_content_length(head: RequestHead | ResponseHead, line: tuple[bytes, bytes], headers: HeaderList) -> None:
    value = line[1]
    if not value.isdigit() or len(value) > 18:
        raise malformed("content-length is no number")
    if head.content_length >= 0:
        raise malformed("content-length is there twice")
    head.content_length = int(value)
    headers.append(line)
