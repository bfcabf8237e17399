"""What ring hash and maglev share: one table for each priority, rebuilt beside the traffic.

The hash of a request chooses both its priority and its host, so both are sticky. A table is built in steps of about a
millisecond, deferred to the event loop; until it is swapped in, the old one serves and passes over hosts that are not
to be picked any more. Ports `ThreadAwareLoadBalancerBase` (Envoy,
source/extensions/load_balancing_policies/common/thread_aware_lb_impl.cc).
"""

from collections import Counter
from collections.abc import Callable

from outlier.sources import RandomGenerator
from proxy.config.cluster_config import LbPolicy, LoadBalancerConfig
from proxy.load_balancer.bounded_load import BoundedLoad
from proxy.load_balancer.explanation import Choice
from proxy.load_balancer.hash_members import HashMembers, hash_key, hash_members
from proxy.load_balancer.hash_table import HashTable, HashTableBuilder
from proxy.load_balancer.load_balancer import LoadBalancer, LoadBalancerContext, LoadBalancerStats
from proxy.load_balancer.maglev import DEFAULT_TABLE_SIZE, build_maglev
from proxy.load_balancer.priority_load import choose_priority
from proxy.load_balancer.ring_hash import DEFAULT_MAXIMUM_SIZE, DEFAULT_MINIMUM_SIZE, build_ring
from proxy.upstream.host import Host
from proxy.upstream.priority_set import PrioritySet

Defer = Callable[[Callable[[], None]], object]

# Tries of the old table for a host that may still be picked. With half of the hosts gone the odds of none are one in a
# million.
_STALE_ATTEMPTS = 20

_MANY_HOSTS = 1_000  # from here on the keys alone are a step's work


class HashedPriority:
    """The table of one priority, and the one that is being built to replace it.

    Changes that arrive during a build are not lost and do not restart it, or frequent ones would keep it from ever
    ending: the build ends, and another one starts.
    """

    __slots__ = ("_allowed", "_build", "_builder", "_building", "_wanted", "panic", "table")

    def __init__(self, build: Callable[[HashMembers], HashTableBuilder]) -> None:
        self.panic = False
        self.table: HashTable | None = None
        self._build = build
        self._wanted = HashMembers((), ())
        self._building = self._wanted  # what the builder, or else the table, is made of
        self._builder: HashTableBuilder | None = None
        self._allowed: frozenset[Host] | None = None

    @property
    def members(self) -> HashMembers:
        """The hosts that may be picked now."""
        return self._wanted

    @property
    def building(self) -> bool:
        """Whether the table is not yet that of the present members."""
        return self._builder is not None

    def want(self, members: HashMembers) -> None:
        """Replace the members; the work of building is left to `step`."""
        if members == self._wanted:
            return
        self._wanted = members
        self._allowed = None
        if not members.hosts:
            self.table = self._builder = None
            self._building = members
        elif self._builder is None:
            self._start()

    def step(self) -> None:
        """Do about a millisecond of work, if there is any, and swap the new table in when it is done."""
        if self._builder is None:
            return
        try:
            next(self._builder)
        except StopIteration as end:
            self.table = end.value
            if self._building is self._wanted:
                self._builder = None
            else:
                self._start()

    def finish(self) -> None:
        """Do all the work that is left."""
        if self._building is not self._wanted:
            self._start()
        while self._builder is not None:
            self.step()

    def host(self, number: int, attempt: int) -> Host | None:
        """Return the host of a hash."""
        if self._builder is not None:
            return self._host_while_building(number, attempt)
        table = self.table
        return table.host(number, attempt) if table is not None else None

    def _start(self) -> None:
        self._building = self._wanted
        self._builder = self._build(self._wanted)

    def _host_while_building(self, number: int, attempt: int) -> Host | None:
        """Return a member from the old table, or wait for the new one when the old one has none to offer."""
        if self.table is not None:
            if self._allowed is None:
                self._allowed = frozenset(self._wanted.hosts)
            for further in range(_STALE_ATTEMPTS):
                host = self.table.host(number, attempt + further)
                if host in self._allowed:
                    return host
        self.finish()
        return self.host(number, attempt)


class HashLoadBalancer(LoadBalancer):
    """Ring hash or maglev.

    A request without a hash gets a random one. Degraded hosts are in no table, and `fail_traffic_on_panic` is ignored,
    as in Envoy.

    Args:
        config: Policy and settings.
        priority_set: The cluster's hosts.
        random: Draws the hash of a request that has none.
        stats: What the balancer counts.
        defer: Runs a function soon, but not within the call; an event loop's `call_soon`. None builds tables at once.
    """

    def __init__(
        self,
        config: LoadBalancerConfig,
        priority_set: PrioritySet,
        random: RandomGenerator,
        stats: LoadBalancerStats,
        *,
        defer: Defer | None,
    ) -> None:
        super().__init__(config, priority_set, random, stats)
        self._draw = random.random
        self._defer = defer
        self._deferred = False
        self._closed = False
        self._priorities: list[HashedPriority] = []
        self._shares: tuple[HashedPriority, ...] = ()
        self._follow(None)

    def choose_host(self, context: LoadBalancerContext | None = None) -> Host | None:
        """Return the host of the request's hash; a refused one is replaced by the next attempt's while allowed."""
        number = context.hash if context is not None else None
        if number is None:
            number = self._draw()
        priority = self._shares[number % 100]
        if priority.panic:
            self._stats.lb_healthy_panic += 1
        host = priority.host(number, 0)
        if context is not None:
            for attempt in range(1, context.host_selection_retry_count + 1):
                if host is None or not context.should_select_another_host(host):
                    break
                host = priority.host(number, attempt)
        return host

    @property
    def gauges(self) -> dict[str, int]:
        """The gauges of the last priority that has a table: in Envoy each overwrites those of the one before."""
        tables = [priority.table for priority in self._priorities if priority.table is not None]
        return tables[-1].gauges if tables else {}

    @property
    def building(self) -> bool:
        """Whether a table is being built to follow a change."""
        return not self._closed and any(priority.building for priority in self._priorities)

    def close(self) -> None:
        """Stop following the priority set, and stop building."""
        super().close()
        self._closed = True

    def _refresh(self, priority: int) -> None:
        self.loads = self._priority_loads()
        self._follow(priority)

    def _follow(self, changed: int | None) -> None:
        """Want new tables for the changed priority, None being all, and for those whose panic began or ended."""
        config = self._config
        host_sets = self._priority_set.host_sets
        self._priorities += [HashedPriority(self._build) for _ in host_sets[len(self._priorities) :]]
        for priority, host_set, panic in zip(self._priorities, host_sets, self.loads.panic, strict=True):
            if changed in (None, host_set.priority) or panic is not priority.panic:
                priority.panic = panic
                weights = config.locality_weights if config.locality_weighted else None
                priority.want(hash_members(host_set, panic=panic, locality_weights=weights))
                priority.step()
        self._shares = tuple(self._priorities[choose_priority(self.loads, number)[0]] for number in range(100))
        self._work_later()

    def _work_later(self) -> None:
        if self._defer is None:
            for priority in self._priorities:
                priority.finish()
        elif self.building and not self._deferred:
            self._deferred = True
            self._defer(self._work)

    def _work(self) -> None:
        """Do one step of one table."""
        self._deferred = False
        if not self._closed:
            next((priority for priority in self._priorities if priority.building), self._priorities[0]).step()
            self._work_later()

    def _host_of(self, number: int) -> Host | None:
        return self._shares[number % 100].host(number, 0)

    def _choices(self, context: LoadBalancerContext | None) -> list[Choice]:
        number = context.hash if context is not None else None
        numbers = range(100) if number is None else (number,)
        fallen = Counter(self._shares[each % 100] for each in numbers)
        return [
            Choice(
                share=100 * share // len(numbers),
                priority=self._priorities.index(priority),
                which="all" if priority.panic else "healthy",
                hosts=tuple(host.address for host in priority.members.hosts),
                method="maglev table" if self._config.policy is LbPolicy.MAGLEV else "hash ring",
            )
            for priority, share in fallen.items()
        ]

    def _build(self, members: HashMembers) -> HashTableBuilder:
        config = self._config
        keys = [hash_key(host, use_hostname=config.use_hostname_for_hashing) for host in members.hosts]
        if len(keys) > _MANY_HOSTS:
            yield
        if config.policy is LbPolicy.MAGLEV:
            table = yield from build_maglev(members, keys, table_size=config.maglev_table_size or DEFAULT_TABLE_SIZE)
        else:
            table = yield from build_ring(
                members,
                keys,
                minimum_size=config.ring_hash_minimum_size or DEFAULT_MINIMUM_SIZE,
                maximum_size=config.ring_hash_maximum_size or DEFAULT_MAXIMUM_SIZE,
                hash_function=config.ring_hash_function,
            )
        if config.hash_balance_factor:
            return BoundedLoad(table, members, config.hash_balance_factor, self._stats)
        return table
