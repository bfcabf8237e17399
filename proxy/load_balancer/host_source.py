"""The lists of hosts that picks are made from, with the state that a policy keeps for each.

A source outlives the changes of its list: Envoy keeps one for each priority and kind of list, so round robin goes on
where it was. Which source a pick uses belongs to `list_load_balancer`.
Ports the host sources and schedulers of `EdfLoadBalancerBase` (Envoy,
source/extensions/load_balancing_policies/common/load_balancer_impl.cc).
"""

import abc
import operator
from collections.abc import Callable, Sequence

from proxy.load_balancer.edf import EdfScheduler
from proxy.upstream.host import Host


class HostSource(abc.ABC):
    """A list of hosts; `panic` marks the list of all hosts, which only a panicking priority uses."""

    __slots__ = ("hosts", "panic")

    def __init__(self, *, panic: bool = False) -> None:
        self.panic = panic
        self.hosts: tuple[Host, ...] = ()

    def reset(self, hosts: tuple[Host, ...]) -> None:
        """Take a new list."""
        self.hosts = hosts

    def prepare(self) -> None:  # noqa: B027 - a plain list is always ready
        """Get ready for picks: the list is new, and traffic may come to it now."""

    @abc.abstractmethod
    def pick(self, number: int) -> Host | None:
        """Return the next host, None when the list is empty; `number` is the one that chose the priority."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Say how the next host is chosen."""


class ScheduledSource(HostSource):
    """A list that runs on an EDF schedule while its weights differ or grow.

    Args:
        weight: Weight of a host at this moment, more than 0.
        in_slow_start: Whether equal weights are to be scheduled too.
        seed: 64 bits; the low half is how many picks a schedule has behind it at its start, each time it starts.
        panic: As in `HostSource`.
    """

    __slots__ = ("_in_slow_start", "_prepared", "_scheduler", "_seed", "_weight")

    def __init__(
        self, weight: Callable[[Host], float], in_slow_start: Callable[[], bool], seed: int, *, panic: bool
    ) -> None:
        super().__init__(panic=panic)
        self._weight = weight
        self._in_slow_start = in_slow_start
        self._seed = seed
        self._scheduler: EdfScheduler[Host] | None = None
        self._prepared = False

    def reset(self, hosts: tuple[Host, ...]) -> None:
        """Take a new list and forget the schedule of the old one."""
        self.hosts = hosts
        self._scheduler = None
        self._prepared = False

    def prepare(self) -> None:
        """Start the schedule from the seed, if the list needs one and has none.

        Apart from `reset`, since a schedule of 10,000 hosts costs milliseconds and most lists get no traffic.
        """
        if self._prepared:
            return
        self._prepared = True
        hosts = self.hosts
        if len(hosts) > 1 and (self._in_slow_start() or len({host.weight for host in hosts}) > 1):
            self._scheduler = EdfScheduler(hosts, self._weight, self._seed & 0xFFFF_FFFF)

    def pick(self, number: int) -> Host | None:
        """Return the host that is due, or the policy's choice among equals."""
        scheduler = self._scheduler
        if scheduler is not None:
            return scheduler.pick()
        return self.pick_equal(self.hosts) if self.hosts else None

    def describe(self) -> str:
        """Say whether a schedule or the policy's rule for equal weights chooses."""
        return "earliest deadline first, by weight" if self._scheduler is not None else self.describe_equal()

    @abc.abstractmethod
    def describe_equal(self) -> str:
        """Say how `pick_equal` chooses."""

    @abc.abstractmethod
    def pick_equal(self, hosts: tuple[Host, ...]) -> Host:
        """Return one of `hosts`, at least one, whose weights are equal."""


class LocalitySource(HostSource):
    """Localities scheduled by their effective weights, each with a list of its own.

    Args:
        localities: `(source, effective weight)` of each locality that gets traffic; at least one.
        seed: As in `ScheduledSource`.
    """

    __slots__ = ("_scheduler", "localities")

    def __init__(self, localities: Sequence[tuple[HostSource, float]], seed: int) -> None:
        super().__init__()
        self.localities = tuple(localities)
        self.hosts = tuple(host for source, _ in localities for host in source.hosts)
        self._scheduler = EdfScheduler(self.localities, operator.itemgetter(1), seed & 0xFFFF_FFFF)

    def prepare(self) -> None:
        """Prepare each locality's own list."""
        for source, _ in self.localities:
            source.prepare()

    def pick(self, number: int) -> Host | None:
        """Return a host of the locality that is due."""
        return self._scheduler.pick()[0].pick(number)

    def describe(self) -> str:
        """Say what each locality weighs, and how its hosts are chosen."""
        shares = ", ".join(f"{source.hosts[0].locality} {weight:.4g}" for source, weight in self.localities)
        return f"locality by weight ({shares}), then {self.localities[0][0].describe()}"
