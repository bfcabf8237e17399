"""Who this sidecar is: what its view of the configuration depends on."""

from collections.abc import Mapping

import attrs

from proxy.config.cluster_config import Locality


@attrs.frozen(kw_only=True)
class NodeConfig:
    """Identity of the sidecar.

    `namespace` decides which exported resources it sees and completes short names; `labels` are matched by
    workloadSelector and failoverPriority; `locality` by locality load balancing. `domain` is the cluster's DNS suffix.
    Rules in `root_namespace` are defaults for every other namespace.
    """

    id: str = ""
    namespace: str = "default"
    labels: Mapping[str, str] = attrs.field(factory=dict)
    locality: Locality = Locality()  # noqa: RUF009 - frozen
    domain: str = "cluster.local"
    root_namespace: str = "istio-system"
