"""What the connection manager adds to every response: `date`, `server`, and `connection: close` on the last one."""

from proxy.codec.headers import replace_header
from proxy.codec.http1_response import ResponseHead
from proxy.http.date import DateProvider
from proxy.upstream.connection import DATE, SERVER

_SERVER_ENVOY = (b"server", b"envoy")
_CONNECTION_CLOSE = (b"connection", b"close")


def finish_response(head: ResponseHead, date: DateProvider, *, close: bool) -> None:
    """Complete a head; a host's own `server` is overwritten where it stands, its `date` is kept."""
    headers = head.headers
    if not head.marks & DATE:
        headers.append((b"date", date.now()))
    if head.marks & SERVER:
        replace_header(headers, b"server", b"envoy")
    else:
        headers.append(_SERVER_ENVOY)
    if close:
        headers.append(_CONNECTION_CLOSE)
