"""Our own replies as a gRPC client understands them: HTTP 200, and the failure in `grpc-status` and `grpc-message`.

Ports the gRPC half of `Utility::encodeLocalReply` (Envoy, source/common/http/utility.cc) and
`Grpc::Utility::httpToGrpcStatus` (source/common/grpc/status.cc).
"""

from proxy.codec.grpc_headers import GRPC_CONTENT_TYPE
from proxy.codec.headers import HeaderList

_UNKNOWN = 2
_GRPC_STATUSES = {400: 13, 401: 16, 403: 7, 404: 12, 429: 14, 502: 14, 503: 14, 504: 14}


def grpc_reply_headers(status: int, message: bytes, *, grpc_status: int | None = None) -> HeaderList:
    """Return the headers of a reply without body, to be sent with status 200.

    Args:
        status: The HTTP status that another client would get.
        message: Its body; in `grpc-message`, percent-encoded.
        grpc_status: 0 to 16; None derives it from `status`.
    """
    if grpc_status is None:
        grpc_status = _GRPC_STATUSES.get(status, _UNKNOWN)
    headers = [(b"content-type", GRPC_CONTENT_TYPE), (b"grpc-status", b"%d" % grpc_status)]
    if message:
        headers.append((b"grpc-message", _percent_encoded(message)))
    return headers


def _percent_encoded(message: bytes) -> bytes:
    """Return a message with all but printable ASCII as `%XX`, and so the percent sign and, as in Envoy, the tilde."""
    return b"".join(b"%c" % byte if 32 <= byte < 126 and byte != 37 else b"%%%02X" % byte for byte in message)
