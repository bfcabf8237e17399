"""Type URLs of MCP over xDS: group/version/kind, in any of the three versions that Istio has used.

istiod asks for v1 from 1.24 on and for v1alpha3 before; a body is of the v1alpha3 message in all of them.
"""

from proxy.config.resource import KINDS, Kind

_GROUP = "networking.istio.io"
_VERSIONS = ("v1", "v1beta1", "v1alpha3")
_KINDS_BY_TYPE_URL = {f"{_GROUP}/{version}/{kind.name}": kind for version in _VERSIONS for kind in KINDS.values()}


def type_url_of(kind: Kind) -> str:
    """Return the type URL that current Istio uses for a kind."""
    return f"{_GROUP}/{_VERSIONS[0]}/{kind.name}"


def kind_of(type_url: str) -> Kind | None:
    """Return the kind that a type URL means; None for one that the sidecar does not use."""
    return _KINDS_BY_TYPE_URL.get(type_url)
