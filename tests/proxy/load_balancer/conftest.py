"""A cluster of hosts that a test builds, hurts and picks from."""

from collections.abc import Callable, Sequence

import attrs
import pytest

from outlier.sources import RandomGenerator, SeededRandom, SimulatedTime
from proxy.config.cluster_config import Endpoint, HealthStatus, LbPolicy, LoadBalancerConfig, Locality
from proxy.load_balancer import LoadBalancer, LoadBalancerContext, create_load_balancer
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.priority_set import PrioritySet


@attrs.define
class Stats:
    """The statistics that a balancer counts and reads."""

    lb_healthy_panic: int = 0
    upstream_rq_active: int = 0


class Cluster:
    """Hosts are numbered in the order they were given; `picks` answers in these numbers."""

    def __init__(
        self,
        hosts: Sequence[Host],
        config: LoadBalancerConfig,
        random: RandomGenerator,
    ) -> None:
        self.hosts = list(hosts)
        self.stats = Stats()
        self.time = SimulatedTime()
        self.priority_set = PrioritySet()
        self.priority_set.update_hosts(self.hosts)
        self.config = config
        self.load_balancer: LoadBalancer = create_load_balancer(
            config, self.priority_set, random, self.time, self.stats
        )

    def picks(self, count: int, context: LoadBalancerContext | None = None) -> list[int | None]:
        """Return the numbers of the next `count` hosts picked, None for no host."""
        numbers = {host: number for number, host in enumerate(self.hosts)}
        return [
            None if host is None else numbers[host]
            for host in (self.load_balancer.choose_host(context) for _ in range(count))
        ]

    def counts(self, picks: int, context: LoadBalancerContext | None = None) -> list[int]:
        """Return how often each host is picked in `picks` picks."""
        picked = self.picks(picks, context)
        return [picked.count(number) for number in range(len(self.hosts))]

    def eject(self, *numbers: int) -> None:
        """Mark hosts as ejected, in one refresh per priority."""
        self._flag(numbers, HealthFlag.FAILED_OUTLIER_CHECK, on=True)

    def uneject(self, *numbers: int) -> None:
        """Take the mark off again."""
        self._flag(numbers, HealthFlag.FAILED_OUTLIER_CHECK, on=False)

    def _flag(self, numbers: Sequence[int], flag: HealthFlag, *, on: bool) -> None:
        for number in numbers:
            if on:
                self.hosts[number].set_flag(flag)
            else:
                self.hosts[number].clear_flag(flag)
        for priority in sorted({self.hosts[number].priority for number in numbers}):
            self.priority_set.refresh_health(priority)


def make_host(
    number: int,
    *,
    weight: int = 1,
    priority: int = 0,
    health: HealthStatus = HealthStatus.UNKNOWN,
    locality: str = "",
    hash_key: str | None = None,
) -> Host:
    """Return host 127.0.0.1:<21101 + number>."""
    return Host(
        Endpoint(
            address=f"127.0.0.1:{21101 + number}",
            weight=weight,
            priority=priority,
            health_status=health,
            locality=Locality.parse(locality),
            hash_key=hash_key,
        )
    )


@pytest.fixture
def cluster() -> Callable[..., Cluster]:
    """Return a function that makes a cluster of `hosts`, or of one host a weight."""

    def make(
        policy: LbPolicy = LbPolicy.ROUND_ROBIN,
        *,
        hosts: Sequence[Host] | None = None,
        weights: Sequence[int] = (1, 1, 1),
        random: RandomGenerator | None = None,
        seed: int = 0,
        **config: object,
    ) -> Cluster:
        members = hosts or [make_host(number, weight=weight) for number, weight in enumerate(weights)]
        return Cluster(members, LoadBalancerConfig(policy=policy, **config), random or SeededRandom(seed))

    return make
