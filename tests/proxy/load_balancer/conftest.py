"""A cluster of hosts that a test builds, hurts and picks from."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from outlier.sources import RandomGenerator, SeededRandom
from proxy.config.cluster_config import LbPolicy, LoadBalancerConfig
from proxy.upstream.host import Host
from tests.proxy.load_balancer.cluster import Cluster, make_host


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
        defer: Callable[[Callable[[], None]], object] | None = None,
        **config: Any,
    ) -> Cluster:
        members = hosts or [make_host(number, weight=weight) for number, weight in enumerate(weights)]
        return Cluster(members, LoadBalancerConfig(policy=policy, **config), random or SeededRandom(seed), defer)

    return make
