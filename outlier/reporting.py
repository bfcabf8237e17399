"""What a proxy tells a host's monitor, event by event: the HTTP router's side of outlier detection.

One function per event of an attempt, so the router holds no rule of its own. The release decides what becomes of an
event; a circuit breaker's overflow, a client that leaves, a local reply and a stream that outlives its duration have
no function because 1.40 reports nothing for them, except that `report_overflow` keeps what 1.8 did.
Ports the reporting of `Filter` and `UpstreamRequest` (Envoy, source/common/router/router.cc, upstream_request.cc).
"""

from typing import Final

from outlier.host_monitor import HostMonitor
from outlier.result import Result, grpc_to_http_status

_CONNECT_SUCCESS: Final = Result.LOCAL_ORIGIN_CONNECT_SUCCESS
_CONNECT_FAILED: Final = Result.LOCAL_ORIGIN_CONNECT_FAILED
_TIMEOUT: Final = Result.LOCAL_ORIGIN_TIMEOUT
_REQUEST_SUCCESS: Final = Result.EXT_ORIGIN_REQUEST_SUCCESS
_REQUEST_FAILED: Final = Result.EXT_ORIGIN_REQUEST_FAILED
_REQUEST_DEGRADED: Final = Result.EXT_ORIGIN_REQUEST_DEGRADED


def report_connected(monitor: HostMonitor) -> None:
    """A connection for the attempt is ready, new or from the pool."""
    if monitor.behaviour.router_reports_results:
        monitor.put_result(_CONNECT_SUCCESS)


def report_response(
    monitor: HostMonitor,
    status: int,
    *,
    grpc_status: int | None = None,
    matched: bool | None = None,
    degraded: bool = False,
) -> None:
    """The final response headers arrived; 101 is final, other informational responses are not reported.

    Args:
        monitor: The host's.
        status: HTTP status, 100-599.
        grpc_status: `grpc-status` of a gRPC request's response *headers*; one in trailers is not looked at.
        matched: Answer of the cluster's error matcher, None without one. It replaces the rule "500 and above is a
            failure": a match below 500 counts as 500, anything else as 200.
        degraded: Whether the headers carry `x-envoy-degraded`, whatever its value; a failure stays a failure.
    """
    behaviour = monitor.behaviour
    if grpc_status is not None:
        status = grpc_to_http_status(grpc_status)
    if matched is None or not behaviour.error_matcher:
        failed = status >= 500
    else:
        failed = matched
        status = max(status, 500) if matched else 200
    if not behaviour.router_reports_response_result:
        monitor.put_http_response_code(status)
    elif failed:
        monitor.put_result(_REQUEST_FAILED, status)
    elif degraded and behaviour.degraded_hosts:
        monitor.put_result(_REQUEST_DEGRADED, status)
    else:
        monitor.put_result(_REQUEST_SUCCESS, status)


def report_reset(monitor: HostMonitor) -> None:
    """The attempt failed below HTTP.

    No connection, a connection that ended before or after the headers, a protocol error: all count alike, in addition
    to what was reported for the attempt before.
    """
    if monitor.behaviour.router_reports_results:
        monitor.put_result(_CONNECT_FAILED)
    else:
        monitor.put_http_response_code(503)


def report_timeout(monitor: HostMonitor, *, alt_response: bool = False, responding: bool = False) -> None:
    """The per-try or the route timeout ended the attempt.

    Args:
        monitor: The host's.
        alt_response: Whether the request has `x-envoy-upstream-rq-timeout-alt-response`; then 204 is reported, which
            without split mode is a success.
        responding: Whether response headers were received before.
    """
    behaviour = monitor.behaviour
    if responding and not behaviour.late_timeout_is_failure:
        return
    code = 204 if alt_response else 504
    if behaviour.router_reports_results:
        monitor.put_result(_TIMEOUT, code)
    else:
        monitor.put_http_response_code(code)


def report_overflow(monitor: HostMonitor) -> None:
    """A circuit breaker refused the attempt; no fault of the host, yet charged to it until 1.25."""
    if monitor.behaviour.overflow_is_failure:
        monitor.put_http_response_code(503)
