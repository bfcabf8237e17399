"""Whether Istio accepts a ServiceEntry or a WorkloadEntry, and what it warns about.

Ports `ValidateServiceEntry` and `validateWorkloadEntry` (Istio, pkg/config/validation).
"""

import ipaddress

from proxy.config.issue import ABSENT, AS_WRITTEN, Path, Report
from proxy.config.service_entry import Resolution, ServiceEntry, ServicePort, WorkloadEntry
from proxy.config.validation import (
    DNS_LABEL_RULE,
    check_export_to,
    check_labels,
    check_selector,
    fqdn_fault,
    is_dns_label,
    is_ip,
    wildcard_domain_fault,
)

HTTP_PROTOCOLS = frozenset({"HTTP", "HTTP2", "GRPC", "GRPC-WEB"})
_TLS_PROTOCOLS = frozenset({"HTTPS", "TLS"})
_PROTOCOLS = HTTP_PROTOCOLS | _TLS_PROTOCOLS | {"MONGO", "TCP", "UDP", "MYSQL", "REDIS", ""}
_DYNAMIC_DNS_PROTOCOLS = frozenset({"HTTP", "TLS", "GRPC", "HTTP2"})
UNIX_PREFIX = "unix://"


def check_service_entry(entry: ServiceEntry, namespace: str, path: Path, report: Report) -> None:
    """Report what Istio says about an entry of that namespace."""
    _check_hosts(entry, path, report)
    if entry.workload_selector is not None:
        if entry.endpoints:
            report.error((*path, "endpoints"), AS_WRITTEN, "must not be set together with workloadSelector")
        if entry.resolution is Resolution.NONE:
            report.warn((*path, "workloadSelector"), AS_WRITTEN, "has no effect with resolution: NONE")
        check_selector(entry.workload_selector.labels, (*path, "workloadSelector"), report)
    _check_addresses(entry, path, report)
    port_names = _check_ports(entry, path, report)
    _check_resolution(entry, port_names, path, report)
    check_export_to(entry.export_to, namespace, (*path, "exportTo"), report, none=True)
    if len(entry.hosts) > 1 and entry.resolution is not Resolution.NONE:
        for index, port in enumerate(entry.ports):
            if port is not None and port.protocol.upper() not in HTTP_PROTOCOLS | _TLS_PROTOCOLS:
                rule = (
                    "several hosts on one TCP port cannot be told apart; use HTTP, TLS, one host, or resolution: NONE"
                )
                report.error((*path, "ports", index, "protocol"), port.protocol or ABSENT, rule)


def _check_hosts(entry: ServiceEntry, path: Path, report: Report) -> None:
    if not entry.hosts:
        report.error((*path, "hosts"), ABSENT, "must have at least one host")
    for index, host in enumerate(entry.hosts):
        where = (*path, "hosts", index)
        fault = "must not be a bare *" if host == "*" else wildcard_domain_fault(host)
        if fault:
            report.error(where, host, fault)
        elif host.startswith("*") and not host.startswith("*."):
            report.warn(where, host, "a partial wildcard may not match as expected; use *.<domain>")


def _check_addresses(entry: ServiceEntry, path: Path, report: Report) -> None:
    for index, address in enumerate(entry.addresses):
        where = (*path, "addresses", index)
        network = "/" in address
        try:
            if network:
                ipaddress.ip_network(address, strict=False)
            else:
                ipaddress.ip_address(address)
        except ValueError:
            report.error(where, address, "must be an IP address or a CIDR")
            continue
        if network and entry.resolution not in {Resolution.NONE, Resolution.STATIC}:
            report.error(where, address, "a CIDR needs resolution: NONE or STATIC")


def _check_ports(entry: ServiceEntry, path: Path, report: Report) -> frozenset[str]:
    """Return the names of the ports."""
    names: set[str] = set()
    numbers: set[int] = set()
    for index, port in enumerate(entry.ports):
        where = (*path, "ports", index)
        if port is None:
            report.error(where, None, "a port must not be null")
            continue
        if port.name in names:
            report.error((*where, "name"), port.name, "names a port twice")
        if port.number in numbers:
            report.error((*where, "number"), port.number, "names a port twice")
        names.add(port.name)
        numbers.add(port.number)
        _check_port(port, where, report)
    return frozenset(names)


def _check_port(port: ServicePort, path: Path, report: Report) -> None:
    if not is_dns_label(port.name):
        report.error((*path, "name"), port.name or ABSENT, DNS_LABEL_RULE)
    if not 1 <= port.number <= 65535:
        report.error((*path, "number"), port.number, "must be in 1..65535")
    if port.target_port and not 1 <= port.target_port <= 65535:
        report.error((*path, "targetPort"), port.target_port, "must be in 1..65535")
    if port.protocol.upper() not in _PROTOCOLS:
        rule = f"must be one of {', '.join(sorted(_PROTOCOLS - {''}))}"
        report.error((*path, "protocol"), port.protocol, rule)


def _check_resolution(entry: ServiceEntry, port_names: frozenset[str], path: Path, report: Report) -> None:
    where = (*path, "endpoints")
    match entry.resolution:
        case Resolution.NONE:
            if entry.endpoints:
                report.error(
                    where, AS_WRITTEN, "must be empty with resolution: NONE, which is the default; set STATIC or DNS"
                )
        case Resolution.STATIC:
            for index, endpoint in enumerate(entry.endpoints):
                _check_static_endpoint(endpoint, entry, port_names, (*where, index), report)
        case Resolution.DNS | Resolution.DNS_ROUND_ROBIN:
            _check_dns(entry, port_names, path, report)
        case Resolution.DYNAMIC_DNS:
            _check_dynamic_dns(entry, path, report)


def _check_static_endpoint(
    endpoint: WorkloadEntry | None, entry: ServiceEntry, port_names: frozenset[str], path: Path, report: Report
) -> None:
    if endpoint is None:
        report.error(path, None, "an endpoint must not be null")
        return
    if endpoint.address.startswith(UNIX_PREFIX):
        if len(entry.ports) != 1:
            report.error((*path, "address"), endpoint.address, "a unix socket needs exactly one service port")
        _check_unix(endpoint, path, report)
    else:
        _check_port_names(endpoint, port_names, path, report)
        _check_address(endpoint, path, report, names_allowed=False)
    check_labels(endpoint.labels, (*path, "labels"), report)


def _check_unix(endpoint: WorkloadEntry, path: Path, report: Report) -> None:
    name = endpoint.address.removeprefix(UNIX_PREFIX)
    if not name.startswith(("/", "@")) or len(name) < 2:
        rule = "a unix socket is unix:///absolute/path or unix://@abstract"
        report.error((*path, "address"), endpoint.address, rule)
    if endpoint.ports:
        report.error((*path, "ports"), dict(endpoint.ports), "a unix socket has no ports")


def _check_port_names(endpoint: WorkloadEntry, port_names: frozenset[str], path: Path, report: Report) -> None:
    for name, number in endpoint.ports.items():
        if name not in port_names:
            report.error(
                (*path, "ports", name), number, f"must name a port of the entry: {', '.join(sorted(port_names))}"
            )
        if not 1 <= number <= 65535:
            report.error((*path, "ports", name), number, "must be in 1..65535")


def _check_address(endpoint: WorkloadEntry, path: Path, report: Report, *, names_allowed: bool) -> None:
    if not endpoint.address:
        if endpoint.network:
            report.warn(
                (*path, "address"), ABSENT, "without an address the endpoint is reached through its network's gateway"
            )
        else:
            report.error((*path, "address"), ABSENT, "is required when network is not set")
        return
    if not is_ip(endpoint.address):
        fault = fqdn_fault(endpoint.address)
        if not names_allowed:
            report.error(
                (*path, "address"), endpoint.address, "must be an IP address or a unix socket; for names use DNS"
            )
        elif fault:
            report.error((*path, "address"), endpoint.address, f"must be an IP address or a host name: {fault}")


def _check_dns(entry: ServiceEntry, port_names: frozenset[str], path: Path, report: Report) -> None:
    if not entry.endpoints:
        for index, host in enumerate(entry.hosts if entry.workload_selector is None else ()):
            fault = fqdn_fault(host)
            if fault:
                report.error((*path, "hosts", index), host, f"without endpoints the host itself is looked up: {fault}")
        return
    if entry.resolution is Resolution.DNS_ROUND_ROBIN and len(entry.endpoints) > 1:
        rule = "must be at most one with resolution: DNS_ROUND_ROBIN"
        report.error((*path, "endpoints"), len(entry.endpoints), rule)
    for index, endpoint in enumerate(entry.endpoints):
        where = (*path, "endpoints", index)
        if endpoint is None:
            report.error(where, None, "an endpoint must not be null")
            continue
        _check_port_names(endpoint, port_names, where, report)
        _check_address(endpoint, where, report, names_allowed=True)
        check_labels(endpoint.labels, (*where, "labels"), report)


def _check_dynamic_dns(entry: ServiceEntry, path: Path, report: Report) -> None:
    for index, host in enumerate(entry.hosts):
        if not host.startswith("*"):
            report.error((*path, "hosts", index), host, "must be a wildcard with resolution: DYNAMIC_DNS")
    if entry.addresses:
        report.error((*path, "addresses"), list(entry.addresses), "must be empty with resolution: DYNAMIC_DNS")
    if entry.endpoints:
        report.error((*path, "endpoints"), AS_WRITTEN, "must be empty with resolution: DYNAMIC_DNS")
    for index, port in enumerate(entry.ports):
        if port is not None and port.protocol.upper() not in _DYNAMIC_DNS_PROTOCOLS:
            rule = f"must be one of {', '.join(sorted(_DYNAMIC_DNS_PROTOCOLS))} with resolution: DYNAMIC_DNS"
            report.error((*path, "ports", index, "protocol"), port.protocol or ABSENT, rule)
    rule = (
        "is not applied: nothing looks up what a request's Host header names; requests get 503. List the hosts with DNS"
    )
    report.warn((*path, "resolution"), entry.resolution.name, rule, origin="outlier")


def check_workload_entry(entry: WorkloadEntry, _namespace: str, path: Path, report: Report) -> None:
    """Report what Istio says about a WorkloadEntry resource."""
    if entry.address.startswith(UNIX_PREFIX):
        _check_unix(entry, path, report)
    else:
        _check_address(entry, path, report, names_allowed=True)
    for name, number in entry.ports.items():
        if not is_dns_label(name):
            report.error((*path, "ports", name), name, DNS_LABEL_RULE)
        if not 1 <= number <= 65535:
            report.error((*path, "ports", name), number, "must be in 1..65535")
    check_labels(entry.labels, (*path, "labels"), report)
