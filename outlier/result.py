"""What can come of one attempt on a host, and which HTTP status stands for it.

Ports `Result` (Envoy, envoy/upstream/outlier_detection.h) and `DetectorHostMonitorImpl::resultToHttpCode`
(source/common/upstream/outlier_detection_impl.cc).
"""

import enum
from typing import Final


class Result(enum.IntEnum):
    """The outcome of one attempt, as it is reported to the host's monitor.

    Local-origin results come from this side of the connection (connecting, waiting); external-origin ones from the
    host's answer.
    """

    LOCAL_ORIGIN_CONNECT_SUCCESS = 0
    LOCAL_ORIGIN_CONNECT_SUCCESS_FINAL = 1
    LOCAL_ORIGIN_CONNECT_FAILED = 2
    LOCAL_ORIGIN_TIMEOUT = 3
    EXT_ORIGIN_REQUEST_SUCCESS = 4
    EXT_ORIGIN_REQUEST_FAILED = 5
    EXT_ORIGIN_REQUEST_DEGRADED = 6


# By `Result`: the status that a bare report stands for when origins are not split. Connecting says nothing about the
# answer to come, so it has none; the *final* connect success is a TCP proxy's whole request.
RESULT_TO_HTTP_CODE: Final[tuple[int | None, ...]] = (None, 200, 503, 504, 200, 500, 200)

# gRPC status 0..16 -> HTTP status. Envoy, source/common/grpc/status.cc (`Utility::grpcToHttpStatus`).
_GRPC_TO_HTTP = (200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401)


def grpc_to_http_status(grpc_status: int) -> int:
    """Return the HTTP status that a gRPC status counts as; 500 for a number that gRPC does not define.

    >>> grpc_to_http_status(14), grpc_to_http_status(5)
    (503, 404)
    """
    return _GRPC_TO_HTTP[grpc_status] if 0 <= grpc_status < len(_GRPC_TO_HTTP) else 500
