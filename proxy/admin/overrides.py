"""A person's word against the detector's: a host put out, or brought back, by hand, for a time and with a reason.

EJECT marks the host as a configuration does that says UNHEALTHY; UNEJECT takes an ejection off the host before its
time. The detector learns of neither: its counters, its limit and its times go on, and when the override ends its
decision holds again. Everything that shows a host shows its override.
"""

import asyncio
import enum
from collections.abc import Callable, Iterator
from typing import Protocol

import attrs
import structlog

from outlier import TimeSource
from outlier.events import timestamp
from proxy.cluster.cluster import Cluster
from proxy.event_stream import EventStream
from proxy.upstream.host import HealthFlag, Host

log = structlog.get_logger()


class OverrideAction(enum.Enum):
    """What the person wants of the host."""

    EJECT = "eject"
    UNEJECT = "uneject"


class Timer(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Do not call."""
        ...


def _call_later(delay_s: float, callback: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(delay_s, callback)


@attrs.frozen(eq=False)
class Override:
    """One host's override; it ends at `until_ms`, wall clock."""

    cluster: Cluster
    host: Host
    action: OverrideAction
    reason: str
    until_ms: int
    timer: Timer

    @property
    def until(self) -> str:
        """When it ends, in UTC."""
        return timestamp(self.until_ms)

    def __str__(self) -> str:
        return f"{self.action.value} until {self.until}: {self.reason}"

    def is_carried_out(self) -> bool:
        """Whether the host's flags are as this override wants them."""
        if self.action is OverrideAction.EJECT:
            return self.host.has_flag(HealthFlag.FAILED_EDS_HEALTH)
        return not self.host.has_flag(HealthFlag.FAILED_OUTLIER_CHECK)

    def carry_out(self) -> None:
        """Put the host's flags as this override wants them."""
        if self.action is OverrideAction.EJECT:
            self.host.set_flag(HealthFlag.FAILED_EDS_HEALTH)
        else:
            self.host.clear_flag(HealthFlag.FAILED_OUTLIER_CHECK)
        self.cluster.priority_set.refresh_health(self.host.priority)

    def undo(self) -> None:
        """Give the host the flags that configuration and detector say."""
        self.host.update(self.host.endpoint)
        self.host.put_flag(HealthFlag.FAILED_OUTLIER_CHECK, on=self.host.monitor.ejected)
        self.cluster.priority_set.refresh_health(self.host.priority)


class Overrides:
    """All overrides in force, one per host at most.

    Args:
        time_source: For the time at which each ends.
        events: Told of each beginning and end.
        call_later: Seconds and a callback in, a timer out; the event loop's by default.
    """

    def __init__(
        self,
        time_source: TimeSource,
        events: EventStream,
        call_later: Callable[[float, Callable[[], None]], Timer] = _call_later,
    ) -> None:
        self._time_source = time_source
        self._events = events
        self._call_later = call_later
        self._by_host: dict[Host, Override] = {}
        self._listeners: dict[Cluster, Callable[[int], None]] = {}

    def __iter__(self) -> Iterator[Override]:
        return iter(tuple(self._by_host.values()))

    def of(self, host: Host) -> Override | None:
        """Return the host's override, if it has one."""
        return self._by_host.get(host)

    def eject(self, cluster: Cluster, host: Host, *, reason: str, for_ms: int) -> Override:
        """Put a host out for `for_ms`; an override that it has already is replaced."""
        override = self._set(cluster, host, OverrideAction.EJECT, reason, for_ms)
        if host.pool is not None:
            host.pool.drain()
        return override

    def uneject(self, cluster: Cluster, host: Host, *, reason: str, for_ms: int) -> Override | None:
        """Bring a host back, and keep it in for `for_ms` whatever the detector says.

        Return None when only an earlier EJECT had to be taken back.
        """
        before = self.of(host)
        if before is not None and before.action is OverrideAction.EJECT:
            self.end(host, cause=reason)
            if not host.monitor.ejected:
                return None
        return self._set(cluster, host, OverrideAction.UNEJECT, reason, for_ms)

    def reset_backoff(self, cluster: Cluster, host: Host, *, reason: str) -> None:
        """Forget how often a host was ejected before: its present or next ejection lasts the base time."""
        monitor = host.monitor
        monitor.backoff = 1 if monitor.ejected else 0
        facts = {"cluster_name": cluster.name, "upstream_url": host.address, "action": "reset", "reason": reason}
        log.warning("outlier.host_overridden", state="done", **facts)
        self._events.publish("override", state="done", **facts)

    def end(self, host: Host, *, cause: str) -> None:
        """Take the host's override back; nothing happens when it has none."""
        override = self._by_host.get(host)
        if override is not None:
            self._forget(override)
            override.undo()
            self._tell(override, "ended", cause)

    def _set(self, cluster: Cluster, host: Host, action: OverrideAction, reason: str, for_ms: int) -> Override:
        self.end(host, cause="replaced")
        self._listen(cluster)
        timer = self._call_later(for_ms / 1000, lambda: self.end(host, cause="time over"))
        override = Override(cluster, host, action, reason, self._time_source.system_ms() + for_ms, timer)
        self._by_host[host] = override
        override.carry_out()
        self._tell(override, "set", reason)
        return override

    def _listen(self, cluster: Cluster) -> None:
        if cluster not in self._listeners:
            self._listeners[cluster] = lambda _priority: self._hold(cluster)
            cluster.priority_set.add_listener(self._listeners[cluster])

    def _hold(self, cluster: Cluster) -> None:
        """After a rebuild of the cluster's lists: carry out again what configuration or detector changed meanwhile."""
        for override in self:
            if override.cluster is not cluster:
                continue
            if override.host not in cluster.hosts:
                self._forget(override)
                self._tell(override, "ended", "host removed")
            elif not override.is_carried_out():
                override.carry_out()

    def _forget(self, override: Override) -> None:
        del self._by_host[override.host]
        override.timer.cancel()
        cluster = override.cluster
        if all(other.cluster is not cluster for other in self):
            cluster.priority_set.remove_listener(self._listeners.pop(cluster))

    def _tell(self, override: Override, state: str, cause: str) -> None:
        facts = {
            "state": state,
            "cluster_name": override.cluster.name,
            "upstream_url": override.host.address,
            "action": override.action.value,
            "reason": cause,
        }
        log.warning("outlier.host_overridden", **facts)
        self._events.publish("override", until=override.until, **facts)
