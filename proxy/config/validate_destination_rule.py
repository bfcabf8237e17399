"""Whether Istio accepts a DestinationRule, and what it warns about.

Outcomes are exactly istiod's, gaps included: a port number of 0 passes, a port listed twice passes, and warnings
inside port entries and subsets are lost. What Istio leaves unsaid is `outlier check`'s business, not this module's.
Ports `ValidateDestinationRule` and its helpers (Istio, pkg/config/validation/validation.go).
"""

from proxy.config.destination_rule import (
    ConnectionPool,
    DestinationRule,
    H2UpgradePolicy,
    HttpSettings,
    OutlierDetection,
    PortTrafficPolicy,
    Subset,
    TcpSettings,
    TrafficPolicy,
    Tunnel,
)
from proxy.config.issue import ABSENT, AS_WRITTEN, Path, Report, Severity
from proxy.config.validate_load_balancer import check_load_balancer
from proxy.config.validate_tls import check_client_tls
from proxy.config.validation import (
    DNS_LABEL_RULE,
    check_duration,
    check_export_to,
    check_labels,
    check_not_negative,
    check_percent,
    check_required_duration,
    check_selector,
    fqdn_fault,
    is_dns_label,
    is_ip,
    wildcard_domain_fault,
)


def check_destination_rule(rule: DestinationRule, namespace: str, path: Path, report: Report) -> None:
    """Report what Istio says about a rule of that namespace."""
    fault = wildcard_domain_fault(rule.host)
    if fault:
        report.error((*path, "host"), rule.host or ABSENT, fault)
    if rule.traffic_policy is not None:
        check_traffic_policy(rule.traffic_policy, namespace, (*path, "trafficPolicy"), report)
    names: set[str] = set()
    for index, subset in enumerate(rule.subsets):
        _check_subset(subset, names, namespace, (*path, "subsets", index), report)
    check_export_to(rule.export_to, namespace, (*path, "exportTo"), report, selector=rule.workload_selector is not None)
    if rule.workload_selector is not None:
        check_selector(rule.workload_selector.match_labels, (*path, "workloadSelector"), report)


def _errors_only(report: Report, inner: Report) -> None:
    """Carry over errors; Istio's helpers for subsets and ports return only those."""
    report.issues.extend(issue for issue in inner if issue.severity is Severity.ERROR)


def _check_subset(subset: Subset | None, names: set[str], namespace: str, path: Path, report: Report) -> None:
    if subset is None:
        report.error(path, None, "a subset must not be null")
        return
    if not is_dns_label(subset.name):
        report.error((*path, "name"), subset.name or ABSENT, DNS_LABEL_RULE)
    elif subset.name in names:
        report.error((*path, "name"), subset.name, "names a subset twice")
    names.add(subset.name)
    check_labels(subset.labels, (*path, "labels"), report)
    if subset.traffic_policy is not None:
        inner = Report()
        check_traffic_policy(subset.traffic_policy, namespace, (*path, "trafficPolicy"), inner)
        _errors_only(report, inner)


def check_traffic_policy(policy: TrafficPolicy, namespace: str, path: Path, report: Report) -> None:
    """Report what Istio says about a policy of a rule, a subset, or the mesh."""
    if policy.is_empty:
        report.error(path, {}, "must have at least one field")
        return
    if policy.tunnel is not None and policy.proxy_protocol is not None:
        report.error((*path, "tunnel"), AS_WRITTEN, "must not be set together with proxyProtocol")
        return
    if policy.outlier_detection is not None:
        check_outlier_detection(policy.outlier_detection, (*path, "outlierDetection"), report)
    if policy.connection_pool is not None:
        check_connection_pool(policy.connection_pool, (*path, "connectionPool"), report)
    if policy.load_balancer is not None:
        outlier = policy.outlier_detection is not None
        check_load_balancer(policy.load_balancer, (*path, "loadBalancer"), report, outlier=outlier)
    if policy.tls is not None:
        check_client_tls(policy.tls, namespace, (*path, "tls"), report)
    if policy.tunnel is not None:
        _check_tunnel(policy.tunnel, (*path, "tunnel"), report)
    budget = policy.retry_budget
    if budget is not None and budget.percent is not None and not 0 <= budget.percent <= 100:
        report.error((*path, "retryBudget", "percent"), budget.percent, "must be in 0..100", origin="crd")
    for index, entry in enumerate(policy.port_level_settings):
        inner = Report()
        _check_port_policy(entry, namespace, (*path, "portLevelSettings", index), inner)
        _errors_only(report, inner)


def _check_port_policy(entry: PortTrafficPolicy | None, namespace: str, path: Path, report: Report) -> None:
    if entry is None:
        report.error(path, None, "a port entry must not be null")
        return
    if entry.port is None:
        report.error((*path, "port"), ABSENT, "is required")
    blocks = (entry.load_balancer, entry.connection_pool, entry.outlier_detection, entry.tls)
    if blocks == (None,) * len(blocks):
        report.error(path, {}, "must have one of loadBalancer, connectionPool, outlierDetection, tls")
        return
    if entry.outlier_detection is not None:
        check_outlier_detection(entry.outlier_detection, (*path, "outlierDetection"), report)
    if entry.connection_pool is not None:
        check_connection_pool(entry.connection_pool, (*path, "connectionPool"), report)
    if entry.load_balancer is not None:
        outlier = entry.outlier_detection is not None
        check_load_balancer(entry.load_balancer, (*path, "loadBalancer"), report, outlier=outlier)
    if entry.tls is not None:
        check_client_tls(entry.tls, namespace, (*path, "tls"), report)


def check_outlier_detection(block: OutlierDetection, path: Path, report: Report) -> None:
    """Report what Istio says about an outlierDetection block; `{}` is fine."""
    check_duration(block.interval, (*path, "interval"), report)
    check_duration(block.base_ejection_time, (*path, "baseEjectionTime"), report)
    if block.consecutive_errors != 0:
        report.warn(
            (*path, "consecutiveErrors"),
            block.consecutive_errors,
            "is deprecated, and not read since Istio 1.7; use consecutive5xxErrors or consecutiveGatewayErrors",
        )
    if not block.split_external_local_origin_errors and (block.consecutive_local_origin_failures or 0) > 0:
        report.error(
            (*path, "consecutiveLocalOriginFailures"),
            block.consecutive_local_origin_failures,
            "needs splitExternalLocalOriginErrors: true",
        )
    check_percent(block.max_ejection_percent, (*path, "maxEjectionPercent"), report)
    check_percent(block.min_health_percent, (*path, "minHealthPercent"), report)
    for index, code in enumerate(block.outlier_detection_http_error_codes):
        if not 100 <= code <= 599:
            where = (*path, "outlierDetectionHttpErrorCodes", index)
            report.error(where, code, "must be in 100..599", origin="crd")


def check_connection_pool(pool: ConnectionPool, path: Path, report: Report) -> None:
    """Report what Istio says about a connectionPool block."""
    if pool.tcp is None and pool.http is None:
        report.error(path, {}, "must have tcp or http")
        return
    if pool.tcp is not None:
        _check_tcp(pool.tcp, (*path, "tcp"), report)
    if pool.http is not None:
        _check_http(pool.http, (*path, "http"), report)


def _check_tcp(tcp: TcpSettings, path: Path, report: Report) -> None:
    check_not_negative(tcp.max_connections, (*path, "maxConnections"), report)
    check_duration(tcp.connect_timeout, (*path, "connectTimeout"), report)
    check_duration(tcp.max_connection_duration, (*path, "maxConnectionDuration"), report)
    # Istio exempts what rounds to 0 ms, so both 0s (never idle out) and 500us pass.
    if tcp.idle_timeout is not None and abs(tcp.idle_timeout) >= 1_000_000:
        check_duration(tcp.idle_timeout, (*path, "idleTimeout"), report)
    if tcp.tcp_keepalive is not None:
        check_duration(tcp.tcp_keepalive.time, (*path, "tcpKeepalive", "time"), report)
        check_duration(tcp.tcp_keepalive.interval, (*path, "tcpKeepalive", "interval"), report)


def _check_http(http: HttpSettings, path: Path, report: Report) -> None:
    check_not_negative(http.http1_max_pending_requests, (*path, "http1MaxPendingRequests"), report)
    check_not_negative(http.http2_max_requests, (*path, "http2MaxRequests"), report)
    check_not_negative(http.max_requests_per_connection, (*path, "maxRequestsPerConnection"), report)
    check_not_negative(http.max_retries, (*path, "maxRetries"), report)
    check_not_negative(http.max_concurrent_streams, (*path, "maxConcurrentStreams"), report)
    check_duration(http.idle_timeout, (*path, "idleTimeout"), report)
    if http.h2_upgrade_policy is H2UpgradePolicy.UPGRADE and http.use_client_protocol:
        report.error((*path, "useClientProtocol"), True, "must not be set together with h2UpgradePolicy: UPGRADE")
    if http.http2_keep_alive is not None:
        check_required_duration(http.http2_keep_alive.interval, (*path, "http2KeepAlive", "interval"), report)
        check_required_duration(http.http2_keep_alive.timeout, (*path, "http2KeepAlive", "timeout"), report)


def _check_tunnel(tunnel: Tunnel, path: Path, report: Report) -> None:
    if tunnel.protocol not in {"", "CONNECT", "POST"}:
        report.error((*path, "protocol"), tunnel.protocol, "must be CONNECT or POST")
    fault = fqdn_fault(tunnel.target_host)
    if fault and not is_ip(tunnel.target_host):
        report.error((*path, "targetHost"), tunnel.target_host or ABSENT, fault)
    if not 1 <= tunnel.target_port <= 65535:
        report.error((*path, "targetPort"), tunnel.target_port, "must be in 1..65535")
