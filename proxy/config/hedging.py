"""Hedging of a VirtualService's routes, in an annotation: Istio has no field for it.

An annotation travels with the routes from every source and means nothing to Istio.
"""

from proxy.config.resource import Resource

HEDGE_ANNOTATION = "outlier-proxy/hedge-on-per-try-timeout"


def hedges(resource: Resource) -> bool:
    """Whether attempts of a VirtualService's own routes are kept when their `perTryTimeout` is over."""
    return resource.annotations.get(HEDGE_ANNOTATION) == "true"
