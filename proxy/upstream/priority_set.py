"""The hosts of one cluster by priority, and which of them are healthy, degraded or excluded.

Lists are immutable tuples, rebuilt when membership or a health flag changes and never on a request; every list keeps
the order of the configuration. What a list means for traffic belongs to `proxy.load_balancer`.
Ports `HostSetImpl`, `PrioritySetImpl` and the membership statistics of `ClusterImplBase` (Envoy,
source/common/upstream/upstream_impl.cc).
"""

from collections.abc import Callable, Iterable, Sequence

from proxy.config.cluster_config import Locality
from proxy.upstream.host import Host

PriorityListener = Callable[[int], None]


class LocalityHosts:
    """The hosts of one priority in one locality, in the order of the configuration."""

    __slots__ = ("degraded_hosts", "excluded_hosts", "healthy_hosts", "hosts", "locality")

    def __init__(self, locality: Locality, hosts: Iterable[Host]) -> None:
        self.locality = locality
        self.hosts = tuple(hosts)
        self.healthy_hosts, self.degraded_hosts, self.excluded_hosts = _by_health(self.hosts)


class HostSet:
    """The hosts of one priority, 0 being used first.

    An unhealthy host is in `hosts` only; an excluded one is also in `excluded_hosts`, whatever its health.
    """

    __slots__ = ("_localities", "degraded_hosts", "excluded_hosts", "healthy_hosts", "hosts", "priority")

    def __init__(self, priority: int, hosts: Iterable[Host] = ()) -> None:
        self.priority = priority
        self.hosts = tuple(hosts)
        self.refresh()

    def refresh(self) -> None:
        """Sort the hosts by their present health flags."""
        self.healthy_hosts, self.degraded_hosts, self.excluded_hosts = _by_health(self.hosts)
        self._localities: tuple[LocalityHosts, ...] | None = None

    @property
    def localities(self) -> tuple[LocalityHosts, ...]:
        """The same hosts by locality, in the lexical order of region, zone and sub-zone; made when first asked for."""
        if self._localities is None:
            by_locality: dict[Locality, list[Host]] = {}
            for host in self.hosts:
                by_locality.setdefault(host.locality, []).append(host)
            self._localities = tuple(LocalityHosts(locality, by_locality[locality]) for locality in sorted(by_locality))
        return self._localities


class PrioritySet:
    """All hosts of a cluster.

    `host_sets` is indexed by priority and has no gaps: a priority that nobody uses is an empty set. There is always a
    priority 0. `membership_change` counts the updates of one priority that added or removed a
    host, as Envoy's counter of that name does.
    """

    def __init__(self) -> None:
        self.host_sets: tuple[HostSet, ...] = (HostSet(0),)
        self.hosts: tuple[Host, ...] = ()
        self.membership_change = 0
        self._listeners: list[PriorityListener] = []

    @property
    def membership_total(self) -> int:
        """Envoy's gauge: all hosts."""
        return len(self.hosts)

    @property
    def membership_healthy(self) -> int:
        """Envoy's gauge: hosts that are neither unhealthy nor degraded."""
        return sum(len(host_set.healthy_hosts) for host_set in self.host_sets)

    @property
    def membership_degraded(self) -> int:
        """Envoy's gauge: hosts used after the healthy ones."""
        return sum(len(host_set.degraded_hosts) for host_set in self.host_sets)

    @property
    def membership_excluded(self) -> int:
        """Envoy's gauge: hosts outside the denominator of their priority's health."""
        return sum(len(host_set.excluded_hosts) for host_set in self.host_sets)

    def update_hosts(self, hosts: Sequence[Host]) -> tuple[list[Host], list[Host]]:
        """Take `hosts` as the whole membership and return the hosts added and the hosts removed.

        Every priority is rebuilt, since a host that stays may have got another weight. A priority that has lost its
        last host stays as an empty set, so an index into `host_sets` never becomes invalid.
        """
        before, after = set(self.hosts), set(hosts)
        added = [host for host in hosts if host not in before]
        removed = [host for host in self.hosts if host not in after]
        priorities = max((host.priority for host in hosts), default=0) + 1
        by_priority: list[list[Host]] = [[] for _ in range(max(priorities, len(self.host_sets)))]
        for host in hosts:
            by_priority[host.priority].append(host)
        for priority, members in enumerate(by_priority):
            known = self.host_sets[priority].hosts if priority < len(self.host_sets) else ()
            self.membership_change += set(known) != set(members)
        self.hosts = tuple(hosts)
        self.host_sets = tuple(HostSet(priority, members) for priority, members in enumerate(by_priority))
        for priority in range(len(self.host_sets)):
            self._notify(priority)
        return added, removed

    def refresh_health(self, priority: int) -> None:
        """Rebuild the lists of one priority: a health flag of some of its hosts has changed."""
        self.host_sets[priority].refresh()
        self._notify(priority)

    def add_listener(self, listener: PriorityListener) -> None:
        """Call `listener` with the priority after each rebuild; after `update_hosts`, once for each priority."""
        self._listeners.append(listener)

    def remove_listener(self, listener: PriorityListener) -> None:
        """Stop calling `listener`.

        Raises:
            ValueError: It was not added.
        """
        self._listeners.remove(listener)

    def _notify(self, priority: int) -> None:
        for listener in tuple(self._listeners):
            listener(priority)


def _by_health(hosts: tuple[Host, ...]) -> tuple[tuple[Host, ...], tuple[Host, ...], tuple[Host, ...]]:
    """Return the healthy, the degraded and the excluded of `hosts`, most of which have no flag at all."""
    flagged = [host for host in hosts if host.health_flags]
    if not flagged:
        return hosts, (), ()
    return (
        tuple(host for host in hosts if not host.health_flags or host.healthy),
        tuple(host for host in flagged if host.degraded),
        tuple(host for host in flagged if host.excluded),
    )
