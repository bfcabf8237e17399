"""Which policy applies to one port of one subset.

Blocks are never merged field by field, and a port entry replaces all four of its blocks, set or not.
Ports `MergeSubsetTrafficPolicy`, `GetPortLevelTrafficPolicy` and `applyDefaultTrafficPolicy` (Istio,
pilot/pkg/networking/util).
"""

import attrs

from proxy.config.destination_rule import PortTrafficPolicy, TrafficPolicy
from proxy.config.issue import Path

_PORT_BLOCKS = ("load_balancer", "connection_pool", "outlier_detection", "tls")
_OTHER_BLOCKS = ("tunnel", "proxy_protocol", "retry_budget")
BLOCKS = (*_PORT_BLOCKS, *_OTHER_BLOCKS)
MESH_DEFAULT: Path = ("defaultTrafficPolicy",)


@attrs.frozen(kw_only=True)
class EffectivePolicy:
    """The policy of a cluster, and where each of its blocks stands.

    `policy` has no port entries left. `origins` maps the attribute of each set block to the path of the policy or port
    entry that it comes from, relative to the rule; `MESH_DEFAULT` for one that the mesh's default policy filled in.
    """

    policy: TrafficPolicy
    origins: dict[str, Path] = attrs.field(factory=dict)


def _port_entry(policy: TrafficPolicy, port: int) -> tuple[int, PortTrafficPolicy] | None:
    """Return the first entry for the port; later ones for the same port are never looked at."""
    for index, entry in enumerate(policy.port_level_settings):
        if entry is not None and entry.port is not None and entry.port.number == port:
            return index, entry
    return None


def _blocks(
    source: TrafficPolicy | PortTrafficPolicy, names: tuple[str, ...], path: Path
) -> dict[str, tuple[object, Path]]:
    return {name: (getattr(source, name), path) for name in names}


def effective_policy(
    rule: TrafficPolicy | None,
    subset: TrafficPolicy | None,
    port: int | None,
    mesh: TrafficPolicy | None = None,
    *,
    subset_index: int = 0,
) -> EffectivePolicy | None:
    """Return the policy for a service port of a subset, or of the base cluster; None when there is none.

    Args:
        rule: The rule's own policy.
        subset: The subset's.
        port: The service port; None looks at no port entry.
        mesh: The mesh's default policy: fills connectionPool and outlierDetection where both are silent.
        subset_index: Position of the subset in the rule, for the origins.
    """
    blocks: dict[str, tuple[object, Path]] = {}
    if rule is not None:
        path: Path = ("trafficPolicy",)
        found = None if port is None else _port_entry(rule, port)
        if found is None:
            blocks = _blocks(rule, BLOCKS, path)
        else:
            index, entry = found
            # tunnel, proxyProtocol and retryBudget are lost here: a port entry has none of them.
            blocks = _blocks(entry, _PORT_BLOCKS, (*path, "portLevelSettings", index))
    for name in ("connection_pool", "outlier_detection") if mesh is not None else ():
        if blocks.get(name, (None,))[0] is None:
            blocks[name] = (getattr(mesh, name), MESH_DEFAULT)
    if subset is not None:
        path = ("subsets", subset_index, "trafficPolicy")
        found = None if port is None else _port_entry(subset, port)
        if found is None:
            own = _blocks(subset, BLOCKS, path)
            blocks |= {name: block for name, block in own.items() if block[0] is not None}
        else:
            index, entry = found
            blocks |= _blocks(entry, _PORT_BLOCKS, (*path, "portLevelSettings", index))
    present = {name: block for name, block in blocks.items() if block[0] is not None}
    if not present and rule is None and subset is None:
        return None
    return EffectivePolicy(
        policy=TrafficPolicy(**{name: block for name, (block, _) in present.items()}),  # type: ignore[arg-type]
        origins={name: origin for name, (_, origin) in present.items()},
    )
