"""A scenario with an Istio rule in it: the rule, converted, gives the detector's settings.

The engine knows scenarios with Envoy's settings only (`outlier.scenario`); rules and their conversion are Istio's.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from outlier import OutlierDetection, Scenario, ScenarioError
from proxy.config.destination_rule import DestinationRule
from proxy.config.mesh_config import MeshConfig
from proxy.config.outlier_conversion import convert_outlier_detection
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.resource import read_resources
from proxy.config.traffic_policy import effective_policy

_API_VERSION = "networking.istio.io/v1"
_ENVOY_PANIC_THRESHOLD = 50  # percent; applies when Istio sends none


def read_scenario(
    data: Mapping[str, Any],
    *,
    rule: DestinationRule | None = None,
    istio: IstioRelease = CURRENT,
    mesh: MeshConfig | None = None,
) -> Scenario:
    """Read one scenario.

    Args:
        data: As in docs/scenarios.md; its `destination_rule` gives the detector's settings.
        rule: In place of what the scenario says.
        istio: Who converts the rule.
        mesh: Whose default policy fills in what the rule leaves out.

    Raises:
        ScenarioError: Something in it is refused; `path` says where.
        ConfigError: A setting of the detector is refused.
    """
    own = data.get("destination_rule")
    if own is not None and "outlier_detection" in data:
        raise ScenarioError("destination_rule", "give either this or outlier_detection")
    scenario = Scenario.from_dict({key: value for key, value in data.items() if key != "destination_rule"})
    if own is not None and rule is None:
        rule = read_rule(own)
    return scenario if rule is None else _with_rule(scenario, data, rule, istio, mesh or MeshConfig())


def read_rule(data: Any) -> DestinationRule:
    """Read a rule: its spec alone, or the whole Kubernetes object or MCP resource.

    Raises:
        ScenarioError: It is refused, or is no DestinationRule.
    """
    contents = read_resources(json.dumps(rule_document(data), default=str), "")
    for issue in contents.errors:
        raise ScenarioError("destination_rule", issue.message)
    for resource in contents.resources.values():
        if isinstance(resource.body, DestinationRule):
            return resource.body
    raise ScenarioError("destination_rule", "is no DestinationRule")


def rule_document(data: Any) -> Any:
    """Return a bare spec as a Kubernetes object; anything else as it is."""
    if isinstance(data, Mapping) and not data.keys() & {"kind", "body", "metadata"}:
        return {"apiVersion": _API_VERSION, "kind": "DestinationRule", "metadata": {"name": "rule"}, "spec": data}
    return data


def _with_rule(
    scenario: Scenario, data: Mapping[str, Any], rule: DestinationRule, istio: IstioRelease, mesh: MeshConfig
) -> Scenario:
    """Return the scenario with the settings that Istio sends for the rule's top-level policy.

    Raises:
        ScenarioError: The rule has no outlierDetection.
    """
    effective = effective_policy(rule.traffic_policy, None, None, mesh.default_traffic_policy)
    conversion = convert_outlier_detection(effective.policy.outlier_detection if effective else None, istio)
    if conversion.fields is None:
        raise ScenarioError(
            "destination_rule", f"the rule for {rule.host} has no outlierDetection, so nothing is ejected"
        )
    scenario = attrs.evolve(scenario, config=OutlierDetection(**conversion.fields))
    if scenario.traffic is None:
        return scenario
    panic = _ENVOY_PANIC_THRESHOLD if conversion.panic is None else int(conversion.panic)
    traffic = attrs.evolve(
        scenario.traffic,
        panic_threshold=data.get("panic_threshold", panic),
        error_codes=frozenset(conversion.error_codes) or scenario.traffic.error_codes,
    )
    return attrs.evolve(scenario, traffic=traffic)
