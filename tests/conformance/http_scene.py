"""The stage of the recorded HTTP rows: their routes, clusters and backend, rebuilt around our data plane.

The first segment of a row's path names its route and cluster (`/to300/...`), the query says how the backend behaves
(`act=rst`). Time is virtual: it passes only while nothing else happens.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs

from proxy.config.cluster_config import CircuitBreakers, HealthStatus, LbPolicy, LoadBalancerConfig, RetryBudget
from proxy.config.route_config import (
    DirectResponse,
    MatchKind,
    Redirect,
    RetryPolicy,
    Route,
    RouteAction,
    RouteMatch,
    StringMatcher,
    VirtualHost,
)
from proxy.testing import Fault, FaultyUpstream, RecordedRequest, Reply
from tests.proxy.http.client import Response
from tests.proxy.http.sidecar import CLUSTER, ManualClock, Sidecar, arrived, until

_ENVOY_TIMEOUT_MS = 15_000  # a route's own default, which the recordings run with

# Virtual time goes on by such a step after so many turns of the loop in which nothing came to an end, and after as
# much real time as the kernel of a busy machine may need to carry bytes from one socket to another.
_STEP_MS = 5
_IDLE_TURNS = 20
_IDLE_S = 0.001


def retries(retry_on: str = "", num_retries: int = 2, **fields: Any) -> RetryPolicy:
    """Return a policy whose back-off is too short to matter."""
    return RetryPolicy(num_retries=num_retries, retry_on=retry_on, base_interval_ms=1, **fields)


# Fields of the `RouteAction`, by the first segment of the path.
ACTIONS: Mapping[str, Mapping[str, Any]] = {
    "b": {},
    "nocluster": {"cluster": "outbound|80||nowhere"},
    "ptidle": {"retry": retries("5xx", 1, per_try_idle_timeout_ms=200)},
    "ptt": {"retry": retries(per_try_timeout_ms=200)},
    "ptt5xx": {"retry": retries("5xx", per_try_timeout_ms=200)},
    "pttgw": {"retry": retries("gateway-error", 1, per_try_timeout_ms=200)},
    "pttreset": {"retry": retries("reset", 1, per_try_timeout_ms=200)},
    "r5xx": {"retry": retries("5xx")},
    "r5xx_bud0": {"retry": retries("5xx")},
    "rcf_blackhole": {"retry": retries("connect-failure", 1)},
    "rcf_mixed": {"retry": retries("connect-failure")},
    "rcodes": {"retry": retries("retriable-status-codes", retriable_status_codes=(418, 404))},
    "rewrite": {"prefix_rewrite": "/rw/", "host_rewrite": "rewritten.example"},
    "rrs_refused": {"retry": retries("refused-stream")},
    "to0": {"timeout_ms": 0},
    "to300": {"timeout_ms": 300},
    "to300r": {"timeout_ms": 300, "retry": retries("5xx")},
}

_UNHEALTHY = {"endpoint": {"health_status": HealthStatus.UNHEALTHY}}


def _balancer(**fields: Any) -> LoadBalancerConfig:
    return LoadBalancerConfig(policy=LbPolicy.ROUND_ROBIN, **fields)


# Fields of the cluster, by the same segment; nothing for a segment that is not here.
CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "allunhealthy": _UNHEALTHY | {"load_balancer": _balancer()},
    "allunhealthy_fail": _UNHEALTHY | {"load_balancer": _balancer(fail_traffic_on_panic=True)},
    "allunhealthy_t0": _UNHEALTHY | {"load_balancer": _balancer(healthy_panic_threshold=0)},
    "cbconn0": {"circuit_breakers": CircuitBreakers(max_connections=0)},
    "cbpend0": {"circuit_breakers": CircuitBreakers(max_pending_requests=0)},
    "empty": {},
    "r5xx_bud0": {
        "circuit_breakers": CircuitBreakers(retry_budget=RetryBudget(budget_percent=0.0, min_retry_concurrency=0))
    },
    "rcf_blackhole": {"connect_timeout_ms": 300},
    "refused": {},
}


@attrs.frozen
class Outcome:
    """What one request came to.

    `log` is its line in the access log, `upstream_requests` is what the backend saw, `address` is the backend's.
    """

    response: Response
    log: Mapping[str, Any]
    upstream_requests: tuple[RecordedRequest, ...]
    address: str


async def play(
    data: bytes,
    *replies: Reply,
    segment: str = "b",
    actions: Mapping[str, Mapping[str, Any]] = ACTIONS,
    refused_first: bool = True,
) -> Outcome:
    """Send one request through a new data plane.

    Args:
        data: The request.
        replies: The backend's, one each; the last one for ever.
        segment: First of the path.
        actions: Fields of the route actions.
        refused_first: Of two hosts, whether the one that refuses connections comes first.
    """
    clock = ManualClock()
    async with FaultyUpstream() as upstream, _hosts(segment, upstream, refused_first=refused_first) as hosts:
        upstream.set(replies[-1])
        upstream.sequence(replies[:-1])
        async with Sidecar(*hosts, clock=clock, **CLUSTERS.get(segment, {})) as sidecar:
            sidecar.set_routes(_virtual_host(actions))
            client = await sidecar.client()
            answer = asyncio.ensure_future(client.request(data))
            await _pass_time(clock, answer)
            response = await answer
            return Outcome(response, sidecar.log[-1], tuple(upstream.requests), upstream.address)


async def abandon(data: bytes) -> Mapping[str, Any]:
    """Send a request that is never answered, go away once the backend has it; return its line in the access log."""
    async with FaultyUpstream(fault=Fault.HANG) as upstream, Sidecar(upstream) as sidecar:
        client = await sidecar.client()
        client.send(data)
        await arrived(upstream)
        client.abort()
        await until(lambda: sidecar.log)
        return sidecar.log[-1]


async def _pass_time(clock: ManualClock, answer: asyncio.Future[Response]) -> None:
    while not answer.done():
        for _ in range(_IDLE_TURNS):
            await asyncio.sleep(0)
        await asyncio.wait((answer,), timeout=_IDLE_S)
        clock.advance(_STEP_MS)


def _virtual_host(actions: Mapping[str, Mapping[str, Any]]) -> VirtualHost:
    defaults = {"cluster": CLUSTER, "timeout_ms": _ENVOY_TIMEOUT_MS}
    routes = [
        _route(name, RouteAction(**(defaults | dict(actions.get(name, {})))))
        for name in sorted(CLUSTERS.keys() | actions.keys())
    ]
    routes += (
        _route("direct", RouteAction(), direct_response=DirectResponse(status=403, body=b"nope")),
        _route("redir", RouteAction(), redirect=Redirect(host="other.example", path="/new")),
    )
    return VirtualHost(name="all", service_host="service", port=80, domains=("*",), routes=tuple(routes))


def _route(name: str, action: RouteAction, **fields: Any) -> Route:
    path = StringMatcher(MatchKind.PREFIX, f"/{name}/")
    return Route(name=name, match=RouteMatch(path=path), action=action, **fields)


@contextlib.asynccontextmanager
async def _hosts(
    segment: str, upstream: FaultyUpstream, *, refused_first: bool
) -> AsyncIterator[tuple[FaultyUpstream | str, ...]]:
    """Yield the hosts of a cluster: the backend, unless the segment asks for others."""
    match segment:
        case "empty":
            yield ()
        case "refused" | "rrs_refused" | "rcf_mixed":
            async with FaultyUpstream() as refusing:
                await refusing.refuse()
                if segment == "rcf_mixed":
                    yield (refusing.address, upstream) if refused_first else (upstream, refusing.address)
                else:
                    yield (refusing.address,)
        case "rcf_blackhole":
            with contextlib.ExitStack() as sockets:
                yield (_black_hole(sockets),)
        case _:
            yield (upstream,)


def _black_hole(sockets: contextlib.ExitStack) -> str:
    """Return an address that takes no further connection and refuses none: its queue of unaccepted ones is full."""
    listener = sockets.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    for _ in range(4):
        waiting = sockets.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
    return f"127.0.0.1:{listener.getsockname()[1]}"
