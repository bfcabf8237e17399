"""Hosts behind a balancer, without the rest of a data plane; hosts are known by their numbers."""

from collections.abc import Callable, Container, Sequence
from typing import Any

import attrs

from outlier.sources import RandomGenerator, SeededRandom, SimulatedTime
from proxy.config.cluster_config import Endpoint, LoadBalancerConfig
from proxy.load_balancer import LoadBalancer, LoadBalancerContext, PreviousPriorities, create_load_balancer
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.priority_set import PrioritySet


@attrs.define
class Stats:
    """The statistics that a balancer counts and reads."""

    lb_healthy_panic: int = 0
    upstream_rq_active: int = 0


@attrs.define
class Context:
    """A pick; `refused` hosts are picked anew, `retries` times at most."""

    hash: int | None = None
    refused: Container[Host] = ()
    host_selection_retry_count: int = 0
    retry_priority: PreviousPriorities | None = None
    destination: str | None = None

    def should_select_another_host(self, host: Host) -> bool:
        return host in self.refused


def make_host(number: int, **attributes: Any) -> Host:
    """Return host 127.0.0.1:<21101 + number>."""
    return Host(Endpoint(address=f"127.0.0.1:{21101 + number}", **attributes))


class Cluster:
    """Hosts numbered in the order they were given; `picks` answers in these numbers."""

    def __init__(
        self,
        hosts: Sequence[Host],
        config: LoadBalancerConfig,
        random: RandomGenerator | None = None,
        defer: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self.hosts = list(hosts)
        self.stats = Stats()
        self.time = SimulatedTime()
        self.priority_set = PrioritySet()
        self.priority_set.update_hosts(self.hosts)
        self.load_balancer: LoadBalancer = create_load_balancer(
            config, self.priority_set, random or SeededRandom(1), self.time, self.stats, defer=defer
        )

    def number(self, host: Host | None) -> int | None:
        """Return the number of a host; None stays None."""
        return self.hosts.index(host) if host is not None else None

    def pick(self, context: LoadBalancerContext | None = None) -> int | None:
        """Return the number of the next host, None for no host."""
        return self.number(self.load_balancer.choose_host(context))

    def picks(self, count: int) -> list[int | None]:
        """Return the numbers of the next `count` hosts."""
        return [self.pick() for _ in range(count)]

    def counts(self, picks: int) -> list[int]:
        """Return how often each host is picked in `picks` picks."""
        picked = self.picks(picks)
        return [picked.count(number) for number in range(len(self.hosts))]

    def eject(self, *numbers: int) -> None:
        """Mark hosts as ejected, and tell the balancer."""
        self.flag(HealthFlag.FAILED_OUTLIER_CHECK, *numbers)

    def uneject(self, *numbers: int) -> None:
        """Take the mark off again, and tell the balancer."""
        self.flag(HealthFlag.FAILED_OUTLIER_CHECK, *numbers, on=False)

    def flag(self, flag: HealthFlag, *numbers: int, on: bool = True) -> None:
        """Set or clear a flag of hosts, and tell the balancer once for each priority."""
        for number in numbers:
            (self.hosts[number].set_flag if on else self.hosts[number].clear_flag)(flag)
        for priority in sorted({self.hosts[number].priority for number in numbers}):
            self.priority_set.refresh_health(priority)
