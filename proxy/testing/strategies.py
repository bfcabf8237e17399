"""Hypothesis strategies for outlier detection, the rules that configure it, and traffic that tries them.

Values are plain YAML-able data, so that what is drawn can be written to a file as well as handed to the product. Needs
hypothesis. `DetectorMachine`, for histories step by step, is `machine`'s.
"""

from typing import Any

from hypothesis import strategies as st

from proxy.testing.machine import DetectorMachine

__all__ = [
    "DetectorMachine",
    "connection_pools",
    "destination_rules",
    "durations",
    "load_balancers",
    "outlier_detections",
    "retry_budgets",
    "traffic",
    "traffic_policies",
]

Rule = dict[str, Any]

# Bounds keep drawn rules usable: a ring of millions of entries is legal, and costs a test minutes.
_MAX_RING_SIZE = 8192
_MAGLEV_SIZES = (251, 1021, 65537)


def durations(minimum_ms: int = 1, maximum_ms: int = 3_600_000) -> st.SearchStrategy[str]:
    """Draw Go durations of whole milliseconds, in several spellings."""

    def spell(duration_ms: int) -> st.SearchStrategy[str]:
        spellings = [f"{duration_ms}ms", f"{duration_ms / 1000:.3f}s"]
        if duration_ms % 1000 == 0:
            spellings.append(f"{duration_ms // 1000}s")
        if duration_ms % 60_000 == 0:
            spellings.append(f"{duration_ms // 60_000}m")
        return st.sampled_from(spellings)

    return st.integers(minimum_ms, maximum_ms).flatmap(spell)


def outlier_detections() -> st.SearchStrategy[Rule]:
    """Draw valid `outlierDetection` blocks, any of their fields missing."""
    counts = st.integers(0, 20)
    block = st.fixed_dictionaries(
        {},
        optional={
            "consecutive5xxErrors": counts,
            "consecutiveGatewayErrors": counts,
            "interval": durations(),
            "baseEjectionTime": durations(),
            "maxEjectionPercent": st.integers(0, 100),
            "minHealthPercent": st.integers(0, 100),
            "splitExternalLocalOriginErrors": st.booleans(),
            "consecutiveLocalOriginFailures": counts,
            "outlierDetectionHttpErrorCodes": st.lists(st.integers(100, 599), min_size=1, max_size=4),
        },
    )
    return block.map(_with_split)


def _with_split(block: Rule) -> Rule:
    """A count of local failures is refused without the split."""
    if block.get("consecutiveLocalOriginFailures", 0) > 0:
        return block | {"splitExternalLocalOriginErrors": True}
    return block


def connection_pools() -> st.SearchStrategy[Rule]:
    """Draw valid `connectionPool` blocks."""
    limits = st.integers(0, 10_000)
    tcp = st.fixed_dictionaries(
        {},
        optional={
            "maxConnections": limits,
            "connectTimeout": durations(),
            "maxConnectionDuration": durations(),
            "idleTimeout": durations() | st.just("0s"),
            "tcpKeepalive": st.fixed_dictionaries(
                {}, optional={"probes": st.integers(1, 9), "time": durations(1000), "interval": durations(1000)}
            ),
        },
    )
    http = st.fixed_dictionaries(
        {},
        optional={
            "http1MaxPendingRequests": limits,
            "http2MaxRequests": limits,
            "maxRequestsPerConnection": limits,
            "maxRetries": limits,
            "idleTimeout": durations(),
            "maxConcurrentStreams": limits,
        },
    )
    both = st.fixed_dictionaries({"tcp": tcp, "http": http})
    return both | st.fixed_dictionaries({"tcp": tcp}) | st.fixed_dictionaries({"http": http})


def load_balancers() -> st.SearchStrategy[Rule]:
    """Draw valid `loadBalancer` blocks without locality settings."""
    warmup = st.fixed_dictionaries(
        {"duration": durations()},
        optional={"minimumPercent": st.integers(0, 100), "aggression": st.floats(0.1, 10.0)},
    )
    names = st.sampled_from(["LEAST_CONN", "LEAST_REQUEST", "RANDOM", "ROUND_ROBIN", "UNSPECIFIED"])
    simple = st.fixed_dictionaries({"simple": names}, optional={"warmup": warmup})
    keys: list[st.SearchStrategy[Rule]] = [
        st.just({"httpHeaderName": "x-user"}),
        st.just({"useSourceIp": True}),
        st.just({"httpQueryParameterName": "user"}),
        st.fixed_dictionaries(
            {"httpCookie": st.fixed_dictionaries({"name": st.just("user")}, optional={"ttl": durations()})}
        ),
    ]
    sizes: list[st.SearchStrategy[Rule]] = [
        st.just({}),
        st.fixed_dictionaries({"minimumRingSize": st.integers(1, _MAX_RING_SIZE)}),
        st.fixed_dictionaries(
            {"ringHash": st.fixed_dictionaries({}, optional={"minimumRingSize": st.integers(1, _MAX_RING_SIZE)})}
        ),
        st.fixed_dictionaries(
            {"maglev": st.fixed_dictionaries({}, optional={"tableSize": st.sampled_from(_MAGLEV_SIZES)})}
        ),
    ]
    consistent_hash = st.tuples(st.one_of(keys), st.one_of(sizes)).map(
        lambda parts: {"consistentHash": parts[0] | parts[1]}
    )
    return simple | consistent_hash


def retry_budgets() -> st.SearchStrategy[Rule]:
    """Draw valid `retryBudget` blocks."""
    return st.fixed_dictionaries(
        {}, optional={"percent": st.integers(0, 100), "minRetryConcurrency": st.integers(0, 100)}
    )


def traffic_policies(ports: tuple[int, ...] = (80,)) -> st.SearchStrategy[Rule]:
    """Draw valid `trafficPolicy` blocks, with entries for some of `ports`."""
    blocks = {
        "outlierDetection": outlier_detections(),
        "connectionPool": connection_pools(),
        "loadBalancer": load_balancers(),
    }
    entries = st.lists(
        st.tuples(st.sampled_from(ports), _some_of(blocks)).map(
            lambda drawn: {"port": {"number": drawn[0]}} | drawn[1]
        ),
        min_size=1,
        max_size=len(ports),
    )
    return _some_of(blocks | {"retryBudget": retry_budgets(), "portLevelSettings": entries})


def _some_of(blocks: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Rule]:
    return st.fixed_dictionaries({}, optional=blocks).filter(bool)


def destination_rules(host: str = "reviews", ports: tuple[int, ...] = (80,)) -> st.SearchStrategy[Rule]:
    """Draw specs of valid DestinationRules for a host.

    Args:
        host: Its `host`.
        ports: Service ports that port entries may name; at least one.

    Subsets are named v1, v2, ... and select by the label `version`. What hosts would have to speak (TLS, tunnels,
    PROXY headers, HTTP/2) is not drawn.
    """
    subsets = st.lists(st.none() | traffic_policies(ports), max_size=3).map(_named)
    return st.fixed_dictionaries(
        {"host": st.just(host)}, optional={"trafficPolicy": traffic_policies(ports), "subsets": subsets}
    )


def _named(policies: list[Rule | None]) -> list[Rule]:
    subsets: list[Rule] = []
    for number, policy in enumerate(policies, 1):
        subset: Rule = {"name": f"v{number}", "labels": {"version": f"v{number}"}}
        subsets.append(subset if policy is None else subset | {"trafficPolicy": policy})
    return subsets


def traffic(
    hosts: int = 4, *, seconds: int = 900, rate: float = 2, moves: bool = False
) -> st.SearchStrategy[dict[str, Any]]:
    """Draw traffic over hosts that misbehave: a scenario for people (docs/scenarios.md) that lacks only the rule.

    Args:
        hosts: How many, 1 or more; they are named h0, h1, ...
        seconds: Its duration, 1 or more. Simplest are hosts that misbehave little, early, and all the time.
        rate: Requests a second over all hosts, above 0. A simulation costs about 6 us a request.
        moves: Whether hosts may be removed and others be added.
    """
    names = [f"h{number}" for number in range(hosts)]
    times = st.integers(0, seconds)
    what = st.sampled_from(
        ["fails with 503", "fails with 500", "answers 404", "refuses connections", "resets connections", "times out"]
    )
    shares = st.sampled_from(["", " in 50 % of requests", " in 10 % of requests"])
    spans = st.just("") | st.tuples(times, times).map(lambda pair: f" from {min(pair)}s to {max(pair)}s")
    sentences = st.tuples(st.sampled_from(names), what, shares, spans).map(
        lambda drawn: f"{drawn[0]} {''.join(drawn[1:])}"
    )
    misbehaviour = st.lists(sentences, max_size=3 * hosts)
    leaving = st.tuples(st.sampled_from(names), times).map(lambda drawn: f"{drawn[0]} is removed at {drawn[1]}s")
    joining = st.tuples(st.sampled_from(["n0", "n1"]), times).map(lambda drawn: f"{drawn[0]} is added at {drawn[1]}s")
    moved = st.lists(leaving | joining, max_size=hosts + 2, unique_by=lambda sentence: sentence.split()[0])
    membership = moved if moves else st.just([])
    return st.fixed_dictionaries(
        {
            "duration": st.just(f"{seconds}s"),
            "rate": st.just(rate),
            "hosts": st.just(names),
            "seed": st.integers(1, 1000),
            "behaviours": st.tuples(misbehaviour, membership).map(lambda drawn: [*drawn[0], *drawn[1]]),
        }
    )
