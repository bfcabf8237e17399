"""From what sources deliver to what the data plane runs: store, builder, apply.

Everything happens in one call and on one thread, so the data plane sees either the old state or the new one. What is
refused never reaches it: the last good version stays, and the refusal is logged and listed.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import attrs
import structlog

from proxy.config.issue import Issue, Severity
from proxy.config.mesh_config import MeshConfig
from proxy.config.node import NodeConfig
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.resource import Change, Contents
from proxy.config.service_clusters import ConversionContext
from proxy.config.snapshot import ConfigSnapshot
from proxy.config.snapshot_builder import SnapshotBuilder
from proxy.config.store import Store

log = structlog.get_logger()


@attrs.frozen(kw_only=True)
class SourceStatus:
    """One source, as of now.

    `resources` counts those in force, by collection. `issues` are all findings on what it delivered last; `rejected`
    says whether any of them keeps an older version in force, and `stale_since_ms` (wall clock) since when.
    """

    name: str
    resources: Mapping[str, int]
    issues: tuple[Issue, ...]
    last_update_ms: int
    stale_since_ms: int | None

    @property
    def rejected(self) -> tuple[Issue, ...]:
        """The findings that refuse something."""
        return tuple(issue for issue in self.issues if issue.severity is Severity.ERROR)


@attrs.frozen(kw_only=True)
class PipelineStatus:
    """The configuration as a whole: the running snapshot's version, and each source."""

    version: str
    clusters: int
    virtual_hosts: int
    sources: tuple[SourceStatus, ...]


@attrs.define
class _SourceState:
    last_update_ms: int
    stale_since_ms: int | None = None


class ConfigPipeline:
    """Takes parts of sources, keeps the good versions, and hands each new snapshot to `apply`.

    Args:
        node: Who the sidecar is.
        istio_release: Whose conversion.
        apply: Called with every snapshot that differs from the one before; must not fail.
        mesh: Mesh-wide defaults.
        system_ms: Wall clock in milliseconds, for the status.
    """

    def __init__(
        self,
        node: NodeConfig,
        istio_release: IstioRelease = CURRENT,
        apply: Callable[[ConfigSnapshot], None] = lambda _snapshot: None,
        *,
        mesh: MeshConfig | None = None,
        system_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._apply = apply
        self._system_ms = system_ms
        self._store = Store()
        self._builder = SnapshotBuilder(ConversionContext(node=node, mesh=mesh or MeshConfig(), release=istio_release))
        self._sources: dict[str, _SourceState] = {}

    @property
    def snapshot(self) -> ConfigSnapshot:
        """What the data plane runs."""
        return self._builder.snapshot

    @property
    def builder(self) -> SnapshotBuilder:
        """The indexes behind the snapshot, for `outlier explain`."""
        return self._builder

    def update(self, source: str, parts: Mapping[str, Contents], removed: Iterable[str] = ()) -> list[Issue]:
        """Replace parts of a source and drop others, then apply the outcome at once; return what is refused.

        Args:
            source: Name of the source; sources do not touch each other's parts.
            parts: What was read, by name of the part (a file, a collection).
            removed: Parts that are gone, with all they brought.
        """
        changes: list[Change] = []
        for part in removed:
            changes += self._store.remove(source, part)
        for part, contents in parts.items():
            changes += self._store.put(source, part, contents)
        errors = [issue for contents in parts.values() for issue in contents.errors]
        self._note(source)
        before = self._builder.snapshot
        snapshot = self._builder.update(changes) if changes else before
        for issue in errors:
            log.warning(
                "config.rejected",
                source=issue.source or source,
                resource=issue.resource,
                line=issue.line,
                error=str(issue),
            )
        if snapshot is not before:
            self._apply(snapshot)
            log.info(
                "config.applied",
                source=source,
                version=snapshot.version,
                resources_changed=len(changes),
                clusters_changed=len(snapshot.changed),
                clusters=len(snapshot.clusters),
            )
        return errors

    def _note(self, source: str) -> None:
        now_ms = self._system_ms()
        state = self._sources.setdefault(source, _SourceState(now_ms))
        state.last_update_ms = now_ms
        state.stale_since_ms = (state.stale_since_ms or now_ms) if self._store.has_refused(source) else None

    def status(self) -> PipelineStatus:
        """Return what is running and what is refused."""
        snapshot = self._builder.snapshot
        return PipelineStatus(
            version=snapshot.version,
            clusters=len(snapshot.clusters),
            virtual_hosts=len(snapshot.routes.virtual_hosts),
            sources=tuple(
                SourceStatus(
                    name=name,
                    resources=Counter(key[0] for key in self._store.keys(name)),
                    issues=tuple(self._store.issues(name)),
                    last_update_ms=state.last_update_ms,
                    stale_since_ms=state.stale_since_ms,
                )
                for name, state in self._sources.items()
            ),
        )
