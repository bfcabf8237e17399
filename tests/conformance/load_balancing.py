"""The family `load-balancing`, as far as the balancer decides it: priorities, panic, policies, hashes.

Rows recorded with random numbers of Envoy's own are compared up to its seed: the runner looks for the seed that explains the first
picks, and every later one must follow. Rows that only chance explains are repeated with our random numbers, within the
tolerance that each function states.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import xxhash
import yaml

from outlier import Detector, HostMonitor, OutlierDetection
from outlier.sources import ListedRandom, RandomGenerator, SeededRandom, SimulatedTime
from proxy.config.cluster_config import Endpoint, HashFunction, HealthStatus, LbPolicy, LoadBalancerConfig, Locality
from proxy.config.cluster_config import SlowStart
from proxy.config.hash_policy import CookieHash, HashPolicy, HeaderHash, QueryParameterHash, SourceIpHash
from proxy.load_balancer import LoadBalancer, PreviousPriorities, create_load_balancer
from proxy.load_balancer.edf import EdfScheduler
from proxy.load_balancer.hash_members import hash_key, hash_members
from proxy.load_balancer.hash_policy import HashPolicies
from proxy.load_balancer.hash_table import HashTableBuilder
from proxy.load_balancer.locality import effective_locality_weight
from proxy.load_balancer.maglev import Maglev, build_maglev
from proxy.load_balancer.priority_load import LevelCounts, PriorityLoads, priority_loads
from proxy.load_balancer.ring_hash import Ring, build_ring
from proxy.load_balancer.slow_start import slow_start_weight
from proxy.upstream.host import HealthFlag, Host
from proxy.upstream.priority_set import HostSet, PrioritySet
from tests.conformance.runner import Case, Family, Mismatch, Skipped, UnknownFileError

Row = Mapping[str, Any]


def _expect(expected: object, actual: object, where: str = "") -> None:
    if expected != actual:
        raise Mismatch(expected, actual, where)


def _expect_near(expected: float, actual: float, tolerance: float, where: str = "") -> None:
    if abs(expected - actual) > tolerance:
        raise Mismatch(f"{expected} +- {tolerance}", actual, where)


@attrs.define
class Stats:
    """The statistics that a balancer counts and reads."""

    lb_healthy_panic: int = 0
    upstream_rq_active: int = 0


@attrs.define
class Context:
    """A pick with a hash, and the hosts that it is not to give."""

    hash: int | None = None
    tried: Sequence[Host] | None = None
    host_selection_retry_count: int = 0
    retry_priority: PreviousPriorities | None = None
    destination: str | None = None

    def should_select_another_host(self, host: Host) -> bool:
        """Refuse every host when `tried` is None, else those in it."""
        return self.tried is None or host in self.tried


class Cluster:
    """Hosts behind a balancer, without the rest of a data plane."""

    def __init__(
        self, hosts: Sequence[Host], config: LoadBalancerConfig, random: RandomGenerator | None = None
    ) -> None:
        self.hosts = list(hosts)
        self.stats = Stats()
        self.time = SimulatedTime()
        self.priority_set = PrioritySet()
        self.priority_set.update_hosts(self.hosts)
        self.load_balancer: LoadBalancer = create_load_balancer(
            config, self.priority_set, random or SeededRandom(1), self.time, self.stats
        )

    def picks(self, count: int) -> list[int]:
        """Return the numbers of the next hosts, -1 for none."""
        return [self.number(self.load_balancer.choose_host()) for _ in range(count)]

    def number(self, host: Host | None) -> int:
        """Return where the host stands in the configuration."""
        return self.hosts.index(host) if host is not None else -1

    def flag(self, number: int, flag: HealthFlag, *, on: bool) -> None:
        """Set or clear a flag, and tell the balancer."""
        (self.hosts[number].set_flag if on else self.hosts[number].clear_flag)(flag)
        self.priority_set.refresh_health(self.hosts[number].priority)


def _host(number: int, **attributes: Any) -> Host:
    return Host(Endpoint(address=f"127.0.0.1:{21101 + number}", **attributes))


def _first(candidates: Iterable[int], explains: Callable[[int], bool]) -> int:
    """Return the seed that explains a recording."""
    seed = next((candidate for candidate in candidates if explains(candidate)), None)
    if seed is None:
        raise Mismatch("some seed that explains the recorded picks", "none does")
    return seed


def _residue_keys() -> Mapping[int, str]:
    keys: Mapping[int, str] = yaml.safe_load((_VECTORS / "residue-keys.yaml").read_text())["keys"]
    return keys


# priority-panic.yaml


def _level(level: Row) -> LevelCounts:
    return LevelCounts(level["total"], level.get("healthy", 0), level.get("degraded", 0), level.get("excluded", 0))


def _expect_loads(row: Row, loads: PriorityLoads) -> None:
    for name, expected in row["expect"].items():
        actual = getattr(loads, {"panic": "panic"}.get(name, name))
        _expect(expected, list(actual) if isinstance(actual, tuple) else actual, name)


def _priority_panic(row: Row) -> None:
    loads = priority_loads(
        [_level(level) for level in row["levels"]],
        panic_threshold=row["panic_threshold"],
        overprovisioning_factor=row["overprovisioning_factor"],
        weights=[_level(level["weights"]) for level in row["levels"]] if "weights" in row["levels"][0] else None,
    )
    _expect_loads(row, loads)
    if "weights" not in row["levels"][0]:
        _priority_panic_live(row)


def _level_hosts(row: Row) -> Iterator[Host]:
    """Yield hosts in the health that the levels count: healthy ones first, excluded ones last."""
    numbers = itertools.count()
    for priority, level in enumerate(map(_level, row["levels"])):
        for index in range(level.total):
            host = _host(next(numbers), priority=priority)
            if index >= level.healthy + level.degraded:
                host.set_flag(HealthFlag.FAILED_EDS_HEALTH)
            elif index >= level.healthy:
                host.set_flag(HealthFlag.DEGRADED_EDS_HEALTH)
            if index >= level.total - level.excluded:
                host.set_flag(HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL)
            yield host


def _priority_panic_live(row: Row) -> None:
    """Check a balancer over real hosts. Round robin rows agree within 3 % of the requests, the others exactly."""
    live = row.get("live", {"lb": "RING_HASH"})
    config = LoadBalancerConfig(
        policy=LbPolicy(live["lb"]),
        # Half a percent more survives the conversion of a whole percent, which may lose one.
        healthy_panic_threshold=min(100, row["panic_threshold"] + 0.5),
        overprovisioning_factor=row["overprovisioning_factor"],
        fail_traffic_on_panic=live.get("fail_traffic_on_panic", False),
    )
    cluster = Cluster(list(_level_hosts(row)), config)
    _expect_loads(row, cluster.load_balancer.loads)
    if "live" not in row:
        return
    hashed = live["lb"] == "RING_HASH"
    hashes = [xxhash.xxh64_intdigest(key) for key in _residue_keys().values()]
    contexts = [Context(value) for value in hashes] if hashed else [None] * live["requests"]
    picked = [cluster.load_balancer.choose_host(context) for context in contexts]
    by_priority = Counter("no_host" if host is None else str(host.priority) for host in picked)
    for name in live["by_priority"].keys() | by_priority.keys():
        expected = live["by_priority"].get(name, 0)
        _expect_near(expected, by_priority[name], 0 if hashed else 0.03 * live["requests"], name)
    _expect(live["lb_healthy_panic_delta"], cluster.stats.lb_healthy_panic, "lb_healthy_panic")


# ring-hash.yaml, maglev.yaml, hash-retry.yaml


def _endpoints(rows: Iterable[Row]) -> Iterator[Host]:
    for row in rows:
        for each in row.get("hosts", [row]):
            yield Host(
                Endpoint(
                    address=each["address"],
                    hostname=each.get("hash_key", ""),
                    hash_key=each.get("hash_key"),
                    weight=each["weight"],
                    health_status=HealthStatus(each.get("health", "UNKNOWN")),
                    locality=Locality(row.get("locality", "")),
                )
            )


def _hash_config(row: Row) -> LoadBalancerConfig:
    config = row["config"]
    return LoadBalancerConfig(
        policy=LbPolicy(row["lb_policy"]),
        ring_hash_minimum_size=config.get("minimum_ring_size"),
        ring_hash_maximum_size=config.get("maximum_ring_size"),
        ring_hash_function=HashFunction(config.get("hash_function", "XX_HASH")),
        maglev_table_size=config.get("table_size"),
        use_hostname_for_hashing=config.get("use_hostname_for_hashing", False),
        healthy_panic_threshold=config.get("healthy_panic_threshold"),
        locality_weighted=config.get("locality_weighted_lb_config", False),
        locality_weights={
            (0, Locality(each["locality"])): each["locality_weight"] for each in row["hosts"] if "locality" in each
        },
    )


def _keyed_picks(row: Row) -> None:
    cluster = Cluster(list(_endpoints(row["hosts"])), _hash_config(row))
    for key, address in row["picks"].items():
        host = cluster.load_balancer.choose_host(Context(xxhash.xxh64_intdigest(key.encode())))
        _expect(None if address == "no host (503)" else address, host and host.address, key)


def _key_hash(key: str, expected: int) -> None:
    _expect(expected, xxhash.xxh64_intdigest(key.encode()), key)


def _five_hosts(policy: LbPolicy) -> Cluster:
    return Cluster([_host(number) for number in range(5)], LoadBalancerConfig(policy=policy))


def _hash_retry(row: Row) -> None:
    cluster = _five_hosts(LbPolicy.MAGLEV if "maglev" in row["route"] else LbPolicy.RING_HASH)
    context = Context(xxhash.xxh64_intdigest(row["key"]), tried=[])
    first = cluster.load_balancer.choose_host(context)
    if "no predicate" not in row["route"]:
        context = attrs.evolve(
            context, tried=[first], host_selection_retry_count=5 if "attempts 5" in row["route"] else 1
        )
    second = cluster.load_balancer.choose_host(context)
    _expect([row["first"], row["second"]], [21101 + cluster.number(first), 21101 + cluster.number(second)])


# hash-unit.yaml


def _built(builder: HashTableBuilder) -> Any:
    while True:
        try:
            next(builder)
        except StopIteration as end:
            return end.value


def _unit_table(row: Row, *, maglev: bool) -> Any:
    weights: dict[tuple[int, Locality], int] | None = None
    if "localities" in row:
        weights = {(0, Locality(str(n))): each["weight"] for n, each in enumerate(row["localities"])}
        named = [(*host, n) for n, each in enumerate(row["localities"]) for host in each["hosts"]]
    else:
        named = [(name, row.get("weights", [1] * 99)[n], 0) for n, name in enumerate(row["hosts"])]
    hosts = [Host(Endpoint(address=name, weight=weight, locality=Locality(str(n)))) for name, weight, n in named]
    members = hash_members(HostSet(0, hosts), panic=False, locality_weights=weights)
    keys = [hash_key(host, use_hostname=False) for host in members.hosts]
    if maglev:
        return _built(build_maglev(members, keys, table_size=row["table_size"]))
    hash_function = HashFunction(row.get("hash_function", "XX_HASH"))
    sizes = {"maximum_size": row["max_ring_size"]} if "max_ring_size" in row else {}
    return _built(build_ring(members, keys, minimum_size=row["min_ring_size"], hash_function=hash_function, **sizes))


def _ring(row: Row) -> None:
    ring: Ring = _unit_table(row, maglev=False)
    _expect([tuple(entry) for entry in row["ring"]], [(value, host.address) for value, host in ring.entries()])
    for value, address in row.get("picks", []):
        _expect(address, ring.host(value, 0).address, str(value))


def _ring_histogram(row: Row) -> None:
    ring: Ring = _unit_table(row, maglev=False)
    step = (2**64 - 1) // row["samples"]
    counts = Counter(ring.host(number * step, 0).address for number in range(row["samples"]))
    _expect(row["counts"], [counts[address] for address in row["hosts"]])
    _expect([row["size"], row["min_hashes"], row["max_hashes"]], list(ring.gauges.values()))


def _ring_retry(ring_row: Row, row: Row) -> None:
    hosts = [Host(Endpoint(address=address)) for address in ring_row["hosts"]]
    config = LoadBalancerConfig(policy=LbPolicy.RING_HASH, ring_hash_minimum_size=ring_row["min_ring_size"])
    cluster = Cluster(hosts, config)
    rejected = row["rejected"]
    tried = None if rejected == "all" else [host for host in hosts if host.address == rejected]
    context = Context(row["hash"], tried, row["host_selection_retries"])
    host = cluster.load_balancer.choose_host(context)
    _expect(row["pick"], host and host.address)


def _maglev(row: Row) -> None:
    table: Maglev = _unit_table(row, maglev=True)
    _expect(row["table"], [host.address for host in table.entries()])


def _maglev_retry(table_row: Row, row: Row) -> None:
    table: Maglev = _unit_table(table_row, maglev=True)
    _expect(row["pick"], table.host(row["hash"], row["attempt"]).address)
