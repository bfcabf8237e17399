"""Upgrades of HTTP/1.1 over HTTP/2: `Upgrade: websocket` is an extended CONNECT there (RFC 8441).

As in Envoy, whether the host has announced that it knows the extension is not looked at: one that does not will say so.
Ports `transformUpgradeRequestFromH1toH2` and `transformUpgradeResponseFromH2toH1` (source/common/http/utility.cc).
"""

from proxy.codec.headers import HeaderList
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead


def upgrade_lines(head: RequestHead, headers: HeaderList, scheme: bytes) -> HeaderList:
    """Return the lines of a request for another protocol; `headers` begins with `host`."""
    return [
        (b":method", b"CONNECT"),
        (b":scheme", scheme),
        (b":authority", headers[0][1]),
        (b":path", head.path),
        (b":protocol", head.upgrade),
        *headers[1:],
    ]


def switching_protocols(head: ResponseHead, upgrade: bytes) -> ResponseHead:
    """Return the HTTP/1.1 head for a host's consent to `upgrade`, a 200."""
    switching = ResponseHead(101, [*head.headers, (b"upgrade", upgrade), (b"connection", b"upgrade")], head.marks)
    switching.end_stream = False
    return switching
