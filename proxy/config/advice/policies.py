"""Where a DestinationRule holds policies."""

from collections.abc import Iterator

import attrs

from proxy.config.destination_rule import DestinationRule, PortTrafficPolicy, TrafficPolicy
from proxy.config.issue import Path


@attrs.frozen
class PlacedPolicy:
    """A policy or port entry, and the path to it; `top` is whether it is the rule's own policy."""

    policy: TrafficPolicy | PortTrafficPolicy
    path: Path
    top: bool


def placed_policies(rule: DestinationRule) -> Iterator[PlacedPolicy]:
    """Yield every policy and port entry of a rule, the rule's own first."""
    policies: list[tuple[TrafficPolicy, Path]] = []
    if rule.traffic_policy is not None:
        policies.append((rule.traffic_policy, ("trafficPolicy",)))
    for index, subset in enumerate(rule.subsets):
        if subset is not None and subset.traffic_policy is not None:
            policies.append((subset.traffic_policy, ("subsets", index, "trafficPolicy")))
    for policy, path in policies:
        yield PlacedPolicy(policy, path, len(path) == 1)
        for index, entry in enumerate(policy.port_level_settings):
            if entry is not None:
                yield PlacedPolicy(entry, (*path, "portLevelSettings", index), top=False)
