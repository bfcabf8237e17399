"""One consistent state of everything the data plane runs on."""

from collections.abc import Mapping

import attrs

from proxy.config.cluster_config import ClusterConfig
from proxy.config.route_config import RouteConfiguration


@attrs.frozen(kw_only=True)
class ConfigSnapshot:
    """Clusters by name, and the routes of the outbound listener.

    A new state is a new object; clusters and virtual hosts that did not change are the same objects in both, so `is`
    tells. `changed` names the clusters that differ from the snapshot before: added, changed or removed.
    """

    version: str
    clusters: Mapping[str, ClusterConfig]
    routes: RouteConfiguration
    changed: frozenset[str] = frozenset()


EMPTY_SNAPSHOT = ConfigSnapshot(version="0", clusters={}, routes=RouteConfiguration())
