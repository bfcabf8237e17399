"""What the admin endpoints may see and do; whoever runs the sidecar fills it in."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from outlier import Runtime, TimeSource
from proxy.admin.overrides import Overrides
from proxy.cluster.cluster_manager import ClusterManager
from proxy.config.address import Address
from proxy.config.bootstrap import Bootstrap
from proxy.config.issue import Issue
from proxy.config.snapshot import ConfigSnapshot
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.event_stream import EventStream
from proxy.stats import StatsStore
from proxy.upstream.tls import LoadedTls


class ServerState(enum.Enum):
    """Envoy's `ServerInfo.State`; `/ready` answers 200 in `LIVE` only."""

    LIVE = "LIVE"
    DRAINING = "DRAINING"
    PRE_INITIALIZING = "PRE_INITIALIZING"
    INITIALIZING = "INITIALIZING"


class ConnectionStatus(Protocol):
    """The connection to a source that is a server."""

    @property
    def connected(self) -> bool:
        """Whether a stream is open."""
        ...

    @property
    def synced(self) -> bool:
        """Whether every collection has come once."""
        ...

    @property
    def since_ms(self) -> int:
        """Since when that is so; wall clock."""
        ...

    @property
    def reconnections(self) -> int:
        """Streams opened so far."""
        ...

    @property
    def error(self) -> str:
        """Why the last stream ended."""
        ...

    @property
    def last_requests(self) -> Sequence[Mapping[str, object]]:
        """What was asked and answered last."""
        ...


class SourceStatus(Protocol):
    """One source of configuration."""

    @property
    def name(self) -> str:
        """Name of the source."""
        ...

    @property
    def resources(self) -> Mapping[str, int]:
        """Resources in force, by collection."""
        ...

    @property
    def issues(self) -> Sequence[Issue]:
        """Findings on what it delivered last."""
        ...

    @property
    def last_update_ms(self) -> int:
        """Wall clock."""
        ...

    @property
    def stale_since_ms(self) -> int | None:
        """Since when an older version has stayed in force; wall clock."""
        ...

    @property
    def connection(self) -> ConnectionStatus | None:
        """Its connection; None for files."""
        ...


class ConfigStatus(Protocol):
    """The configuration as a whole."""

    @property
    def version(self) -> str:
        """Of the snapshot in force."""
        ...

    @property
    def sources(self) -> Sequence[SourceStatus]:
        """Each source."""
        ...


@attrs.frozen
class ListenerStatus:
    """A listener that accepts: its name, and the address with the port it really has."""

    name: str
    address: Address


def _unknown() -> None:
    """Return the status of a configuration that has no sources."""


@attrs.define(kw_only=True, eq=False)
class AdminContext:
    """Everything an endpoint may use.

    Attributes:
        bootstrap: The options the sidecar was started with.
        cluster_manager: The running clusters.
        stats_store: All statistics.
        snapshot: The configuration in force.
        state: The sidecar's state.
        listeners: The listeners that accept.
        runtime: The overrides that `/runtime_modify` changes.
        time_source: For uptime; `started_ms` is the monotonic time of the start.
        version: The version of the distribution.
        quit: End the sidecar, as SIGTERM does.
        drain_listeners: Stop accepting, at once (False) or after the drain time (True); connections go on.
        fail_health: Report DRAINING on `/ready` and let responses end their connections (True), or no more (False).
        reset_counters: Set every counter to 0.
        reopen_logs: Reopen access log and event log, which somebody may have renamed.
        events: What happens, for `/events`.
        config_status: The configuration's sources; returns None when it came from a program.
        config_builder: What made the configuration, so that settings can be traced to their rules; None as above.
        certificates: What TLS is made of, by context, the listeners' first.
        overrides: Hosts put out or brought back by hand.
    """

    bootstrap: Bootstrap
    cluster_manager: ClusterManager
    stats_store: StatsStore
    snapshot: Callable[[], ConfigSnapshot]
    state: Callable[[], ServerState]
    listeners: Callable[[], Sequence[ListenerStatus]]
    runtime: Runtime
    time_source: TimeSource
    started_ms: int
    version: str
    quit: Callable[[], None]
    drain_listeners: Callable[[bool], None]
    fail_health: Callable[[bool], None]
    reset_counters: Callable[[], None]
    reopen_logs: Callable[[], None]
    events: EventStream = attrs.field(
        default=attrs.Factory(lambda self: EventStream(self.time_source), takes_self=True)
    )
    config_status: Callable[[], ConfigStatus | None] = _unknown
    config_builder: SnapshotBuilder | None = None
    certificates: Callable[[], Sequence[LoadedTls]] = list
    overrides: Overrides = attrs.field(
        default=attrs.Factory(lambda self: Overrides(self.time_source, self.events), takes_self=True)
    )
