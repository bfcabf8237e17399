"""Which DestinationRule, or merger of several, applies to a service as this sidecar sees it.

Indexed by namespace and host, so that a changed rule costs the rules of its own host only.
Ports `SetDestinationRules`, `mergeDestinationRule` and `destinationRule` (Istio, pilot/pkg/model/push_context.go and
destination_rule.go), doubtful corners included; each is named where it is kept.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs

from proxy.config.destination_rule import DestinationRule, Subset, TrafficPolicy
from proxy.config.host_names import complete_host, most_specific
from proxy.config.resource import Key, Resource
from proxy.config.visibility import PRIVATE, PUBLIC, exported_to


@attrs.frozen(kw_only=True)
class MergedSubset:
    """A subset, the rule that defines it, and its position there."""

    subset: Subset
    resource: Resource
    index: int


@attrs.frozen(kw_only=True)
class MergedRule:
    """One entry of a host: the first rule, and what later ones of the same host add to it.

    `resources` are all of them, in order; `policy_from` is the one whose trafficPolicy counts. `selector` are the
    labels that a client must carry, None for any client.
    """

    host: str
    namespace: str
    resources: tuple[Resource, ...]
    traffic_policy: TrafficPolicy | None
    policy_from: Resource
    subsets: tuple[MergedSubset, ...]
    export_to: frozenset[str]
    selector: Mapping[str, str] | None

    @property
    def name(self) -> str:
        """The name of the first rule."""
        return self.resources[0].name


def _entry(resource: Resource, rule: DestinationRule, host: str) -> MergedRule:
    selector = None if rule.workload_selector is None else rule.workload_selector.match_labels
    return MergedRule(
        host=host,
        namespace=resource.namespace,
        resources=(resource,),
        traffic_policy=rule.traffic_policy,
        policy_from=resource,
        subsets=_subsets(resource, rule, set()),
        # A rule with a selector stays in its namespace, whatever its exportTo says.
        export_to=frozenset(rule.export_to) if selector is None else frozenset({PRIVATE}),
        selector=selector,
    )


def _subsets(resource: Resource, rule: DestinationRule, taken: set[str]) -> tuple[MergedSubset, ...]:
    return tuple(
        MergedSubset(subset=subset, resource=resource, index=index)
        for index, subset in enumerate(rule.subsets)
        if subset is not None and subset.name not in taken
    )


def _absorb(entry: MergedRule, other: MergedRule) -> MergedRule:
    """Return `entry` with the subsets that only `other` has, and its policy when `entry` has none."""
    taken = {merged.subset.name for merged in entry.subsets}
    takes_policy = entry.traffic_policy is None and other.traffic_policy is not None
    return attrs.evolve(
        entry,
        resources=entry.resources + other.resources,
        traffic_policy=other.traffic_policy if takes_policy else entry.traffic_policy,
        policy_from=other.policy_from if takes_policy else entry.policy_from,
        subsets=entry.subsets + tuple(merged for merged in other.subsets if merged.subset.name not in taken),
    )


def merge_rules(entries: Iterable[MergedRule]) -> tuple[MergedRule, ...]:
    """Return the entries that rules of one host and namespace come to, given in order of precedence."""
    merged: list[MergedRule] = []
    for entry in entries:
        separate = True
        for index, existing in enumerate(merged):
            if entry.selector is not None and existing.selector is not None and entry.selector != existing.selector:
                separate = True
                continue
            # Whether both have equal selectors or both have none; a later existing entry may overwrite the decision
            # (Istio's loop).
            if entry.selector == existing.selector:
                separate = False
            if entry.export_to == existing.export_to:
                separate = False
            elif not (existing.export_to and entry.export_to > existing.export_to):
                separate = True
                continue
            merged[index] = _absorb(existing, entry)
        if separate:
            merged.append(entry)
    return tuple(merged)


def precedence(resource: Resource) -> tuple[int, str, str]:
    """Order of creation; names decide between equals."""
    return resource.created_ms, resource.name, resource.namespace


def _rule_precedence(entry: MergedRule) -> tuple[bool, tuple[int, str, str]]:
    return entry.selector is None, precedence(entry.resources[0])


_Entries = dict[str, tuple[MergedRule, ...]]


class RuleIndex:
    """All DestinationRules, by namespace and host."""

    def __init__(self, *, domain: str, root_namespace: str, default_export_to: str = PUBLIC) -> None:
        self._domain = domain
        self._root = root_namespace
        self._default = default_export_to
        self._rules: dict[tuple[str, str], dict[Key, MergedRule]] = defaultdict(dict)
        self._hosts: dict[Key, tuple[str, str]] = {}
        self._local: dict[str, _Entries] = defaultdict(dict)
        self._exported: dict[str, _Entries] = defaultdict(dict)
        self._root_private: _Entries = {}

    def update(self, old: Resource | None, new: Resource | None) -> list[str]:
        """Replace a rule (None: there was, or is, none); return the hosts it touched, wildcards among them."""
        places: dict[tuple[str, str], None] = {}
        if old is not None:
            place = self._hosts.pop(old.key)
            places[place] = None
            del self._rules[place][old.key]
        if new is not None:
            rule = new.body
            assert isinstance(rule, DestinationRule)
            host = complete_host(rule.host, new.namespace, self._domain)
            place = (new.namespace, host)
            places[place] = None
            self._hosts[new.key] = place
            self._rules[place][new.key] = _entry(new, rule, host)
        for place in places:
            self._rebuild(*place)
        return [host for _, host in places]

    def _rebuild(self, namespace: str, host: str) -> None:
        entries = sorted(self._rules[namespace, host].values(), key=_rule_precedence)
        if not entries:
            del self._rules[namespace, host]
        private = [entry for entry in entries if self._is_private(entry)]
        self._set(self._local[namespace], host, [entry for entry in entries if self._is_local(entry)])
        self._set(self._exported[namespace], host, [entry for entry in entries if not self._is_private(entry)])
        if namespace == self._root:
            self._set(self._root_private, host, private)

    @staticmethod
    def _set(index: _Entries, host: str, entries: Sequence[MergedRule]) -> None:
        if entries:
            index[host] = merge_rules(entries)
        else:
            index.pop(host, None)

    @staticmethod
    def _is_local(entry: MergedRule) -> bool:
        return not entry.export_to or bool(entry.export_to & {PUBLIC, PRIVATE, entry.namespace})

    def _is_private(self, entry: MergedRule) -> bool:
        targets = entry.export_to or frozenset({self._default})
        return targets in ({PRIVATE}, {entry.namespace})

    def entries(self, namespace: str, host: str, *, exported: bool = False) -> tuple[MergedRule, ...]:
        """Return the entries of exactly that host: for proxies of the namespace, or offered to others."""
        return (self._exported if exported else self._local)[namespace].get(host, ())

    def lookup(self, proxy_namespace: str, service_namespace: str, host: str) -> tuple[MergedRule, ...]:
        """Return the entries for a service as proxies of a namespace see it; empty when no rule covers it.

        The proxy's own namespace is searched first, and any match there ends the search: a `*` rule hides an exact one
        elsewhere.
        """
        own = self._root_private if proxy_namespace == self._root else self._local.get(proxy_namespace, {})
        match = most_specific(host, own)
        if match is not None:
            return own[match]
        for owner in (service_namespace, self._root):
            exported = self._exported.get(owner, {})
            match = most_specific(host, exported)
            if match is None:
                continue
            visible = tuple(
                entry
                for entry in exported[match]
                if exported_to(entry.export_to, owner, proxy_namespace, self._default)
            )
            if visible:  # else the next level; this namespace's next-best host is not tried
                return visible
        return ()


def choose_rule(
    entries: Sequence[MergedRule], proxy_namespace: str, proxy_labels: Mapping[str, str]
) -> MergedRule | None:
    """Return the entry for one client: the first selector that it satisfies, else the last entry without one."""
    chosen = None
    for entry in entries:
        if entry.selector is None:
            chosen = entry
        elif entry.namespace == proxy_namespace and entry.selector.items() <= proxy_labels.items():
            return entry
    return chosen
