"""From what sources deliver to what the data plane is told to run: store, debounce, builder, apply.

What is refused never reaches the data plane: the last good version stays, and the refusal is logged and listed. The
data plane is told of whole states only; while a new one is built in slices, it runs the old one. It may take its time
to switch, so what is told here can be ahead of what is in force.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
import structlog

from proxy.config.issue import Issue, Severity
from proxy.config.mesh_config import MeshConfig
from proxy.config.node import NodeConfig
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.resource import Change, Contents, Key, Resource
from proxy.config.service_clusters import ConversionContext
from proxy.config.service_entry import ServiceEntry, WorkloadEntry
from proxy.config.snapshot import ConfigSnapshot
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.config.store import Store
from proxy.push.debounce import Batch, Debounce, DebounceSettings
from proxy.push.metrics import PushMetrics
from proxy.push.request import PushRequest

log = structlog.get_logger()

_SLICE_NS = 3_000_000  # building goes on for about this long before requests get a turn


@attrs.frozen(kw_only=True)
class ConnectionStatus:
    """The connection of a source that has one, as of now.

    `since_ms` (wall clock) is when it came up, or when it was lost. `error` says why it was; `last_requests` are
    the latest ones, for people.
    """

    connected: bool
    synced: bool
    since_ms: int
    reconnections: int
    error: str
    last_requests: tuple[Mapping[str, object], ...]


@attrs.frozen(kw_only=True)
class SourceStatus:
    """One source, as of now.

    `resources` counts those in force, by collection. `issues` are all findings on what it delivered last; `rejected`
    says whether any of them keeps an older version in force, and `stale_since_ms` (wall clock) since when that is so,
    or since when the source cannot be reached. `connection` is None for files.
    """

    name: str
    resources: Mapping[str, int]
    issues: tuple[Issue, ...]
    last_update_ms: int
    stale_since_ms: int | None
    connection: ConnectionStatus | None = None

    @property
    def rejected(self) -> tuple[Issue, ...]:
        """The findings that refuse something."""
        return tuple(issue for issue in self.issues if issue.severity is Severity.ERROR)


@attrs.frozen(kw_only=True)
class PipelineStatus:
    """The configuration as a whole: the snapshot that the data plane has been told to run, and each source."""

    version: str
    clusters: int
    virtual_hosts: int
    sources: tuple[SourceStatus, ...]


@attrs.define
class _SourceState:
    last_update_ms: int
    stale_since_ms: int | None = None
    refused: dict[str, tuple[Issue, ...]] = attrs.field(factory=dict)  # by part
    connection: Callable[[], ConnectionStatus] | None = None


class ConfigPipeline:
    """Takes parts of sources, keeps the good versions, and hands each new snapshot to `apply`.

    Until `debounce` is called every update is applied at once, in the same call.

    Args:
        node: Who the sidecar is.
        istio_release: Whose conversion.
        apply: Called with every snapshot that differs from the one before; must not fail.
        mesh: Mesh-wide defaults.
        system_ms: Wall clock in milliseconds, for the status.
        monotonic_ms: Monotonic clock in milliseconds, for what is measured.
    """

    def __init__(
        self,
        node: NodeConfig,
        istio_release: IstioRelease = CURRENT,
        apply: Callable[[ConfigSnapshot], None] = lambda _snapshot: None,
        *,
        mesh: MeshConfig | None = None,
        system_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.metrics = PushMetrics()
        self._apply = apply
        self._system_ms = system_ms
        self._monotonic_ms = monotonic_ms
        self._store = Store()
        self._builder = SnapshotBuilder(ConversionContext(node=node, mesh=mesh or MeshConfig(), release=istio_release))
        self._snapshot = self._built = self._builder.snapshot
        self._sources: dict[str, _SourceState] = {}
        self._changes: dict[Key, Change] = {}
        self._changed: set[str] = set()  # clusters, by steps of building that the data plane has not been handed yet
        self._debounce: Debounce | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._push: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def snapshot(self) -> ConfigSnapshot:
        """What the data plane has been told to run."""
        return self._snapshot

    @property
    def store(self) -> Store:
        """The resources behind the snapshot."""
        return self._store

    @property
    def builder(self) -> SnapshotBuilder:
        """The indexes behind the snapshot, for `outlier explain`."""
        return self._builder

    def debounce(self, settings: DebounceSettings) -> None:
        """Apply together what comes in quick succession, from now on; needs a running event loop."""
        self._debounce = Debounce(settings)

    async def wait_applied(self) -> None:
        """Return once nothing waits to be applied."""
        await self._idle.wait()

    async def close(self) -> None:
        """Apply nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._push is not None:
            self._push.cancel()
            await asyncio.gather(self._push, return_exceptions=True)

    def attach(self, source: str, connection: Callable[[], ConnectionStatus]) -> None:
        """List a source from now on, with the state of its connection."""
        self._sources.setdefault(source, _SourceState(self._system_ms())).connection = connection

    def update(
        self,
        source: str,
        parts: Mapping[str, Contents],
        removed: Iterable[str] = (),
        arrived_ms: int | None = None,
    ) -> list[Issue]:
        """Replace parts of a source and drop others; return what is refused.

        Args:
            source: Name of the source; sources do not touch each other's parts.
            parts: What was read, by name of the part (a file, a resource).
            removed: Parts that are gone, with all they brought.
            arrived_ms: When the first of it arrived, monotonic; None for now.
        """
        now_ms = self._monotonic_ms()
        gone = tuple(removed)
        changes: list[Change] = []
        for part in gone:
            changes += self._store.remove(source, part)
        for part, contents in parts.items():
            changes += self._store.put(source, part, contents)
        errors = [issue for contents in parts.values() for issue in contents.errors]
        self._note(source, parts, gone)
        if changes:
            start_ms = now_ms if arrived_ms is None else arrived_ms
            self.metrics.stored(len(changes), now_ms - start_ms)
            self._merge(changes)
            self._pushed(PushRequest(start_ms=start_ms, reasons={source: 1}, endpoints_only=_endpoints_only(changes)))
        return errors

    def _note(self, source: str, parts: Mapping[str, Contents], removed: Iterable[str]) -> None:
        now_ms = self._system_ms()
        state = self._sources.setdefault(source, _SourceState(now_ms))
        state.last_update_ms = now_ms
        for part in removed:
            state.refused.pop(part, None)
        for part, contents in parts.items():
            errors = contents.errors
            if not errors:
                state.refused.pop(part, None)
            elif state.refused.get(part) != errors:  # said once, however often it is sent
                state.refused[part] = errors
                for issue in errors:
                    log.warning(
                        "config.rejected",
                        source=issue.source or source,
                        resource=issue.resource,
                        line=issue.line,
                        error=str(issue),
                    )
        state.stale_since_ms = (state.stale_since_ms or now_ms) if state.refused else None

    # Pushing

    def _pushed(self, request: PushRequest) -> None:
        if self._debounce is None:
            self._build_and_finish(request)
            return
        direct = self._debounce.on_event(request, self._monotonic_ms())
        if direct is not None:
            self._build_and_finish(direct)
        self._set_timer()

    def _merge(self, changes: Iterable[Change]) -> None:
        """Let what waits to be built lead from the oldest state to the newest; what came back to it does not wait."""
        for old, new in changes:
            key = (new or old).key  # type: ignore[union-attr]
            waiting = self._changes.pop(key, None)
            oldest = waiting[0] if waiting is not None else old
            if oldest != new:
                self._changes[key] = (oldest, new)

    def _take(self) -> list[Change]:
        changes, self._changes = list(self._changes.values()), {}
        return changes

    def _set_timer(self) -> None:
        assert self._debounce is not None
        if self._debounce.idle:
            self._idle.set()
        else:
            self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._debounce.deadline_ms
        if deadline_ms is not None:
            wait_ms = max(deadline_ms - self._monotonic_ms(), 0)
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        assert self._debounce is not None
        self._timer = None
        now_ms = self._monotonic_ms()
        deadline_ms = self._debounce.deadline_ms
        if deadline_ms is not None and now_ms < deadline_ms:  # the loop's clock is finer than ours
            self._set_timer()
            return
        self._start(self._debounce.on_timer(now_ms))

    def _start(self, batch: Batch | None) -> None:
        if batch is not None:
            self._push = asyncio.get_running_loop().create_task(self._run(batch))
        self._set_timer()

    async def _run(self, batch: Batch) -> None:
        assert self._debounce is not None
        start_ms = self._monotonic_ms()
        self.metrics.debounced(start_ms - batch.request.start_ms)
        changes = self._take()
        count, position = 1, 0
        while position < len(changes):
            slice_start_ns = time.monotonic_ns()
            self._build(changes[position : position + count])
            position += count
            took_ns = time.monotonic_ns() - slice_start_ns
            count = count * 2 if took_ns * 2 < _SLICE_NS else max(count // 2, 1)
            await asyncio.sleep(0)
        self._finish(batch.request, len(changes), start_ms)
        self.metrics.pushed(self._monotonic_ms() - batch.request.start_ms)
        self._start(self._debounce.on_push_finished(self._monotonic_ms()))

    def _build_and_finish(self, request: PushRequest) -> None:
        changes = self._take()
        self._build(changes)
        self._finish(request, len(changes))

    def _build(self, changes: Sequence[Change]) -> None:
        """Bring the builder up to date."""
        before = self._builder.snapshot
        snapshot = self._builder.update(changes)
        if snapshot is not before:
            self._changed |= snapshot.changed

    def _finish(self, request: PushRequest, count: int, start_ms: int | None = None) -> None:
        """Hand what was built to the data plane, with all that has changed since it was last handed something."""
        built = self._builder.snapshot
        built_ms = self._monotonic_ms()
        if built is self._built:
            return
        self._built = built
        changed, self._changed = frozenset(self._changed), set()
        self._snapshot = snapshot = attrs.evolve(built, changed=changed)
        self._apply(snapshot)
        now_ms = self._monotonic_ms()
        began_ms = built_ms if start_ms is None else start_ms
        self.metrics.applied(
            build_ms=built_ms - began_ms,
            apply_ms=now_ms - built_ms,
            total_ms=now_ms - request.start_ms,
            reasons=request.reasons,
        )
        log.info(
            "config.applied",
            source=", ".join(request.reasons),
            version=snapshot.version,
            resources_changed=count,
            clusters_changed=len(changed),
            clusters=len(snapshot.clusters),
            duration_ms=now_ms - request.start_ms,
        )

    def status(self) -> PipelineStatus:
        """Return what the data plane has been told to run, and what is refused."""
        snapshot = self._snapshot
        return PipelineStatus(
            version=snapshot.version,
            clusters=len(snapshot.clusters),
            virtual_hosts=sum(len(routes.virtual_hosts) for routes in snapshot.routes.hosts.values()),
            sources=tuple(self._source_status(name, state) for name, state in self._sources.items()),
        )

    def _source_status(self, name: str, state: _SourceState) -> SourceStatus:
        connection = state.connection() if state.connection is not None else None
        stale = [since for since in (state.stale_since_ms,) if since is not None]
        if connection is not None and not connection.connected:
            stale.append(connection.since_ms)
        return SourceStatus(
            name=name,
            resources=Counter(key[0] for key in self._store.keys(name)),
            issues=tuple(self._store.issues(name)),
            last_update_ms=state.last_update_ms,
            stale_since_ms=min(stale, default=None),
            connection=connection,
        )


def _endpoints_only(changes: Iterable[Change]) -> bool:
    """Whether nothing but endpoints differs: WorkloadEntries, or the endpoints of ServiceEntries."""
    return all(_is_endpoints(old, new) for old, new in changes)


def _is_endpoints(old: Resource | None, new: Resource | None) -> bool:
    body = (new or old).body  # type: ignore[union-attr]
    if isinstance(body, WorkloadEntry):
        return True
    if old is None or new is None or not isinstance(body, ServiceEntry) or not isinstance(old.body, ServiceEntry):
        return False
    return attrs.evolve(old.body, endpoints=body.endpoints) == body and old.labels == new.labels
