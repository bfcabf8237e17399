"""Surprises between rules and services: rules that reach nothing, subsets without endpoints, rules outdone."""

from collections import defaultdict
from collections.abc import Iterator

from proxy.config.advice.policies import placed_policies
from proxy.config.destination_rule import DestinationRule, PortTrafficPolicy
from proxy.config.host_names import complete_host, covers
from proxy.config.issue import Issue
from proxy.config.resource import Key, Resource
from proxy.config.rule_index import MergedRule
from proxy.config.service_index import Service
from proxy.config.static_config import StaticConfig
from proxy.config.virtual_service import VirtualService


def rule_advice(config: StaticConfig) -> Iterator[Issue]:
    """Yield the rules and subsets that do not do what they seem to."""
    return _RuleAdvice(config).issues()


class _RuleAdvice:
    """The configuration seen from its services: which rules apply where, and which subsets routes lead to."""

    def __init__(self, config: StaticConfig) -> None:
        self._config = config
        self._node = config.builder.context.node
        self._applied: dict[Key, list[Service]] = defaultdict(list)
        self._routed = set(self._routed_subsets())

    def issues(self) -> Iterator[Issue]:
        for service in self._config.builder.services():
            rule = self._config.builder.rule(service)
            for resource in rule.resources if rule is not None else ():
                self._applied[resource.key].append(service)
            yield from self._merged(rule)
            yield from self._locality(service, rule)
        for resource in self._config.resources.values():
            if not isinstance(resource.body, DestinationRule):
                continue
            services = self._applied.get(resource.key)
            if services is None:
                yield self._unused(resource, resource.body)
            else:
                yield from self._subsets(resource, resource.body, services)
                yield from self._ports(resource, resource.body, services)

    def _routed_subsets(self) -> Iterator[tuple[str, str]]:
        for resource in self._config.resources.values():
            if not isinstance(resource.body, VirtualService):
                continue
            for route in resource.body.http:
                for entry in route.route if route is not None else ():
                    if entry is not None and entry.destination is not None:
                        host = complete_host(entry.destination.host, resource.namespace, self._node.domain)
                        yield host, entry.destination.subset

    def _unused(self, resource: Resource, rule: DestinationRule) -> Issue:
        """Say why a rule applies to no service."""
        services = list(self._config.builder.services())
        host = complete_host(rule.host, resource.namespace, self._node.domain)
        covered = next((service for service in services if covers(host, service.host)), None)
        if covered is None:
            known = next((service.host for service in services if service.host.startswith(f"{rule.host}.")), "")
            hint = f"; did you mean {known}?" if known else ""
            means = "" if host == rule.host else f" ({host})"
            rule_text = f"no service has this host{means}, so the rule does nothing{hint}"
            return self._config.issue(resource, ("host",), rule_text)
        chosen = self._config.builder.rule(covered)
        if rule.workload_selector is not None and (chosen is None or chosen.selector is None):
            client = f"namespace {self._node.namespace}, labels {dict(self._node.labels)}"
            return self._config.issue(resource, ("workloadSelector",), f"does not fit this sidecar ({client})")
        if chosen is not None:
            winner = f"{chosen.resources[0]} comes first for {covered.host}"
            return self._config.issue(resource, ("host",), f"{winner}; this rule does nothing")
        rule_text = f"the rule is not visible to a sidecar of namespace {self._node.namespace}"
        return self._config.issue(resource, ("exportTo",), rule_text)

    def _merged(self, rule: MergedRule | None) -> Iterator[Issue]:
        if rule is None or len(rule.resources) == 1:
            return
        first = {merged.subset.name: merged.resource for merged in rule.subsets}
        for resource in rule.resources:
            body = resource.body
            assert isinstance(body, DestinationRule)
            if body.traffic_policy is not None and resource is not rule.policy_from:
                text = f"is ignored: {rule.policy_from} already has one for {rule.host}, and they do not merge"
                yield self._config.issue(resource, ("trafficPolicy",), text)
            for index, subset in enumerate(body.subsets):
                if subset is not None and first.get(subset.name) is not resource:
                    text = f"is ignored: {first[subset.name]} already defines the subset"
                    yield self._config.issue(resource, ("subsets", index, "name"), text)

    def _subsets(self, resource: Resource, rule: DestinationRule, services: list[Service]) -> Iterator[Issue]:
        clusters = self._config.builder.snapshot.clusters
        for index, subset in enumerate(rule.subsets):
            if subset is None:
                continue
            names = [
                f"outbound|{port.number}|{subset.name}|{service.host}" for service in services for port in service.ports
            ]
            path = ("subsets", index)
            if not any(name in clusters and clusters[name].endpoints for name in names):
                text = "no endpoint carries these labels; requests to the subset get 503"
                yield self._config.issue(resource, (*path, "labels"), text)
            elif subset.traffic_policy is not None and not any(
                (service.host, subset.name) in self._routed for service in services
            ):
                text = "applies only to requests that a VirtualService sends to the subset, and none does"
                yield self._config.issue(resource, (*path, "trafficPolicy"), text)

    def _ports(self, resource: Resource, rule: DestinationRule, services: list[Service]) -> Iterator[Issue]:
        ports = {port.number for service in services for port in service.ports}
        has = ", ".join(map(str, sorted(ports)))
        for placed in placed_policies(rule):
            entry = placed.policy
            if not isinstance(entry, PortTrafficPolicy) or entry.port is None or entry.port.number in {0, *ports}:
                continue
            text = f"the service has no such port (it has {has}); service ports count here, not endpoint ports"
            yield self._config.issue(resource, (*placed.path, "port"), text)

    def _locality(self, service: Service, rule: MergedRule | None) -> Iterator[Issue]:
        """Yield the rule whose outlierDetection turned locality failover on without asking for it."""
        policy = rule.traffic_policy if rule is not None else None
        if rule is None or policy is None or policy.outlier_detection is None:
            return
        balancer = policy.load_balancer
        if balancer is not None and (balancer.locality_lb_setting or balancer.zone_aware_lb_setting):
            return
        for plan, cluster in self._config.builder.plans(service):
            if cluster is not None and plan.subset is None and any(e.priority for e in cluster.endpoints):
                text = (
                    f"also turns locality failover on: of {len(cluster.endpoints)} endpoints only those nearest to "
                    "this sidecar get traffic while enough are healthy; localityLbSetting.enabled: false ends that"
                )
                yield self._config.issue(rule.policy_from, ("trafficPolicy", "outlierDetection"), text)
                return
