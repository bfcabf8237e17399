"""How heads and bodies are written: Envoy's framing of HTTP/1.1 messages.

Ports `StreamEncoderImpl::encodeHeadersBase` (Envoy, source/common/http/http1/codec_impl.cc): a stated length is kept,
otherwise a body is chunked, and a message without body says `content-length: 0` where a reader might wait for one.
"""

from proxy.codec.headers import STATUS_LINES, HeaderList, render_head

LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_CHUNKED = (b"transfer-encoding", b"chunked")
_EMPTY = (b"content-length", b"0")
_BODILESS_METHODS = frozenset((b"GET", b"HEAD", b"CONNECT", b"TRACE", b"DELETE"))


def encode_request_head(
    method: bytes, path: bytes, headers: HeaderList, *, content_length: int, end_stream: bool, upgrade: bytes = b""
) -> tuple[bytes, bool]:
    """Return the head's bytes and whether the body must be chunked.

    Args:
        method: As received.
        path: Target in origin form, as received.
        headers: Lower-case pairs, `host` first; not changed.
        content_length: As stated by `headers`, -1 if they state none.
        end_stream: No body follows.
        upgrade: The protocol to change to; what follows the head is that protocol's, not a body.
    """
    start_line = b"%b %b HTTP/1.1\r\n" % (method, path)
    if content_length >= 0:
        return render_head(start_line, headers), False
    if upgrade:
        return render_head(start_line, [*headers, (b"connection", b"Upgrade"), (b"upgrade", upgrade)]), False
    if not end_stream:
        return render_head(start_line, [*headers, _CHUNKED]), True
    if method in _BODILESS_METHODS:
        return render_head(start_line, headers), False
    return render_head(start_line, [*headers, _EMPTY]), False


def encode_response_head(
    status: int, headers: HeaderList, *, content_length: int, end_stream: bool, head_request: bool
) -> tuple[bytes, bool]:
    """Return the head's bytes and whether the body must be chunked.

    `headers` may get a framing line appended. A HEAD response of unknown length says `transfer-encoding: chunked`, as
    Envoy does; a 304 says nothing of a length it does not know, which would be that of the client's copy.
    """
    if content_length < 0 and status >= 200 and status not in (204, 304):
        if end_stream and not head_request:
            headers.append(_EMPTY)
        else:
            headers.append(_CHUNKED)
            return render_head(STATUS_LINES[status], headers), not head_request
    return render_head(STATUS_LINES[status], headers), False


def encode_chunk(data: bytes) -> bytes:
    """Return one chunk; `data` is not empty, or it would read as the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def encode_last_chunk(trailers: HeaderList) -> bytes:
    """Return the end of a chunked body."""
    return render_head(b"0\r\n", trailers) if trailers else LAST_CHUNK
