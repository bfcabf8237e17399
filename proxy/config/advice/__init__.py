"""What is legal and will surprise: the warnings that `outlier check` adds to Istio's own.

Each module looks at one subject and yields findings; each says what will happen instead of what was probably meant.
"""

from collections.abc import Iterator

from outlier import EnvoyRelease
from proxy.config.advice.outlier_advice import cluster_outlier_advice, rule_outlier_advice
from proxy.config.advice.policy_advice import policy_advice
from proxy.config.advice.route_advice import route_advice
from proxy.config.advice.rule_advice import rule_advice
from proxy.config.advice.service_advice import service_advice
from proxy.config.advice.shadow_advice import shadow_advice
from proxy.config.advice.text_advice import text_advice
from proxy.config.advice.tls_advice import tls_advice
from proxy.config.issue import Issue
from proxy.config.static_config import StaticConfig


def advise(config: StaticConfig, envoy_release: EnvoyRelease = EnvoyRelease.V1_40) -> Iterator[Issue]:
    """Yield every surprise in a configuration, by subject."""
    for resource in config.resources.values():
        yield from text_advice(config, resource)
        yield from rule_outlier_advice(config, resource)
        yield from policy_advice(config, resource)
        yield from tls_advice(config, resource)
        yield from service_advice(config, resource)
        yield from shadow_advice(config, resource)
        yield from route_advice(config, resource)
    yield from rule_advice(config)
    yield from cluster_outlier_advice(config, envoy_release)
