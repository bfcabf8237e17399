"""Vectors of the hash policies: rings, tables, picks, retries, and the hash of a request."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import xxhash

from proxy.config.cluster_config import Endpoint, HashFunction, HealthStatus, LbPolicy, LoadBalancerConfig, Locality
from proxy.config.hash_policy import CookieHash, HashPolicy, HeaderHash, QueryParameterHash, SourceIpHash
from proxy.load_balancer.hash_members import hash_key, hash_members
from proxy.load_balancer.hash_policy import HashPolicies
from proxy.load_balancer.hash_table import HashTableBuilder
from proxy.load_balancer.maglev import Maglev, build_maglev
from proxy.load_balancer.ring_hash import Ring, build_ring
from proxy.upstream.host import Host
from proxy.upstream.priority_set import HostSet
from tests.conformance.runner import Case, Mismatch
from tests.proxy.load_balancer.cluster import Cluster, Context, make_host

Row = Mapping[str, Any]


def _expect(expected: object, actual: object, where: str = "") -> None:
    if expected != actual:
        raise Mismatch(expected, actual, where)


# ring-hash.yaml and maglev.yaml: keys on a real cluster


def _hosts(rows: Iterable[Row]) -> Iterator[Host]:
    for row in rows:
        for each in row.get("hosts", [row]):
            yield Host(
                Endpoint(
                    address=each["address"],
                    hash_key=each.get("hash_key"),
                    weight=each["weight"],
                    health_status=HealthStatus(each.get("health", "UNKNOWN")),
                    locality=Locality(row.get("locality", "")),
                )
            )


def _by_hostname(host: Host) -> Host:
    """Return the host with what the row calls its hash key as its name instead."""
    return Host(attrs.evolve(host.endpoint, hostname=host.endpoint.hash_key, hash_key=None))


def _keyed_picks(row: Row) -> None:
    config = row["config"]
    by_hostname = config.get("use_hostname_for_hashing", False)
    settings = LoadBalancerConfig(
        policy=LbPolicy(row["lb_policy"]),
        ring_hash_minimum_size=config.get("minimum_ring_size"),
        ring_hash_maximum_size=config.get("maximum_ring_size"),
        ring_hash_function=HashFunction(config.get("hash_function", "XX_HASH")),
        maglev_table_size=config.get("table_size"),
        use_hostname_for_hashing=by_hostname,
        healthy_panic_threshold=config.get("healthy_panic_threshold"),
        locality_weighted=config.get("locality_weighted_lb_config", False),
        locality_weights={
            (0, Locality(each["locality"])): each["locality_weight"] for each in row["hosts"] if "locality" in each
        },
    )
    hosts = list(_hosts(row["hosts"]))
    cluster = Cluster(list(map(_by_hostname, hosts)) if by_hostname else hosts, settings)
    for key, address in row["picks"].items():
        host = cluster.load_balancer.choose_host(Context(xxhash.xxh64_intdigest(key.encode())))
        _expect(address, "no host (503)" if host is None else host.address, key)


def _keyed_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["clusters"]:
        yield Case(row["id"], partial(_keyed_picks, row))
    for key, value in document["key_hashes"].items():
        yield Case(
            f"hash-of-{key}",
            partial(lambda key, value: _expect(value, xxhash.xxh64_intdigest(key.encode())), key, value),
        )


# hash-retry.yaml: a retry with and without the predicate that refuses hosts tried before


def _hash_retry(row: Row) -> None:
    policy = LbPolicy.MAGLEV if "maglev" in row["route"] else LbPolicy.RING_HASH
    cluster = Cluster([make_host(number) for number in range(5)], LoadBalancerConfig(policy=policy))
    context = Context(xxhash.xxh64_intdigest(row["key"].encode()))
    first = cluster.load_balancer.choose_host(context)
    assert first is not None
    if "no predicate" not in row["route"]:
        context.refused = [first]
        context.host_selection_retry_count = 5 if "attempts 5" in row["route"] else 1
    second = cluster.load_balancer.choose_host(context)
    assert second is not None
    _expect([f"127.0.0.1:{row['first']}", f"127.0.0.1:{row['second']}"], [first.address, second.address])


def _hash_retry_cases(_path: Path, document: Any) -> Iterator[Case]:
    for row in document["rows"]:
        yield Case(f"{row['route']} {row['key']}", partial(_hash_retry, row))


# hash-unit.yaml: whole rings and tables


def _built(builder: HashTableBuilder) -> Any:
    while True:
        try:
            next(builder)
        except StopIteration as end:
            return end.value


def _table(row: Row) -> Any:
    locality_weights = None
    named = [(name, row.get("weights", [1] * 99)[n], 0) for n, name in enumerate(row.get("hosts", []))]
    if "localities" in row:
        locality_weights = {(0, Locality(str(n))): each["weight"] for n, each in enumerate(row["localities"])}
        named = [(*host, n) for n, each in enumerate(row["localities"]) for host in each["hosts"]]
    hosts = [Host(Endpoint(address=name, weight=weight, locality=Locality(str(n)))) for name, weight, n in named]
    members = hash_members(HostSet(0, hosts), panic=False, locality_weights=locality_weights)
    keys = [hash_key(host, use_hostname=False) for host in members.hosts]
    if "table_size" in row:
        return _built(build_maglev(members, keys, table_size=row["table_size"]))
    return _built(
        build_ring(
            members,
            keys,
            minimum_size=row["min_ring_size"],
            maximum_size=row.get("max_ring_size", 8 << 20),
            hash_function=HashFunction(row.get("hash_function", "XX_HASH")),
        )
    )


def _ring(row: Row) -> None:
    ring: Ring = _table(row)
    _expect([tuple(entry) for entry in row["ring"]], [(value, host.address) for value, host in ring.entries()])
    for value, address in row.get("picks", []):
        _expect(address, ring.host(value, 0).address, str(value))


def _ring_histogram(row: Row) -> None:
    ring: Ring = _table(row)
    step = (2**64 - 1) // row["samples"]
    counts = Counter(ring.host(number * step, 0).address for number in range(row["samples"]))
    _expect(row["counts"], [counts[address] for address in row["hosts"]])
    _expect([row["size"], row["min_hashes"], row["max_hashes"]], list(ring.gauges.values()))


def _ring_retry(ring: Row, row: Row) -> None:
    hosts = [Host(Endpoint(address=address)) for address in ring["hosts"]]
    config = LoadBalancerConfig(policy=LbPolicy.RING_HASH, ring_hash_minimum_size=ring["min_ring_size"])
    refused = [host for host in hosts if row["rejected"] in (host.address, "all")]
    host = Cluster(hosts, config).load_balancer.choose_host(
        Context(row["hash"], refused, row["host_selection_retries"])
    )
    _expect(row["pick"], host and host.address)


def _maglev(row: Row) -> None:
    table: Maglev = _table(row)
    _expect(row["table"], [host.address for host in table.entries()])


def _maglev_retry(row: Row, retry: Row) -> None:
    table: Maglev = _table(row)
    _expect(retry["pick"], table.host(retry["hash"], retry["attempt"]).address)


def _hash_unit_cases(_path: Path, document: Any) -> Iterator[Case]:
    rings = {row["id"]: row for row in document["rings"]}
    tables = {row["id"]: row for row in document["maglev"]}
    for name, row in rings.items():
        yield Case(name, partial(_ring, row))
    for row in document["ring_histograms"]:
        yield Case(f"ring-histogram-{row['size']}", partial(_ring_histogram, row))
    for number, row in enumerate(document["ring_retry"]):
        yield Case(f"ring-retry-{number}", partial(_ring_retry, rings[row["ring"]], row))
    for name, row in tables.items():
        yield Case(name, partial(_maglev, row))
    for row in document["maglev_retry"]:
        yield Case(f"maglev-retry-{row['attempt']}", partial(_maglev_retry, tables[row["table"]], row))


# hash-policy.yaml: the hash of a request, and the host it leads to on five hosts


@attrs.frozen
class _Request:
    """The request of a row, over the connection that the recordings were made on."""

    headers: tuple[tuple[bytes, bytes], ...]
    path: bytes
    source_ip: str
    remote_address: str = "127.0.0.1:34722"
    local_address: str = "127.0.0.1:21000"


def _policies(text: str) -> Iterator[HashPolicy]:
    """Read the words that a row describes its policies with."""
    for part in text.split(", "):
        words = part.replace("query_parameter", "query").split()
        terminal = words[-1] == "(terminal)"
        match words:
            case ["header", name, "with", "regex_rewrite", regex, "->", substitution]:
                yield HeaderHash(name=name, regex=regex, substitution=substitution)
            case ["header", name, *_]:
                yield HeaderHash(name=name, terminal=terminal)
            case ["cookie", name, "(no", "ttl)"]:
                yield CookieHash(name=name)
            case ["cookie", name, "ttl", ttl, *path]:
                yield CookieHash(name=name, ttl_s=int(ttl.removesuffix("s")), path=path[-1] if path else "")
            case ["query", name]:
                yield QueryParameterHash(name=name)
            case ["source_ip"] | ["connection_properties.source_ip"]:
                yield SourceIpHash()
            case _:
                raise ValueError(part)


def _hash_policy(row: Row) -> None:
    headers = tuple((name.encode(), value.encode()) for name, value in row.get("headers", []))
    source_ip = dict(headers).get(b"x-forwarded-for", b"127.0.0.1").decode()
    request = _Request(headers, row.get("path", "/").encode(), source_ip)

    found = HashPolicies(_policies(row["policy"])).evaluate(request)

    if "set_cookie" in row:
        _expect((row["set_cookie"].encode(),), found.set_cookies)
    else:
        _expect(row["combined_hash"], found.hash)
        _expect((), found.set_cookies)
    if found.hash is not None:
        cluster = Cluster([make_host(number) for number in range(5)], LoadBalancerConfig(policy=LbPolicy.RING_HASH))
        host = cluster.load_balancer.choose_host(Context(found.hash))
        _expect(row["pick"], host and host.address)


def _hash_policy_cases(_path: Path, document: Any) -> Iterator[Case]:
    for number, row in enumerate(document["rows"]):
        yield Case(f"{number} {row['policy']}", partial(_hash_policy, row))


FILES: Mapping[str, Callable[[Path, Any], Iterable[Case]]] = {
    "ring-hash": _keyed_cases,
    "maglev": _keyed_cases,
    "hash-retry": _hash_retry_cases,
    "hash-unit": _hash_unit_cases,
    "hash-policy": _hash_policy_cases,
}
