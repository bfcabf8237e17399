"""How much of a priority's traffic each locality gets under locality weighting.

Ports `LocalityWrr::effectiveLocalityWeight` (Envoy, source/extensions/load_balancing_policies/common/locality_wrr.cc).
Zone-aware routing is not modelled: it needs to know the cluster this sidecar belongs to.
"""


def effective_locality_weight(
    weight: int, *, hosts: int, excluded: int, eligible: int, overprovisioning_factor: int
) -> float:
    """Return the weight of a locality, lowered once too few of its hosts can serve.

    Args:
        weight: Configured weight; 0 keeps all traffic away.
        hosts: Hosts in the locality.
        excluded: Those of them outside the denominator.
        eligible: Those of them that can serve.
        overprovisioning_factor: Percent, 140 in Envoy.

    >>> effective_locality_weight(2, hosts=2, excluded=0, eligible=1, overprovisioning_factor=140)
    1.4
    """
    counted = hosts - excluded
    if counted == 0:
        return 0.0
    return weight * min(1.0, overprovisioning_factor / 100.0 * (eligible / counted))
