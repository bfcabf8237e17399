"""Who this sidecar is: what its view of the configuration depends on."""

from collections.abc import Mapping

import attrs

from proxy.config.cluster_config import Locality

LOCALITY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.istio.io/subzone")
NETWORK_LABEL = "topology.istio.io/network"


def located_labels(labels: Mapping[str, str], locality: Locality) -> Mapping[str, str]:
    """Return the labels with those that Istio derives from a locality; the same mapping when there is none."""
    parts = zip(LOCALITY_LABELS, (locality.region, locality.zone, locality.sub_zone), strict=True)
    derived = {label: part for label, part in parts if part}
    return {**labels, **derived} if derived else labels


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

    @property
    def located_labels(self) -> Mapping[str, str]:
        """The labels that failoverPriority compares: the sidecar's own, and those of its locality."""
        return located_labels(self.labels, self.locality)
