"""Duration, merge and select vectors: reading durations, combining policies, finding the rule for a service."""

from collections.abc import Mapping
from typing import Any

from proxy.config.destination_rule import DestinationRule, TrafficPolicy
from proxy.config.durations import is_valid_duration, parse_duration_ns
from proxy.config.host_names import complete_host, most_specific
from proxy.config.issue import Report
from proxy.config.resource import KINDS, Resource
from proxy.config.rule_index import MergedRule, RuleIndex, choose_rule
from proxy.config.traffic_policy import effective_policy
from tests.conformance.istio_conversion import expect, read
from tests.conformance.runner import Mismatch


def run_duration(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Compare nanoseconds and validity."""
    try:
        parsed: int | str = parse_duration_ns(case["text"])
    except ValueError:
        parsed = "error"
    expect(case["json"], parsed, "json")
    expect(case["valid"], isinstance(parsed, int) and is_valid_duration(parsed), "valid")


def run_merge(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Compare the policy of one port and subset."""
    merged = effective_policy(
        read(TrafficPolicy, case.get("rule")),
        read(TrafficPolicy, case.get("subset")),
        case["port"],
        read(TrafficPolicy, case.get("mesh")),
    )
    expect(read(TrafficPolicy, case["out"]), merged.policy if merged is not None else None, "policy")


def run_select(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Host matches, short names, or rules and what lookups find."""
    if "host" in case:
        expect(case["match"], most_specific(case["host"]["needle"], case["host"]["list"]), "match")
    elif "shortname" in case:
        name = case["shortname"]
        expect(case["match"], complete_host(name["host"], name["namespace"], name["domain"]), "match")
    else:
        _rules(case)


def _rule_resource(rule: Mapping[str, Any], order: int) -> Resource:
    spec: dict[str, Any] = {"host": rule["host"], "exportTo": rule.get("exportTo", [])}
    if "subsets" in rule:
        spec["subsets"] = [{"name": name} for name in rule["subsets"]]
    if "policy" in rule:
        spec["trafficPolicy"] = rule["policy"]
    if "selector" in rule:
        spec["workloadSelector"] = {"matchLabels": rule["selector"]}
    return Resource(
        kind=KINDS["DestinationRule"],
        namespace=rule["ns"],
        name=rule["name"],
        created_ms=rule.get("created", order),
        body=DestinationRule.read(spec, (), Report()),
    )


def _rules(case: Mapping[str, Any]) -> None:
    index = RuleIndex(domain=case.get("domain", ""), root_namespace=case["root"])
    for order, rule in enumerate(case["rules"]):
        index.update(None, _rule_resource(rule, order))
    for scope, namespaces in case.get("entries", {}).items():
        for namespace, entries in namespaces.items():
            host = next(rule["host"] for rule in case["rules"] if rule["ns"] == namespace)
            found = index.entries(namespace, host, exported=scope == "exported")
            expect(len(entries), len(found), f"{scope} entries of {namespace}")
            for expected, entry in zip(entries, found, strict=True):
                _check_entry(expected, entry)
    for lookup in case.get("lookups", ()):
        _lookup(index, lookup)
    for choice in case.get("choices", ()):
        host = case["rules"][0]["host"]
        entries = index.lookup(choice["proxy"], choice["proxy"], host)
        chosen = choose_rule(entries, choice["proxy"], choice["labels"])
        expect(choice["name"], chosen.name if chosen is not None else None, f"choice for {choice['labels']}")


def _lookup(index: RuleIndex, lookup: Mapping[str, Any]) -> None:
    entries = index.lookup(lookup["proxy"], lookup["service"], lookup["host"])
    where = f"{lookup['proxy']} -> {lookup['service']} {lookup['host']}"
    if "names" in lookup:
        expect(lookup["names"], [entry.name for entry in entries], where)
    if "subsets" in lookup:
        chosen = choose_rule(entries, lookup["proxy"], {})
        expect(lookup["subsets"], _subsets(chosen) if chosen is not None else None, where)
    if "policy" in lookup:
        chosen = choose_rule(entries, lookup["proxy"], {})
        if chosen is None:
            raise Mismatch(lookup["policy"], None, where)
        expect(read(TrafficPolicy, lookup["policy"]), chosen.traffic_policy, where)


def _check_entry(expected: Mapping[str, Any], entry: MergedRule) -> None:
    expect(expected["from"], [resource.name for resource in entry.resources], "from")
    if "subsets" in expected:
        expect(expected["subsets"], _subsets(entry), "subsets")
    if "name" in expected:
        expect(expected["name"], entry.name, "name")


def _subsets(entry: MergedRule) -> list[str]:
    return [merged.subset.name for merged in entry.subsets]
