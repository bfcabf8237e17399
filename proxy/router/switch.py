"""From one configuration to the next under running requests: clusters first, then routes, then what is left over.

Requests go by the routes of before until each new cluster can serve, or has had its time for that, and by all new
routes from then on; the clusters of before stay as long. A small change is made in the same call. A big one is made in
turns with requests, so that thousands of new services do not hold them up: its routes change in a copy of the table.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping

from proxy.cluster.cluster_manager import ClusterManager
from proxy.config.layered_mapping import differing_keys
from proxy.config.route_config import HostRoutes
from proxy.config.snapshot import ConfigSnapshot
from proxy.router.route_table import Routes, RouteTable
from proxy.turns import Turns

# Envoy's `initial_fetch_timeout`. A cluster whose name server is silent would hold back the routes of all others; in
# Envoy it holds back itself alone.
_WARMING_S = 15.0
_SMALL = 10  # clusters and hosts together; each takes some tenths of a millisecond


class Switch:
    """Makes snapshots so.

    Args:
        cluster_manager: Runs the clusters.
        routes: Holds the route table.
        on_switched: Called with each snapshot that requests go by from then on.
    """

    def __init__(
        self, cluster_manager: ClusterManager, routes: Routes, on_switched: Callable[[ConfigSnapshot], None]
    ) -> None:
        self._cluster_manager = cluster_manager
        self._routes = routes
        self._on_switched = on_switched
        self._hosts: Mapping[str, HostRoutes] = {}  # what the table in force has
        self._task: asyncio.Task[None] | None = None

    def apply(self, snapshot: ConfigSnapshot, *, at_once: bool = False) -> None:
        """Run a snapshot.

        Args:
            snapshot: What shall run.
            at_once: Make even a big change in this call, and wait for no cluster.
        """
        self.close()
        hosts = snapshot.routes.hosts
        size = self._cluster_manager.plan(snapshot.clusters)
        if size <= _SMALL:
            size += len(differing_keys(self._hosts, hosts))
        if at_once or size <= _SMALL:
            _do(self._cluster_manager.update())
            if at_once or self._cluster_manager.initialized:
                _do(self._reroute(hosts, self._routes.table))
                self._hosts = hosts
                _do(self._cluster_manager.remove_others())
                self._on_switched(snapshot)
                return
        self._task = asyncio.get_running_loop().create_task(self._apply_in_turns(snapshot))

    def close(self) -> None:
        """Leave off where we are; what is left undone belongs to the next snapshot."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _apply_in_turns(self, snapshot: ConfigSnapshot) -> None:
        turns = Turns()
        await turns.take(self._cluster_manager.update())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WARMING_S):
                await self._cluster_manager.wait_initialized()
        table = self._routes.table.copy()
        await turns.take(self._reroute(snapshot.routes.hosts, table))
        self._routes.table, self._hosts = table, snapshot.routes.hosts
        await turns.take(self._cluster_manager.remove_others())
        self._on_switched(snapshot)

    def _reroute(self, hosts: Mapping[str, HostRoutes], table: RouteTable) -> Iterator[None]:
        for host in differing_keys(self._hosts, hosts):
            table.replace(host, hosts.get(host))
            yield


def _do(steps: Iterator[None]) -> None:
    for _ in steps:
        pass
