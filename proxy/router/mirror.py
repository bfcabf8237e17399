"""What a mirrored request looks like, and which requests are mirrored.

A mirror gets what the host gets - the rewritten path, the route's header operations, the body - under an authority that
tells it is a copy. Sending it, and dropping its answer, is the exchange's; like in Envoy it is one attempt without
retries that counts for the mirror's cluster and its hosts, also when the request itself fails. Ports
`FilterUtility::shouldShadow`, `ShadowWriterImpl` and the headers of `AsyncStreamImpl` (Envoy, source/common/router,
source/common/http/async_client_impl.cc).
"""

from proxy.codec.headers import HeaderList, replace_header
from proxy.codec.http1_request import RequestHead
from proxy.codec.joined_headers import JOINED_REQUEST_HEADERS, append_header
from proxy.config.route_config import Mirror

_MILLION = 1_000_000
_SUFFIX = b"-shadow"


def is_mirrored(mirror: Mirror, random_value: int) -> bool:
    """Whether a request is mirrored; `random_value` is the one that has chosen among weighted clusters."""
    return random_value % _MILLION < mirror.per_million


def mirrored_head(head: RequestHead, headers: HeaderList, own_address: bytes) -> RequestHead:
    """Return the head to send to a mirror; neither argument is changed.

    Args:
        head: The request as it goes to the host.
        headers: Those that the host's first attempt is sent with.
        own_address: This sidecar's IP, added to `x-forwarded-for`; empty leaves that alone.
    """
    authority = mirrored_authority(head.authority)
    headers = [(b"host", authority), *headers[1:]]
    replace_header(headers, b"x-envoy-internal", b"true")
    if own_address:
        append_header(headers, b"x-forwarded-for", own_address, JOINED_REQUEST_HEADERS)
    mirrored = RequestHead(head.method, head.path, authority, headers, head.marks)
    mirrored.content_length = head.content_length
    mirrored.chunked = head.chunked
    mirrored.end_stream = head.end_stream
    return mirrored


def mirrored_authority(authority: bytes) -> bytes:
    """Return the authority with `-shadow` behind the host name.

    >>> mirrored_authority(b"reviews:9080")
    b'reviews-shadow:9080'
    """
    colon = authority.rfind(b":")
    if colon < authority.rfind(b"]"):
        colon = -1  # inside an IPv6 address
    return authority + _SUFFIX if colon < 0 else authority[:colon] + _SUFFIX + authority[colon:]
