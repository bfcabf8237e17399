"""All running clusters: takes a configuration snapshot and makes it so.

A cluster whose configuration is the same object is not touched. Ports the role of `ClusterManagerImpl`
(Envoy, source/common/upstream/cluster_manager_impl.cc).
"""

import asyncio
from collections.abc import Iterator, Mapping

from proxy.cluster.cluster import Cluster
from proxy.cluster.cluster_metrics import cluster_metrics
from proxy.cluster.environment import Environment
from proxy.config.cluster_config import ClusterConfig
from proxy.stats import Metric, MetricKind, StatsStore


class ClusterManager:
    """The clusters by name, live."""

    def __init__(self, environment: Environment, stats_store: StatsStore) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.stats_store = stats_store
        self._configs: Mapping[str, ClusterConfig] = {}
        self._uninitialized: dict[str, Cluster] = {}
        self._environment = environment
        self._added = 0
        self._modified = 0
        self._removed = 0
        stats_store.register(self._metrics)

    def apply(self, configs: Mapping[str, ClusterConfig]) -> None:
        """Run exactly these clusters from now on."""
        self.update(configs)
        self.remove_others(configs)

    def update(self, configs: Mapping[str, ClusterConfig]) -> None:
        """Run these clusters, beside those that run already."""
        before, self._configs = self._configs, configs
        # Of very many clusters few differ: this line is what an update costs.
        for name in [name for name, config in configs.items() if before.get(name) is not config]:
            config = configs[name]
            cluster = self.clusters.get(name)
            if cluster is None:
                self.clusters[name] = self._uninitialized[name] = Cluster(config, self._environment)
                self._added += 1
            elif cluster.config is not config and cluster.config != config:
                cluster.update(config)
                self._modified += 1

    def remove_others(self, configs: Mapping[str, ClusterConfig]) -> None:
        """Remove all clusters but these."""
        for name in self.clusters.keys() - configs.keys():
            self.clusters.pop(name).remove()
            self._uninitialized.pop(name, None)
            self._removed += 1

    @property
    def initialized(self) -> bool:
        """Whether every cluster can serve."""
        for name in [name for name, cluster in self._uninitialized.items() if cluster.initialized]:
            del self._uninitialized[name]
        return not self._uninitialized

    async def wait_initialized(self) -> None:
        """Return once every present cluster can serve as it will go on to."""
        await asyncio.gather(*(cluster.wait_initialized() for cluster in self._uninitialized.values()))

    def close(self) -> None:
        """Stop every cluster at once."""
        for cluster in self.clusters.values():
            cluster.close()

    def _metrics(self) -> Iterator[Metric]:
        for name, value in (
            ("cluster_added", self._added),
            ("cluster_modified", self._modified),
            ("cluster_removed", self._removed),
        ):
            full_name = f"cluster_manager.{name}"
            yield Metric(full_name, value, MetricKind.COUNTER, full_name)
        yield Metric(
            "cluster_manager.active_clusters", len(self.clusters), MetricKind.GAUGE, "cluster_manager.active_clusters"
        )
        for cluster in self.clusters.values():
            yield from cluster_metrics(cluster)
