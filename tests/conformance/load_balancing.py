"""The family `load-balancing`, priorities and panic here, the rest in modules of its own.

Rows that depend on random numbers of Envoy's own are compared up to its seed: some seed must explain the whole
recording. Rows that only chance explains are repeated with our random numbers, within a stated tolerance.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import xxhash
import yaml

from proxy.config.cluster_config import LbPolicy, LoadBalancerConfig
from proxy.load_balancer.priority_load import LevelCounts, PriorityLoads, priority_loads
from proxy.upstream.host import HealthFlag, Host
from tests.conformance import circuit_vectors, hash_vectors, http_vectors, schedule_vectors
from tests.conformance.runner import Case, Family, Mismatch, UnknownFileError
from tests.proxy.load_balancer.cluster import Cluster, Context, make_host

Row = Mapping[str, Any]


def _level(level: Row) -> LevelCounts:
    return LevelCounts(level["total"], level.get("healthy", 0), level.get("degraded", 0), level.get("excluded", 0))


def _expect_loads(row: Row, loads: PriorityLoads) -> None:
    for name, expected in row["expect"].items():
        actual = getattr(loads, name)
        if (list(actual) if isinstance(actual, tuple) else actual) != expected:
            raise Mismatch(expected, actual, name)


def _priority_panic(row: Row, residue_keys: Mapping[int, str]) -> None:
    weighted = "weights" in row["levels"][0]
    loads = priority_loads(
        [_level(level) for level in row["levels"]],
        panic_threshold=row["panic_threshold"],
        overprovisioning_factor=row["overprovisioning_factor"],
        weights=[_level(level["weights"]) for level in row["levels"]] if weighted else None,
    )
    _expect_loads(row, loads)
    if not weighted:  # these rows give sums of weights, and no hosts that have them
        _over_hosts(row, residue_keys)


def _hosts(row: Row) -> Iterator[Host]:
    """Yield hosts in the health that the levels count: healthy ones first, excluded ones last."""
    numbers = itertools.count()
    for priority, level in enumerate(map(_level, row["levels"])):
        for index in range(level.total):
            host = make_host(next(numbers), priority=priority)
            if index >= level.healthy + level.degraded:
                host.set_flag(HealthFlag.FAILED_EDS_HEALTH)
            elif index >= level.healthy:
                host.set_flag(HealthFlag.DEGRADED_EDS_HEALTH)
            if index >= level.total - level.excluded:
                host.set_flag(HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL)
            yield host


def _over_hosts(row: Row, residue_keys: Mapping[int, str]) -> None:
    """Check a balancer over real hosts; round robin rows agree within 3 % of the requests, the others exactly."""
    live = row.get("live", {"lb": "ROUND_ROBIN", "requests": 0, "by_priority": {}, "lb_healthy_panic_delta": 0})
    config = LoadBalancerConfig(
        policy=LbPolicy(live["lb"]),
        # The rows hold what Envoy has converted; half a percent more survives being converted again.
        healthy_panic_threshold=min(100.0, row["panic_threshold"] + 0.5),
        overprovisioning_factor=row["overprovisioning_factor"],
        fail_traffic_on_panic=live.get("fail_traffic_on_panic", False),
    )
    hosts = list(_hosts(row))
    last = make_host(len(hosts), priority=len(row["levels"]) - 1)  # leaves its priority behind, maybe an empty one
    cluster = Cluster([*hosts, last], config)
    cluster.priority_set.update_hosts(hosts)
    _expect_loads(row, cluster.load_balancer.loads)
    contexts: Iterable[Context | None] = itertools.repeat(None, live["requests"])
    tolerance = 0.03 * live["requests"]
    if live["lb"] == "RING_HASH":
        contexts = [Context(xxhash.xxh64_intdigest(key.encode())) for key in residue_keys.values()]
        tolerance = 0
    picked = [cluster.load_balancer.choose_host(context) for context in contexts]
    by_priority = Counter("no_host" if host is None else str(host.priority) for host in picked)
    for name in live["by_priority"].keys() | by_priority.keys():
        expected = live["by_priority"].get(name, 0)
        if abs(expected - by_priority[name]) > tolerance:
            raise Mismatch(expected, by_priority[name], f"picks of {name}")
    if cluster.stats.lb_healthy_panic != live["lb_healthy_panic_delta"]:
        raise Mismatch(live["lb_healthy_panic_delta"], cluster.stats.lb_healthy_panic, "lb_healthy_panic")


def _priority_panic_cases(path: Path, document: Any) -> Iterator[Case]:
    residue_keys = yaml.safe_load((path.parent / "residue-keys.yaml").read_text())["keys"]
    for row in document:
        yield Case(row["id"], partial(_priority_panic, row, residue_keys))


def _residue_key_cases(_path: Path, document: Any) -> Iterator[Case]:
    for residue, key in document["keys"].items():
        yield Case(f"residue-{residue}", partial(_residue_key, residue, key))


def _residue_key(residue: int, key: str) -> None:
    if xxhash.xxh64_intdigest(key.encode()) % 100 != residue:
        raise Mismatch(residue, xxhash.xxh64_intdigest(key.encode()) % 100, key)


_FILES: Mapping[str, Callable[[Path, Any], Iterable[Case]]] = {
    "priority-panic": _priority_panic_cases,
    "residue-keys": _residue_key_cases,
    **circuit_vectors.FILES,
    **hash_vectors.FILES,
    **http_vectors.FILES,
    **schedule_vectors.FILES,
}


def _cases(path: Path, document: Any) -> Iterator[Case]:
    if path.stem not in _FILES:
        raise UnknownFileError(f"{path}: nobody runs these vectors")
    for case in _FILES[path.stem](path, document):
        yield Case(f"{path.stem}:{case.id}", case.run)


def _recognises(_document: Any) -> bool:
    return False  # the files have no common mark: their folder names the family


FAMILY = Family(name="load-balancing", recognises=_recognises, cases=_cases)
