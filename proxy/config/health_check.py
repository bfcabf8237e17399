"""Active health checks: how hosts are asked whether they are well, and for which services.

Names, ranges and defaults are those of Envoy's `HealthCheck` (api/envoy/config/core/v3/health_check.proto); a range of
statuses holds both its ends. Istio has no resource for health checks, so the bootstrap file says them
(`health_check_reader`).
"""

import enum
from collections.abc import Iterable
from pathlib import Path

import attrs

from proxy.config.host_names import candidates


class CheckMethod(enum.Enum):
    """Request methods of HTTP checks: Envoy takes all but CONNECT."""

    GET = "GET"
    HEAD = "HEAD"
    POST = "POST"
    PUT = "PUT"
    DELETE = "DELETE"
    OPTIONS = "OPTIONS"
    TRACE = "TRACE"
    PATCH = "PATCH"


@attrs.frozen(kw_only=True)
class HttpHealthCheck:
    """One request over HTTP/1.1; the status decides.

    Attributes:
        path: Target of the request.
        host: Its Host header; empty takes the name of the cluster.
        method: Its method; there is no body.
        expected_statuses: Ranges of statuses of a host that is well, both ends included; empty means 200 only.
        retriable_statuses: Failures that count towards the unhealthy threshold; any other takes the host out at once.
        request_headers_to_add: Further headers, names in lower case.
    """

    path: str
    host: str = ""
    method: CheckMethod = CheckMethod.GET
    expected_statuses: tuple[tuple[int, int], ...] = ()
    retriable_statuses: tuple[tuple[int, int], ...] = ()
    request_headers_to_add: tuple[tuple[str, str], ...] = ()

    def expects(self, status: int) -> bool:
        """Whether a host that answers so is well."""
        return _in_ranges(status, self.expected_statuses or ((200, 200),))

    def retries(self, status: int) -> bool:
        """Whether a failure with this status is given time."""
        return _in_ranges(status, self.retriable_statuses)


@attrs.frozen(kw_only=True)
class TcpHealthCheck:
    """One connection; it has passed when it is open, or when all of `receive` has arrived in this order.

    Between the blocks of `receive` other bytes may come. Without `receive` nothing is sent.
    """

    send: tuple[bytes, ...] = ()
    receive: tuple[bytes, ...] = ()


@attrs.frozen(kw_only=True)
class HealthCheck:
    """How the hosts of a cluster are checked; durations are milliseconds.

    Attributes:
        check: What is asked.
        timeout_ms: After it a check has failed.
        interval_ms: From the end of a check to the next.
        unhealthy_threshold: Failures in a row that take a host out.
        healthy_threshold: Passes in a row that bring it back; the first check ever needs one.
        initial_jitter_ms: Bound of a random wait before the first check.
        interval_jitter_ms: Bound of a random addition to every interval.
        interval_jitter_percent: The same, in percent of the interval.
        no_traffic_interval_ms: Interval while the cluster has had no connection yet.
        no_traffic_healthy_interval_ms: The same for a host that is well.
        unhealthy_interval_ms: Interval after a failure of a host that is out.
        unhealthy_edge_interval_ms: After a failure that does not take the host out yet.
        healthy_edge_interval_ms: After a pass that does not bring the host back yet.
        reuse_connection: Whether a connection serves several checks.
        always_log_health_check_failures: Whether each failure is an event, not only the first check's.
        always_log_health_check_success: Whether each pass is an event.
        event_log_path: File of the events, one JSON object a line.
        ignore_new_hosts_until_first_hc: Whether a host that has not been checked counts for nothing.
    """

    check: HttpHealthCheck | TcpHealthCheck
    timeout_ms: int
    interval_ms: int
    unhealthy_threshold: int
    healthy_threshold: int
    initial_jitter_ms: int = 0
    interval_jitter_ms: int = 0
    interval_jitter_percent: int = 0
    no_traffic_interval_ms: int = 60_000
    no_traffic_healthy_interval_ms: int = attrs.field()
    unhealthy_interval_ms: int = attrs.field()
    unhealthy_edge_interval_ms: int = attrs.field()
    healthy_edge_interval_ms: int = attrs.field()
    reuse_connection: bool = True
    always_log_health_check_failures: bool = False
    always_log_health_check_success: bool = False
    event_log_path: Path | None = None
    ignore_new_hosts_until_first_hc: bool = False

    @no_traffic_healthy_interval_ms.default
    def _no_traffic_healthy_interval_ms(self) -> int:
        return self.no_traffic_interval_ms

    @unhealthy_interval_ms.default
    def _unhealthy_interval_ms(self) -> int:
        return self.interval_ms

    @unhealthy_edge_interval_ms.default
    def _unhealthy_edge_interval_ms(self) -> int:
        return self.unhealthy_interval_ms

    @healthy_edge_interval_ms.default
    def _healthy_edge_interval_ms(self) -> int:
        return self.interval_ms


@attrs.frozen
class HealthCheckRule:
    """A health check for the services whose host is, or matches, `host`; `port` None means every port."""

    host: str
    port: int | None
    health_check: HealthCheck


class HealthCheckRules:
    """Finds the health check of a service: the most specific host wins, then the rule that names the port."""

    def __init__(self, rules: Iterable[HealthCheckRule] = ()) -> None:
        self._checks = {(rule.host, rule.port): rule.health_check for rule in rules}

    def find(self, host: str, port: int) -> HealthCheck | None:
        """Return the health check of a service's port, None when it has none."""
        if self._checks:
            for pattern in candidates(host):
                found = self._checks.get((pattern, port)) or self._checks.get((pattern, None))
                if found is not None:
                    return found
        return None


def _in_ranges(status: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= status <= last for first, last in ranges)
