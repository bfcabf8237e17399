"""Claim: choosing a host costs at most 1 us by round robin and 2 us by any other policy, at 10, 1,000 and 10,000 hosts.

`python -m benchmarks.balancer [--json]` also measures what one health flip among 10,000 hosts costs: the rebuild of the
lists, and for ring hash and maglev the longest time that a step of the rebuild holds the event loop. Each figure is the
best of several rounds, the longest hold that of the best round: the others measure the machine's neighbours.
"""

import argparse
import functools
import gc
import itertools
import platform
import random
import sys
import time
import timeit
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from benchmarks.claims import Claim, last_line, worst
from outlier import SimulatedTime
from proxy.config.cluster_config import Endpoint, LbPolicy, LoadBalancerConfig, Locality, SelectionMethod, SlowStart
from proxy.load_balancer import LoadBalancer, PreviousPriorities, create_load_balancer
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.priority_set import PrioritySet

SIZES = (10, 1_000, 10_000)
ROUNDS = 7
ZONES = [Locality(zone=zone) for zone in "abc"]


@attrs.define
class Stats:
    """The statistics that a balancer counts and reads."""

    lb_healthy_panic: int = 0
    upstream_rq_active: int = 0


@attrs.define
class Context:
    """A request with a hash, on its first attempt."""

    hash: int | None
    host_selection_retry_count: int = 0
    retry_priority: PreviousPriorities | None = None
    destination: str | None = None

    def should_select_another_host(self, host: Host) -> bool:
        """Refuse nobody."""
        return False


class Random:
    """Fast 64-bit numbers from a seed."""

    def __init__(self) -> None:
        self.random: Callable[[], int] = functools.partial(random.Random(1).getrandbits, 64)


@attrs.frozen
class Subject:
    """A policy with settings; `weights` heaviest: weights go round from 1 to it."""

    name: str
    policy: LbPolicy
    limit_us: float | None
    heaviest: int = 1
    config: dict[str, Any] = attrs.field(factory=dict)

    @property
    def hashed(self) -> bool:
        """Whether requests bring a hash."""
        return self.policy in (LbPolicy.RING_HASH, LbPolicy.MAGLEV)


SUBJECTS = [
    Subject("round robin", LbPolicy.ROUND_ROBIN, 1.0),
    Subject("round robin, weights 1-5", LbPolicy.ROUND_ROBIN, 2.0, 5),
    Subject("round robin, slow start", LbPolicy.ROUND_ROBIN, 2.0, 5, {"slow_start": SlowStart(window_ms=1_000)}),
    Subject(
        "round robin, localities",
        LbPolicy.ROUND_ROBIN,
        2.0,
        1,
        {"locality_weighted": True, "locality_weights": {(0, zone): 1 + n for n, zone in enumerate(ZONES)}},
    ),
    Subject("least request", LbPolicy.LEAST_REQUEST, 2.0),
    Subject("least request, weights 1-5", LbPolicy.LEAST_REQUEST, 2.0, 5),
    Subject(
        "least request, full scan",  # looks at every host by definition
        LbPolicy.LEAST_REQUEST,
        None,
        1,
        {"least_request_selection_method": SelectionMethod.FULL_SCAN},
    ),
    Subject("random", LbPolicy.RANDOM, 2.0),
    Subject("ring hash", LbPolicy.RING_HASH, 2.0),
    Subject("ring hash, weights 1-50", LbPolicy.RING_HASH, 2.0, 50),
    Subject("ring hash, bounded load", LbPolicy.RING_HASH, 2.0, 1, {"hash_balance_factor": 150}),
    Subject("maglev", LbPolicy.MAGLEV, 2.0),
    Subject("maglev, weights 1-50", LbPolicy.MAGLEV, 2.0, 50),
]


class Cluster:
    """Hosts, their balancer, and the calls that it has deferred."""

    def __init__(self, subject: Subject, hosts: int) -> None:
        self.deferred: deque[Callable[[], None]] = deque()
        self.hosts = [
            Host(
                Endpoint(
                    address=f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}:80",
                    weight=1 + n % subject.heaviest,
                    locality=ZONES[n % len(ZONES)],
                )
            )
            for n in range(hosts)
        ]
        self.priority_set = PrioritySet()
        self.priority_set.update_hosts(self.hosts)
        config = LoadBalancerConfig(policy=subject.policy, **subject.config)
        self.load_balancer: LoadBalancer = create_load_balancer(
            config, self.priority_set, Random(), SimulatedTime(), Stats(), defer=self.deferred.append
        )
        self.run_deferred()

    def flip(self) -> None:
        """Eject a host, or take it back."""
        self.hosts[3].put_flag(
            HealthFlag.FAILED_OUTLIER_CHECK, on=not self.hosts[3].has_flag(HealthFlag.FAILED_OUTLIER_CHECK)
        )
        self.priority_set.refresh_health(0)

    def run_deferred(self) -> list[float]:
        """Run what is deferred to the end, and return the seconds that each call took."""
        return [seconds(self.deferred.popleft()) for _ in iter(lambda: bool(self.deferred), False)]


def seconds(call: Callable[[], object]) -> float:
    """How much of the processor's time a call takes; waiting while the machine's neighbours run does not count."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def pick_rounds_us(subject: Subject, hosts: int) -> list[float]:
    """What `choose_host` costs, without the loop around it; where hashes count, each request brings its own."""
    cluster = Cluster(subject, hosts)
    choose_host = cluster.load_balancer.choose_host
    number = 2_000 if subject.limit_us is None else 20_000
    contexts = [Context(random.Random(n).getrandbits(64)) if subject.hashed else None for n in range(1_000)]

    def measured() -> float:
        return seconds(lambda: deque(map(choose_host, itertools.islice(itertools.cycle(contexts), number)), 0))

    def empty() -> float:
        return seconds(lambda: deque(map(id, itertools.islice(itertools.cycle(contexts), number)), 0))

    measured()
    loop = min(empty() for _ in range(ROUNDS))
    return [(measured() - loop) / number * 1e6 for _ in range(ROUNDS)]


def flip_figures(subject: Subject, hosts: int) -> list[Claim]:
    """What one health flip costs at once, and what it costs later."""
    cluster = Cluster(subject, hosts)
    at_once, holds, totals = [], [], []
    for _ in range(ROUNDS):
        gc.collect()
        at_once.append(seconds(cluster.flip) * 1e3)
        steps = [step * 1e3 for step in cluster.run_deferred()]
        holds.append(max([at_once[-1], *steps]))
        totals.append(at_once[-1] + sum(steps))
    name = f"flip among {hosts}, {subject.name}"
    if not subject.hashed:
        limit = None if "slow_start" in subject.config else 10.0  # every host is in its window, which is not usual
        return [Claim.best_of(name, at_once, "ms", limit=limit)]
    return [
        Claim.best_of(f"{name}: longest hold", holds, "ms", limit=5.0),
        Claim.best_of(f"{name}: all steps", totals, "ms"),
    ]


def claims(picks: list[Claim], flips: list[Claim]) -> list[Claim]:
    """Return the four claims: the dearest of each kind, over all sizes and settings."""

    def dearest(name: str, figures: list[Claim], limit: float, unit: str) -> Claim:
        return worst(name, [figure for figure in figures if figure.limit == limit], unit, limit=limit)

    sizes = ", ".join(f"{size:,}" for size in SIZES)
    return [
        dearest(f"a pick by round robin among {sizes} hosts", picks, 1.0, "us"),
        dearest("a pick by any other policy, weights and slow start included", picks, 2.0, "us"),
        dearest(f"a host's health changes among {SIZES[-1]:,}: new lists", flips, 10.0, "ms"),
        dearest("the same by ring hash and maglev: longest hold of the loop", flips, 5.0, "ms"),
    ]


def bare_call_us() -> float:
    """A Python function of one argument, called and returned from."""

    def bare(_value: object) -> None:
        return None

    return min(timeit.repeat(lambda: bare(None), number=200_000, repeat=ROUNDS)) / 200_000 * 1e6


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, and return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balancer", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args(argv)
    bare = bare_call_us()
    picks = [
        Claim.best_of(f"{subject.name}, {hosts} hosts", pick_rounds_us(subject, hosts), "us", limit=subject.limit_us)
        for subject in SUBJECTS
        for hosts in SIZES
    ]
    flips = [
        figure for subject in SUBJECTS if subject.limit_us is not None for figure in flip_figures(subject, SIZES[-1])
    ]
    figures = picks + flips
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}; bare call {bare:.3f} us"
    )
    for figure in figures:
        limit = f"limit {figure.limit:g} {figure.unit}" if figure.limit is not None else ""
        print(f"{figure.name:<60} {figure.value:9.3f} {figure.unit:<3} {limit}")
    if options.json:
        values = {figure.name: {"value": round(figure.value, 4), "unit": figure.unit} for figure in figures}
        ratios = {figure.name: round(figure.value / bare, 2) for figure in figures if figure.unit == "us"}
        found = {"bare_call_us": round(bare, 4), "figures": values, "ratio_to_bare_call": ratios}
        print(last_line(found, claims(picks, flips)))
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
