"""All running clusters: takes what shall run and makes it so, one cluster after the other.

A cluster whose configuration is the same object is not touched, not even looked at. Ports the role of
`ClusterManagerImpl` (Envoy, source/common/upstream/cluster_manager_impl.cc).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Mapping

from proxy.cluster.cluster import Cluster
from proxy.cluster.cluster_metrics import cluster_metrics
from proxy.cluster.environment import Environment
from proxy.config.cluster_config import ClusterConfig
from proxy.config.layered_mapping import differing_keys
from proxy.stats import Metric, MetricKind, StatsStore

# Envoy's `initial_fetch_timeout`. A cluster whose name server is silent would hold back the routes of all others; in
# Envoy it holds back itself alone.
_WARMING_S = 15.0


class ClusterManager:
    """The clusters by name, live."""

    def __init__(self, environment: Environment, stats_store: StatsStore) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.stats_store = stats_store
        self._configs: Mapping[str, ClusterConfig] = {}
        self._waiting: deque[str] = deque()  # names of clusters that have not been looked at since the plan changed
        self._leaving: dict[str, None] = {}
        self._uninitialized: dict[str, tuple[Cluster, float]] = {}  # with the loop's time until which it is waited for
        self._environment = environment
        self._added = 0
        self._modified = 0
        self._removed = 0
        stats_store.register(self._metrics)

    def plan(self, configs: Mapping[str, ClusterConfig]) -> int:
        """Say which clusters shall run, for `update` and `remove_others`; return how many that may concern."""
        self._waiting.extend(differing_keys(self._configs, configs))
        self._configs = configs
        return len(self._waiting) + len(self._leaving)

    def update(self) -> Iterator[None]:
        """Run the planned clusters beside those that run already; yields after each, and goes on when called anew."""
        while self._waiting:
            self._look_at(self._waiting.popleft())
            yield

    def _look_at(self, name: str) -> None:
        config, cluster = self._configs.get(name), self.clusters.get(name)
        if config is None:
            if cluster is not None:
                self._leaving[name] = None
            return
        self._leaving.pop(name, None)
        if cluster is None:
            cluster = self.clusters[name] = Cluster(config, self._environment)
            self._uninitialized[name] = cluster, self._environment.loop.time() + _WARMING_S
            self._added += 1
        elif cluster.config is not config and cluster.config != config:
            cluster.update(config)
            self._modified += 1

    def remove_others(self) -> Iterator[None]:
        """Remove the clusters that are planned no more and that `update` has seen; yields after each."""
        while self._leaving:
            name, _ = self._leaving.popitem()
            self.clusters.pop(name).remove()
            self._uninitialized.pop(name, None)
            self._removed += 1
            yield

    @property
    def initialized(self) -> bool:
        """Whether every cluster that is to stay can serve, or has had its time for that."""
        now = self._environment.loop.time()
        for name, (cluster, until) in tuple(self._uninitialized.items()):
            if cluster.initialized or until <= now:
                del self._uninitialized[name]
        return self._uninitialized.keys() <= self._leaving.keys()

    async def wait_initialized(self) -> None:
        """Return once every cluster that is to stay can serve, or has had its time for that."""
        if not self.initialized:
            waiting = [self._uninitialized[name] for name in self._uninitialized.keys() - self._leaving.keys()]
            await asyncio.gather(*(_wait_until(until, cluster) for cluster, until in waiting))

    async def wait_all_initialized(self) -> None:
        """Return once every cluster can serve, those that come meanwhile too, however long that takes."""
        while waiting := [cluster for cluster in self.clusters.values() if not cluster.initialized]:
            await asyncio.gather(*(cluster.wait_initialized() for cluster in waiting))

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


async def _wait_until(end_s: float, cluster: Cluster) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(end_s):
            await cluster.wait_initialized()
