"""What a response head tells a host's outlier monitor where its status alone does not decide.

Ports the reporting in `Filter::onUpstreamHeaders` (Envoy, source/common/router/router.cc).
"""

from outlier import ErrorMatcher, HostMonitor
from outlier.reporting import report_response
from proxy.codec.grpc_headers import grpc_status, is_grpc_request
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.upstream.connection import DEGRADED, GRPC_STATUS


def report_in_full(
    monitor: HostMonitor, request: RequestHead, head: ResponseHead, error_matcher: ErrorMatcher | None
) -> None:
    """Report a response by its gRPC status, its degraded mark and the cluster's error matcher."""
    status_in_head = grpc_status(head.headers) if head.marks & GRPC_STATUS and is_grpc_request(request) else None
    matched = None
    if error_matcher is not None:
        matched = error_matcher.matches(head.status, lambda name: _joined_values(head, name.encode("latin-1")))
    degraded = head.marks & DEGRADED != 0
    report_response(monitor, head.status, grpc_status=status_in_head, matched=matched, degraded=degraded)


def _joined_values(head: ResponseHead, name: bytes) -> str | None:
    values = [value for key, value in head.headers if key == name]
    return b",".join(values).decode("latin-1") if values else None
