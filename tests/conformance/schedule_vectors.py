"""Vectors of the policies over lists: order, weights, slow start, localities, and picks across ejections."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import xxhash
import yaml

from outlier import Detector, HostMonitor, OutlierDetection
from outlier.sources import ListedRandom, SeededRandom
from proxy.config.cluster_config import HealthStatus, LbPolicy, LoadBalancerConfig, Locality, SlowStart
from proxy.load_balancer.edf import EdfScheduler
from proxy.load_balancer.locality import effective_locality_weight
from proxy.load_balancer.slow_start import slow_start_weight
from proxy.upstream.host import HealthFlag
from tests.conformance.runner import Case, Mismatch, Skipped
from tests.proxy.load_balancer.cluster import Cluster, Context, make_host

Row = Mapping[str, Any]
_OPEN_SEEDS = range(64)  # covers every phase of the lists and weights below


def _expect(expected: object, actual: object, where: str = "") -> None:
    if expected != actual:
        raise Mismatch(expected, actual, where)


def _expect_near(expected: float, actual: float, tolerance: float, where: str = "") -> None:
    if abs(expected - actual) > tolerance:
        raise Mismatch(f"{expected} within {tolerance}", actual, where)


def _expect_explained(explains: Callable[[int], bool]) -> None:
    """Expect that some seed explains a recording from beginning to end."""
    if not any(map(explains, _OPEN_SEEDS)):
        raise Mismatch("a seed that explains the recording", "none")


# edf.yaml


def _weighted(weights: Sequence[int], seed: int, policy: LbPolicy = LbPolicy.ROUND_ROBIN) -> Cluster:
    hosts = [make_host(number, weight=weight) for number, weight in enumerate(weights)]
    return Cluster(hosts, LoadBalancerConfig(policy=policy), ListedRandom([seed]))


def _computed_order(row: Row) -> None:
    weights = row["weights"]
    schedule = EdfScheduler(range(len(weights)), weights.__getitem__, row["prepicks"])
    _expect(row["picks"], [schedule.pick() for _ in row["picks"]])


def _recorded_order(row: Row) -> None:
    picks = row["picks"]
    if row["weights"] == "equal":
        weights, seed = [1] * (max(picks) + 1), picks[0]
    else:
        weights, seed = row["weights"], row["matches_model_prepicks"]
    _expect(picks, _weighted(weights, seed, LbPolicy(row["lb"])).picks(len(picks)))


def _recorded_random(name: str, counts: Mapping[str, int]) -> None:
    """Each of three hosts gets a third of 600, within 60, by Envoy and by us; weights do not count."""
    policy = LbPolicy.LEAST_REQUEST if name.startswith("lr") else LbPolicy.RANDOM
    weights = (1, 2, 5) if name == "rndw" else (1, 1, 1)
    hosts = [make_host(number, weight=weight) for number, weight in enumerate(weights)]
    cluster = Cluster(hosts, LoadBalancerConfig(policy=policy), SeededRandom(7))
    for recorded, ours in zip(counts.values(), cluster.counts(600), strict=True):
        _expect_near(200, recorded, 60, "recorded")
        _expect_near(200, ours, 60, "ours")


def _rebuild(row: Row) -> None:
    weights = row.get("weights") or [1] * row["hosts"]
    ejected = row.get("pick_ejected", row.get("pick_that_got_503_and_was_ejected"))

    def explains(seed: int) -> bool:
        cluster = _weighted(weights, seed)
        if cluster.picks(len(row["before"])) != row["before"] or cluster.pick() != ejected:
            return False
        cluster.eject(ejected)
        if cluster.picks(len(row["after_eject" if "after_eject" in row else "after"])) != row.get(
            "after_eject", row.get("after")
        ):
            return False
        cluster.uneject(ejected)
        return cluster.picks(len(row["after_uneject"])) == row["after_uneject"]

    _expect_explained(explains)


def _edf_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["computed"]:
        yield Case(f"{row['weights']} after {row['prepicks']}", partial(_computed_order, row))
    for row in document["recorded"]:
        yield Case(row["id"], partial(_recorded_order, row))
    for name, counts in document["recorded_random"].items():
        yield Case(name, partial(_recorded_random, name, counts))
    for row in document["rebuild"]:
        yield Case(row["id"], partial(_rebuild, row))


# slow-start.yaml


def _slow_start_weight(row: Row) -> None:
    config = SlowStart(
        window_ms=row["window_ms"], aggression=row["aggression"], min_weight_percent=row["min_weight_percent"]
    )
    _expect_near(row["expect"], slow_start_weight(row["weight"], row["elapsed_ms"], config), 1e-9)


def _slow_start_series(name: str, points: Sequence[Row], window_ms: int) -> None:
    """A new host beside an old one gets the recorded share of 120 picks, within 0.02 (2.4 picks)."""
    kind, _, value = name.partition(" ")
    settings = {kind: float(value)} if kind in ("aggression", "min_weight_percent") else {}
    config = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, slow_start=SlowStart(window_ms=window_ms, **settings))
    cluster = Cluster([make_host(0)], config)
    cluster.time.advance(10 * window_ms)
    start_ms = cluster.time.monotonic_ms()
    cluster.hosts.append(make_host(1))
    cluster.priority_set.update_hosts(cluster.hosts)
    for point in points:
        cluster.time.set_ms(start_ms + round(point["t"] * 1000))
        _expect_near(point["share"], cluster.counts(120)[1] / 120, 0.02, f"share at {point['t']} s")


def _slow_start_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["computed"]:
        yield Case(" ".join(str(value) for value in row.values()), partial(_slow_start_weight, row))
    recorded = document["recorded"]
    for name, points in recorded["series"].items():
        yield Case(name, partial(_slow_start_series, name, points, recorded["window_s"] * 1000))


# locality.yaml


def _locality(row: Row) -> None:
    localities = row["localities"]
    weights = [each["weight"] or 0 for each in localities]
    effective = [
        effective_locality_weight(
            weight, hosts=each["hosts"], excluded=0, eligible=each["healthy"], overprovisioning_factor=140
        )
        for weight, each in zip(weights, localities, strict=True)
    ]
    _expect(row["effective_weights"], effective)

    def explains(seed: int) -> bool:
        cluster = _localities(localities, weights, index_seed=seed % 2, locality_seed=seed // 2)
        if cluster.picks(24) != row["first_24"]:
            return False
        counts = Counter(cluster.picks(row["requests"]))
        return all(counts[int(port) - 21101] == count for port, count in row["by_host"].items())

    _expect_explained(explains)


def _localities(localities: Sequence[Row], weights: Sequence[int], *, index_seed: int, locality_seed: int) -> Cluster:
    numbers = itertools.count()
    hosts = [
        make_host(
            next(numbers),
            locality=Locality(zone=each["zone"]),
            health_status=HealthStatus.HEALTHY if index < each["healthy"] else HealthStatus.UNHEALTHY,
        )
        for each in localities
        for index in range(each["hosts"])
    ]
    config = LoadBalancerConfig(
        policy=LbPolicy.ROUND_ROBIN,
        locality_weighted=True,
        locality_weights={
            (0, Locality(zone=each["zone"])): weight for each, weight in zip(localities, weights, strict=True)
        },
    )
    return Cluster(hosts, config, ListedRandom([index_seed, locality_seed]))


def _states(row: Row) -> None:
    """Flags and gauges exactly, picks within 8 % of the requests."""
    hosts = [
        make_host(int(port) - 21101, health_status=HealthStatus(status)) for port, status in row["endpoints"].items()
    ]
    cluster = Cluster(hosts, LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN))
    _expect(list(row["health_flags_text"].values()), [host.health_flags_text() for host in hosts])
    for name, expected in row["gauges"].items():
        _expect(expected, getattr(cluster.priority_set, name), name)
    counts = cluster.counts(row["requests"])
    for number, port in enumerate(row["endpoints"]):
        _expect_near(row["picked"].get(port, 0), counts[number], 0.08 * row["requests"], port)
    _expect(row["lb_healthy_panic"], cluster.stats.lb_healthy_panic)


def _locality_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["rows"]:
        yield Case(row["id"], partial(_locality, row))
    yield Case("states", partial(_states, document["states"]))


# outlier-panic-trace.yaml


class _DetectedCluster(Cluster):
    """A round robin cluster that ejects a host at its first 503."""

    def __init__(self, hosts: int, panic_threshold: int, seed: int) -> None:
        config = LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, healthy_panic_threshold=panic_threshold)
        super().__init__([make_host(number) for number in range(hosts)], config, ListedRandom([seed]))
        self.detector = Detector(
            OutlierDetection(consecutive_5xx=1, max_ejection_percent=100, base_ejection_time_ms=60_000),
            cluster_name="od",
            time_source=self.time,
            random=SeededRandom(1),
            on_change=self._on_change,
        )
        for host in self.hosts:
            host.monitor = self.detector.add_host(host.address)

    def _on_change(self, monitor: HostMonitor) -> None:
        number = next(number for number, host in enumerate(self.hosts) if host.monitor is monitor)
        self.flag(HealthFlag.FAILED_OUTLIER_CHECK, number, on=monitor.ejected)


def _trace_pick(recorded: object) -> object:
    """Return the host of a recorded pick: its number, or of `[number, status, body]` the first, -1 being none."""
    number = recorded[0] if isinstance(recorded, list) else recorded
    return None if number == -1 else number


def _trace(row: Row) -> None:
    def explains(seed: int) -> bool:
        cluster = _DetectedCluster(row["config"]["hosts"], row["config"]["healthy_panic_threshold"], seed)
        return all(_trace_step(cluster, step) for step in row["steps"])

    _expect_explained(explains)


def _trace_step(cluster: _DetectedCluster, step: Row) -> bool:
    panics = cluster.stats.lb_healthy_panic
    agrees = (
        [host.health_flags_text() for host in cluster.hosts] == list(step["flags"].values())
        and cluster.picks(len(step["picks"])) == [_trace_pick(pick) for pick in step["picks"]]
        and cluster.stats.lb_healthy_panic - panics == step["lb_healthy_panic_delta"]
        and cluster.priority_set.membership_healthy == step["membership_healthy"]
        and cluster.detector.stats.ejections_active == step["ejections_active"]
    )
    for failing in step["then_503_from"]:
        number = cluster.pick()
        agrees = agrees and number == _trace_pick(failing)
        if number is not None:
            cluster.hosts[number].monitor.put_http_response_code(503)
    return agrees


def _priority_trace(row: Row, residue_keys: Mapping[int, str]) -> None:
    """Two priorities of two hosts under ring hash, a key for each residue: every pick is determined."""
    hosts = [make_host(number, priority=number // 2) for number in range(4)]
    cluster = Cluster(hosts, LoadBalancerConfig(policy=LbPolicy.RING_HASH))
    for step in row["steps"]:
        for number, text in enumerate(step["flags"].values()):
            cluster.flag(HealthFlag.FAILED_OUTLIER_CHECK, number, on=text != "healthy")
        panics = cluster.stats.lb_healthy_panic
        counts = Counter(cluster.pick(Context(xxhash.xxh64_intdigest(key.encode()))) for key in residue_keys.values())
        _expect({int(host) - 1: count for host, count in step["picks_by_host"].items()}, dict(counts))
        _expect(step["lb_healthy_panic_delta"], cluster.stats.lb_healthy_panic - panics)


def _merge_window() -> None:
    raise Skipped("docs/parity.md: no merge window, an ejection reaches the balancer at once")


def _trace_cases(path: Path, document: Any) -> Iterator[Case]:
    residue_keys = yaml.safe_load((path.parent / "residue-keys.yaml").read_text())["keys"]
    for row in document:
        if row["id"] == "merge-window-trap":
            yield Case(row["id"], _merge_window)
        elif isinstance(row["config"], str):
            yield Case(row["id"], partial(_priority_trace, row, residue_keys))
        else:
            yield Case(row["id"], partial(_trace, row))


FILES: Mapping[str, Callable[[Path, Any], Iterable[Case]]] = {
    "edf": _edf_cases,
    "slow-start": _slow_start_cases,
    "locality": _locality_cases,
    "outlier-panic-trace": _trace_cases,
}
