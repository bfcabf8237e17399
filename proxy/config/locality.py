"""Near endpoints first: priorities and weights by locality.

Endpoints are grouped by locality; `distribute` weighs the groups, otherwise failover gives each a priority. Failover
needs outlier detection: without it Envoy would never notice that a priority is gone. Ports `ApplyLocalityLoadBalancer`
and its helpers (Istio, pilot/pkg/networking/core/loadbalancer/loadbalancer.go).
"""

import math
from collections.abc import Mapping, Sequence

import attrs

from proxy.config.cluster_config import UINT32_MAX, Endpoint, Locality
from proxy.config.destination_rule import (
    Distribute,
    Failover,
    LoadBalancer,
    LocalityLbSetting,
    TrafficPolicy,
    ZoneAwareLbSetting,
)
from proxy.config.mesh_config import MeshConfig
from proxy.config.node import LOCALITY_LABELS, NETWORK_LABEL, NodeConfig
from proxy.config.traffic_policy import MESH_DEFAULT, EffectivePolicy

_PREFER_LABELS = (NETWORK_LABEL, *LOCALITY_LABELS)
# Kubernetes' traffic distribution, as the failoverPriority that Istio reads it as.
TRAFFIC_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "PreferClose": _PREFER_LABELS,
    "PreferSameZone": _PREFER_LABELS,
    "PreferSameNode": (*_PREFER_LABELS, "kubernetes.io/hostname"),
}


@attrs.frozen(kw_only=True)
class EffectiveSetting:
    """The setting that wins, exactly one of the two; `force` makes failover work without outlier detection."""

    locality: LocalityLbSetting | None = None
    zone_aware: ZoneAwareLbSetting | None = None
    force: bool = False


def effective_setting(
    rule: LocalityLbSetting | None,
    rule_zone: ZoneAwareLbSetting | None,
    mesh: LocalityLbSetting | None,
    mesh_zone: ZoneAwareLbSetting | None,
    distribution: str = "",
) -> EffectiveSetting | None:
    """Return the setting that applies to a cluster; None when locality plays no part.

    The rule's zone-aware setting comes before its locality setting, then the service's traffic distribution, then the
    mesh's. `enabled: false` in the rule's locality setting ends the search.
    """
    if rule_zone is not None:
        return EffectiveSetting(zone_aware=rule_zone, force=rule_zone.enabled is not False)
    if rule is not None:
        return None if rule.enabled is False else EffectiveSetting(locality=rule)
    if distribution in TRAFFIC_DISTRIBUTIONS:
        setting = LocalityLbSetting(enabled=True, failover_priority=TRAFFIC_DISTRIBUTIONS[distribution])
        return EffectiveSetting(locality=setting, force=True)
    if mesh_zone is not None and mesh_zone.enabled is not False:
        return EffectiveSetting(zone_aware=mesh_zone, force=True)
    if mesh is not None and mesh.enabled is not False:
        return EffectiveSetting(locality=mesh)
    return None


def locality_matches(locality: Locality, pattern: str) -> bool:
    """Whether a locality lies in `region/zone/subzone`, where `*` and missing parts cover everything."""
    parts = pattern.split("/")
    own = (locality.region, locality.zone, locality.sub_zone)
    for wanted, actual in zip(parts, own, strict=False):
        if wanted == "*":
            return True
        if wanted != actual:
            return False
    return True


@attrs.frozen(kw_only=True)
class LocalityGroup:
    """Endpoints of one locality and, once placed, of one priority; `weight` None is unset."""

    locality: Locality | None
    endpoints: tuple[Endpoint, ...] = ()
    weight: int | None = None
    priority: int = 0


def _distribute(
    groups: Sequence[LocalityGroup], entries: Sequence[Distribute | None], client: Locality
) -> list[LocalityGroup]:
    entry = next((entry for entry in entries if entry is not None and locality_matches(client, entry.from_)), None)
    if entry is None:
        return list(groups)
    placed = list(groups)
    remaining = set(range(len(groups)))
    for pattern, percent in entry.to.items():
        matched = [
            index for index in sorted(remaining) if locality_matches(groups[index].locality or Locality(), pattern)
        ]
        remaining.difference_update(matched)
        total = sum(groups[index].weight or 0 for index in matched)
        for index in matched:
            weight = math.ceil((groups[index].weight or 0) * percent / total) if total else 0
            placed[index] = attrs.evolve(groups[index], weight=weight)
    for index in remaining:
        placed[index] = attrs.evolve(groups[index], endpoints=(), weight=None)
    return placed


def _compact(raw: Sequence[int]) -> list[int]:
    """Return 0, 1, 2, ... for the distinct values in rising order."""
    rank = {value: index for index, value in enumerate(sorted(set(raw)))}
    return [rank[value] for value in raw]


def _failover_rank(locality: Locality | None, client: Locality, failover: Sequence[Failover | None]) -> int:
    group = locality or Locality()
    if group.region == client.region:
        if group.zone != client.zone:
            return 2
        return 1 if group.sub_zone != client.sub_zone else 0
    entry = next((entry for entry in failover if entry is not None and entry.from_ == client.region), None)
    return 3 if entry is None or (locality is not None and group.region == entry.to) else 4


def _label_score(endpoint: Endpoint, items: Sequence[str], client_labels: Mapping[str, str]) -> int:
    """Return how early the endpoint's labels part from those wanted: 0 for all equal, more for earlier."""
    penalty = 0
    for index, item in enumerate(items):
        key, equals, value = item.partition("=")
        wanted = value if equals else client_labels.get(key, "")
        if endpoint.labels.get(key, "") == wanted:
            continue
        if index == 0 and item == NETWORK_LABEL:
            # Another network is behind every endpoint of the own one, and still sorted within.
            penalty = len(items)
            continue
        return penalty + len(items) - index
    return penalty


def _split_by_labels(
    groups: Sequence[LocalityGroup], items: Sequence[str], client_labels: Mapping[str, str]
) -> list[LocalityGroup]:
    split: list[LocalityGroup] = []
    for group in groups:
        parts: dict[int, list[Endpoint]] = {}
        for endpoint in group.endpoints:
            parts.setdefault(_label_score(endpoint, items, client_labels), []).append(endpoint)
        for score in sorted(parts):
            weight = min(sum(endpoint.weight for endpoint in parts[score]), UINT32_MAX)
            split.append(attrs.evolve(group, endpoints=tuple(parts[score]), weight=weight, priority=score))
    priorities = _compact([group.priority for group in split])
    return [attrs.evolve(group, priority=priority) for group, priority in zip(split, priorities, strict=True)]


def _with_ranks(groups: Sequence[LocalityGroup], ranks: Sequence[int], factor: int) -> list[LocalityGroup]:
    priorities = _compact([group.priority * factor + rank for group, rank in zip(groups, ranks, strict=True)])
    return [attrs.evolve(group, priority=priority) for group, priority in zip(groups, priorities, strict=True)]


def place_groups(
    groups: Sequence[LocalityGroup], setting: EffectiveSetting | None, node: NodeConfig, *, outlier: bool
) -> list[LocalityGroup]:
    """Return the groups with priorities and weights; label priorities may split a group.

    Args:
        groups: One for each locality, priority 0.
        setting: What applies, None for nothing.
        node: The client: its locality and labels.
        outlier: Whether the cluster has outlier detection.
    """
    if setting is None:
        return list(groups)
    if setting.zone_aware is not None:
        return _zone_aware(groups, setting.zone_aware, node) if setting.force else list(groups)
    locality = setting.locality
    assert locality is not None
    if locality.distribute:
        return _distribute(groups, locality.distribute, node.locality)
    if not outlier and not setting.force:
        return list(groups)
    placed = list(groups)
    if locality.failover_priority:
        labels = node.located_labels
        if not labels:
            return placed
        placed = _split_by_labels(placed, locality.failover_priority, labels)
        if not locality.failover:
            return placed
    ranks = [_failover_rank(group.locality, node.locality, locality.failover) for group in placed]
    return _with_ranks(placed, ranks, 5)


def _zone_aware(groups: Sequence[LocalityGroup], setting: ZoneAwareLbSetting, node: NodeConfig) -> list[LocalityGroup]:
    """Own region first, then the one that failover names, then the rest; zones are weighed by Envoy itself."""
    placed = list(groups)
    if setting.failover_priority and node.located_labels:
        placed = _split_by_labels(placed, setting.failover_priority, node.located_labels)
    client = node.locality.region
    target = next((entry.to for entry in setting.failover if entry is not None and entry.from_ == client), None)
    ranks = []
    for group in placed:
        region = group.locality.region if group.locality is not None else ""
        ranks.append(0 if region == client else 1 if target is not None and region == target else 2)
    return _with_ranks(placed, ranks, 3)


def policy_setting(policy: TrafficPolicy, mesh: MeshConfig, distribution: str = "") -> EffectiveSetting | None:
    """Return the setting of a cluster's effective policy; the mesh's locality setting is on by default."""
    block = policy.load_balancer or LoadBalancer()
    return effective_setting(
        block.locality_lb_setting,
        block.zone_aware_lb_setting,
        mesh.locality_lb_setting or LocalityLbSetting(),
        mesh.zone_aware_lb_setting,
        distribution,
    )


def is_locality_weighted(setting: EffectiveSetting | None, *, outlier: bool) -> bool:
    """Whether Istio asks Envoy to weigh localities: with `distribute`, or with a failover that can work."""
    locality = setting.locality if setting is not None else None
    if setting is None or locality is None:
        return False
    failover = bool(locality.failover or locality.failover_priority)
    return bool(locality.distribute) or (failover and (outlier or setting.force))


@attrs.frozen(kw_only=True)
class PlacedEndpoints:
    """Endpoints with their priorities, and the weight of each locality in each priority."""

    endpoints: tuple[Endpoint, ...]
    weights: Mapping[tuple[int, Locality], int] = attrs.field(factory=dict)


def locate_endpoints(
    endpoints: tuple[Endpoint, ...],
    effective: EffectivePolicy | None,
    node: NodeConfig,
    mesh: MeshConfig,
    distribution: str = "",
) -> PlacedEndpoints:
    """Return the endpoints of a cluster in their priorities for this client.

    Args:
        endpoints: Those of the cluster, in any locality.
        effective: The cluster's policy.
        node: The client.
        mesh: Mesh-wide defaults.
        distribution: The service's traffic distribution, empty for none.

    An outlierDetection block that only the mesh's default policy brings does not switch failover on (Istio computes
    endpoints without that default).
    """
    policy = effective.policy if effective is not None else TrafficPolicy()
    setting = policy_setting(policy, mesh, distribution)
    outlier = (
        effective is not None
        and policy.outlier_detection is not None
        and effective.origins.get("outlier_detection") != MESH_DEFAULT
    )
    by_locality: dict[Locality, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_locality.setdefault(endpoint.locality, []).append(endpoint)
    groups = [
        LocalityGroup(
            locality=locality if locality != Locality() else None,
            endpoints=tuple(members),
            weight=min(sum(endpoint.weight for endpoint in members), UINT32_MAX),
        )
        for locality, members in sorted(by_locality.items(), key=lambda item: str(item[0]))
    ]
    placed = place_groups(groups, setting, node, outlier=outlier)
    # Endpoints may be equal, so identity tells them apart.
    priorities = {id(endpoint): group.priority for group in placed for endpoint in group.endpoints}
    located = tuple(
        attrs.evolve(endpoint, priority=priorities[id(endpoint)]) if priorities[id(endpoint)] else endpoint
        for endpoint in endpoints
        if id(endpoint) in priorities
    )
    weights: dict[tuple[int, Locality], int] = {}
    for group in placed:
        if group.weight is not None and group.endpoints:
            key = (group.priority, group.locality or Locality())
            weights[key] = min(weights.get(key, 0) + group.weight, UINT32_MAX)
    return PlacedEndpoints(endpoints=located, weights=weights)
