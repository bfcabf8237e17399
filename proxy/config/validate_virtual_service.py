"""Whether Istio accepts a VirtualService.

Ports `ValidateVirtualService` and `validateHTTPRoute` (Istio, pkg/config/validation/validation.go and
virtualservice.go).
"""

from proxy.config.issue import ABSENT, Path, Report
from proxy.config.validate_http_route import check_http_route
from proxy.config.validation import check_export_to, is_ip, wildcard_domain_fault
from proxy.config.virtual_service import VirtualService

MESH_GATEWAY = "mesh"


def check_virtual_service(service: VirtualService, namespace: str, path: Path, report: Report) -> None:
    """Report what Istio says about a VirtualService of that namespace."""
    _check_hosts(service, path, report)
    if not (service.http or service.tcp or service.tls):
        report.error((*path, "http"), ABSENT, "must have http, tcp or tls routes")
    for index, route in enumerate(service.http):
        where = (*path, "http", index)
        if route is None:
            report.error(where, None, "a route must not be null")
        else:
            check_http_route(route, where, report)
    check_export_to(service.export_to, namespace, (*path, "exportTo"), report, none=True)


def _check_hosts(service: VirtualService, path: Path, report: Report) -> None:
    for_mesh = not service.gateways or MESH_GATEWAY in service.gateways
    if not service.hosts and (service.tcp or service.tls or service.gateways):
        # Without hosts it is a delegate, which holds http routes only.
        report.error((*path, "hosts"), ABSENT, "must have at least one host")
    seen: set[str] = set()
    for index, host in enumerate(service.hosts):
        where = (*path, "hosts", index)
        fault = None if host == "*" or is_ip(host) else wildcard_domain_fault(host)
        if host == "*" and for_mesh:
            report.error(where, host, "a bare * is only allowed for gateways other than mesh")
        elif fault:
            report.error(where, host, fault)
        elif host in seen:
            report.error(where, host, "names a host twice")
        seen.add(host)
