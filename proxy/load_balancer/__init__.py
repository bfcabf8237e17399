"""Choosing the host of each attempt, as Envoy's load balancing policies do.

Pure: no sockets, no clock, no randomness but what is passed in. Start at `load_balancer` for what all policies share,
at `priority_load` for priorities and panic, at `hash_policy` for the hash of a request.
"""

from collections.abc import Callable

from outlier.sources import RandomGenerator, TimeSource
from proxy.config.cluster_config import Endpoint, LbPolicy, LoadBalancerConfig
from proxy.load_balancer.explanation import Explanation
from proxy.load_balancer.hash_load_balancer import Defer, HashLoadBalancer
from proxy.load_balancer.least_request import LeastRequest
from proxy.load_balancer.load_balancer import LoadBalancer, LoadBalancerContext, LoadBalancerStats
from proxy.load_balancer.original_destination import OriginalDestination
from proxy.load_balancer.random_choice import RandomChoice
from proxy.load_balancer.retry_priority import PreviousPriorities
from proxy.load_balancer.round_robin import RoundRobin
from proxy.upstream.host import Host
from proxy.upstream.priority_set import PrioritySet

__all__ = [
    "Explanation",
    "LoadBalancer",
    "LoadBalancerContext",
    "LoadBalancerStats",
    "PreviousPriorities",
    "create_load_balancer",
]


def create_load_balancer(
    config: LoadBalancerConfig,
    priority_set: PrioritySet,
    random: RandomGenerator,
    time_source: TimeSource,
    stats: LoadBalancerStats,
    *,
    defer: Defer | None = None,
    new_host: Callable[[Endpoint], Host] = Host,
) -> LoadBalancer:
    """Return the balancer of `config.policy` over `priority_set`, which it follows until it is closed.

    Args:
        config: Policy and settings.
        priority_set: The cluster's hosts.
        random: Draws seeds and, where the policy or the priorities need chance, one or more numbers a pick.
        time_source: Clock of slow start.
        stats: What the balancer counts and reads.
        defer: Runs a function soon, but not within the call: an event loop's `call_soon`. Large hash tables are then
            built in steps of about a millisecond beside the traffic; with None, at once.
        new_host: Makes the host of an address that a request names, under original destination.
    """
    match config.policy:
        case LbPolicy.ROUND_ROBIN:
            return RoundRobin(config, priority_set, random, time_source, stats)
        case LbPolicy.LEAST_REQUEST:
            return LeastRequest(config, priority_set, random, time_source, stats)
        case LbPolicy.RANDOM:
            return RandomChoice(config, priority_set, random, stats)
        case LbPolicy.RING_HASH | LbPolicy.MAGLEV:
            return HashLoadBalancer(config, priority_set, random, stats, defer=defer)
        case LbPolicy.CLUSTER_PROVIDED:
            return OriginalDestination(config, priority_set, random, stats, new_host=new_host)
