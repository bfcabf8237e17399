"""Choosing the host of each attempt, as Envoy's load balancing policies do.

Pure: no sockets, no clock, no randomness but what is passed in. Start at `load_balancer` for what all policies share,
at `priority_load` for priorities and panic.
"""

from outlier.sources import RandomGenerator, TimeSource
from proxy.config.cluster_config import LbPolicy, LoadBalancerConfig
from proxy.load_balancer.least_request import LeastRequest
from proxy.load_balancer.load_balancer import LoadBalancer, LoadBalancerContext, LoadBalancerStats
from proxy.load_balancer.random_choice import RandomChoice
from proxy.load_balancer.round_robin import RoundRobin
from proxy.upstream.priority_set import PrioritySet

__all__ = ["LoadBalancer", "LoadBalancerContext", "LoadBalancerStats", "create_load_balancer"]


def create_load_balancer(
    config: LoadBalancerConfig,
    priority_set: PrioritySet,
    random: RandomGenerator,
    time_source: TimeSource,
    stats: LoadBalancerStats,
) -> LoadBalancer:
    """Return the balancer of `config.policy` over `priority_set`, which it follows until it is closed.

    Args:
        config: Policy and settings.
        priority_set: The cluster's hosts.
        random: Draws seeds and, where the policy or the priorities need chance, one or more numbers a pick.
        time_source: Clock of slow start.
        stats: What the balancer counts.
    """
    match config.policy:
        case LbPolicy.ROUND_ROBIN:
            return RoundRobin(config, priority_set, random, time_source, stats)
        case LbPolicy.LEAST_REQUEST:
            return LeastRequest(config, priority_set, random, time_source, stats)
        case LbPolicy.RANDOM:
            return RandomChoice(config, priority_set, random, stats)
    raise NotImplementedError(config.policy)
