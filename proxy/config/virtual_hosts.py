"""The authorities that name a service port on the one outbound listener.

Istio makes one listener for each port; here one listener takes all, so the port in the authority decides. `host:port`
always names that port. A host without port names port 80 if the service declares it, else its only port, else the
first one declared. Ports `generateVirtualHostDomains` (Istio, pilot/pkg/networking/core/httproute.go).
"""

from proxy.config.node import NodeConfig
from proxy.config.service_entry import ServicePort
from proxy.config.service_index import Service
from proxy.config.validate_service_entry import HTTP_PROTOCOLS


def is_http_port(port: ServicePort) -> bool:
    """Whether the HTTP listener serves the port: an HTTP protocol, or none declared (to be sniffed)."""
    return port.protocol.upper() in {*HTTP_PROTOCOLS, ""}


def host_aliases(host: str, node: NodeConfig) -> tuple[str, ...]:
    """Return every name of a host; a cluster-local one also has `name` (own namespace), `name.ns`, `name.ns.svc`.

    >>> host_aliases("reviews.default.svc.cluster.local", NodeConfig(namespace="default"))
    ('reviews.default.svc.cluster.local', 'reviews', 'reviews.default', 'reviews.default.svc')
    """
    host = host.lower()
    suffix = f".svc.{node.domain}"
    local = host.removesuffix(suffix)
    name, dot, namespace = local.partition(".")
    if local == host or not dot or "." in namespace or name.startswith("*"):
        return (host,)
    short = (name,) if namespace == node.namespace else ()
    return (host, *short, local, f"{local}.svc")


def default_http_port(service: Service) -> ServicePort | None:
    """Return the port that an authority without one means; None for a service without HTTP ports."""
    ports = [port for port in service.ports if is_http_port(port)]
    return next((port for port in ports if port.number == 80), ports[0] if ports else None)


def domains(service: Service, port: ServicePort, node: NodeConfig) -> tuple[str, ...]:
    """Return the authorities of one port: each name with `:port`, and bare as well for the default port."""
    default = default_http_port(service)
    bare = default is not None and default.number == port.number
    return domain_names(host_aliases(service.host, node), port.number, bare=bare)


def domain_names(names: tuple[str, ...], port: int, *, bare: bool) -> tuple[str, ...]:
    """Return each name with the port, and alone too when `bare`."""
    return tuple(domain for name in names for domain in ((name, f"{name}:{port}") if bare else (f"{name}:{port}",)))
