"""From one configuration to the next under running requests: clusters first, then routes, then what is left over.

Requests go by the routes of before until each new cluster can serve, or has had its time for that, and by all new
routes from then on; the clusters of before stay as long. A small change is made in the same call. A big one is made in
turns with requests, so that thousands of new services do not hold them up: its routes change in a copy of the table.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import attrs

from proxy.cluster.cluster_manager import ClusterManager
from proxy.config.layered_mapping import differing_keys
from proxy.config.route_config import HostRoutes
from proxy.config.snapshot import ConfigSnapshot
from proxy.router.route_table import Routes, RouteTable
from proxy.turns import Turns

_SMALL = 10  # clusters and hosts together; each takes some tenths of a millisecond


class Switch:
    """Makes snapshots so.

    A newer snapshot takes the place of one that waits for its clusters. One that comes while routes change in the copy
    has to wait until they are in force, or steady small changes would keep a big one from ever getting there.

    Args:
        cluster_manager: Runs the clusters.
        routes: Holds the route table.
        on_switched: Called with each snapshot that requests go by from then on; its `changed` counts from the one that
            they went by before.
    """

    def __init__(
        self, cluster_manager: ClusterManager, routes: Routes, on_switched: Callable[[ConfigSnapshot], None]
    ) -> None:
        self._cluster_manager = cluster_manager
        self._routes = routes
        self._on_switched = on_switched
        self._hosts: Mapping[str, HostRoutes] = {}  # what the table in force has
        self._task: asyncio.Task[None] | None = None
        self._coming: ConfigSnapshot | None = None  # what is under way, or was left off
        self._rerouting = False  # whether its routes change in a copy
        self._next: ConfigSnapshot | None = None  # what came since they began to

    def apply(self, snapshot: ConfigSnapshot, *, at_once: bool = False) -> None:
        """Run a snapshot.

        Args:
            snapshot: What shall run.
            at_once: Make even a big change in this call, and wait for no cluster.
        """
        if self._rerouting and not at_once:
            self._next = _in_place_of(self._next, snapshot)
            return
        self.close()
        self._coming = snapshot = _in_place_of(self._coming, snapshot)
        hosts = snapshot.routes.hosts
        size = self._cluster_manager.plan(snapshot.clusters)
        if size <= _SMALL:
            size += len(differing_keys(self._hosts, hosts))
        if at_once or size <= _SMALL:
            _do(self._cluster_manager.update())
            if at_once or self._cluster_manager.initialized:
                _do(self._reroute(hosts, self._routes.table))
                self._arrive(snapshot)
                _do(self._cluster_manager.remove_others())
                return
        self._task = asyncio.get_running_loop().create_task(self._apply_in_turns(snapshot))

    def close(self) -> None:
        """Leave off where we are; what is left undone belongs to the next snapshot."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._next is not None:
            self._coming, self._next = _in_place_of(self._coming, self._next), None
        self._rerouting = False

    async def _apply_in_turns(self, snapshot: ConfigSnapshot) -> None:
        turns = Turns()
        await self._lead_to(snapshot, turns)
        while self._next is not None:
            self._coming, self._next = self._next, None
            self._cluster_manager.plan(self._coming.clusters)
            await self._lead_to(self._coming, turns)
        await turns.take(self._cluster_manager.remove_others())

    async def _lead_to(self, snapshot: ConfigSnapshot, turns: Turns) -> None:
        """Let requests go by a snapshot whose clusters are planned."""
        await turns.take(self._cluster_manager.update())
        await self._cluster_manager.wait_initialized()
        table = self._routes.table.copy()
        self._rerouting = True
        try:
            await turns.take(self._reroute(snapshot.routes.hosts, table))
        finally:
            self._rerouting = False
        self._routes.table = table
        self._arrive(snapshot)

    def _reroute(self, hosts: Mapping[str, HostRoutes], table: RouteTable) -> Iterator[None]:
        for host in differing_keys(self._hosts, hosts):
            table.replace(host, hosts.get(host))
            yield

    def _arrive(self, snapshot: ConfigSnapshot) -> None:
        self._hosts, self._coming = snapshot.routes.hosts, None
        self._on_switched(snapshot)


def _in_place_of(skipped: ConfigSnapshot | None, snapshot: ConfigSnapshot) -> ConfigSnapshot:
    """Return the snapshot with what changed on the way to it from the one before the skipped one."""
    return snapshot if skipped is None else attrs.evolve(snapshot, changed=skipped.changed | snapshot.changed)


def _do(steps: Iterator[None]) -> None:
    for _ in steps:
        pass
