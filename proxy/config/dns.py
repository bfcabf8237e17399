"""How names of hosts are looked up: whom to ask, and for which addresses."""

import enum

import attrs

from proxy.config.address import Address
from proxy.config.validation import is_ip

DNS_JITTER_MS = 100  # what Istio adds to a refresh at most (PILOT_DNS_JITTER_DURATION)

_DNS_PORT = 53


class DnsLookupFamily(enum.Enum):
    """Which addresses of a name are wanted (Envoy's `Cluster.DnsLookupFamily`).

    AUTO and V4_PREFERRED ask for the other family when the first has none.
    """

    V4_ONLY = "v4_only"
    V6_ONLY = "v6_only"
    V4_PREFERRED = "v4_preferred"
    AUTO = "auto"
    ALL = "all"


@attrs.frozen(kw_only=True)
class DnsSettings:
    """Whom to ask and what for; without `resolvers` the system's (`/etc/resolv.conf`) are asked.

    V4_ONLY is what Istio sends to a sidecar with IPv4 addresses, and to one with both.
    """

    resolvers: tuple[Address, ...] = ()
    lookup_family: DnsLookupFamily = DnsLookupFamily.V4_ONLY


DEFAULT_DNS = DnsSettings()


def read_resolver(text: str) -> Address:
    """Read the address of a DNS server; its port is 53 when there is none.

    Raises:
        ValueError: The text is no such address; the message is the rule it breaks.

    >>> str(read_resolver("10.0.0.10")), str(read_resolver("[::1]:5353"))
    ('10.0.0.10:53', '[::1]:5353')
    """
    if is_ip(text):
        return Address(text, _DNS_PORT)
    rule = "must be an IP address, ip:port or [v6]:port"
    try:
        address = Address.parse(text)
    except ValueError:
        raise ValueError(rule) from None
    if not is_ip(address.host) or not address.port:
        raise ValueError(rule)
    return address
