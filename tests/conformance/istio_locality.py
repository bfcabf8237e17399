"""Locality vectors: which setting applies, and the priorities and weights it gives."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.config.cluster_config import Endpoint, Locality
from proxy.config.destination_rule import LocalityLbSetting, ZoneAwareLbSetting
from proxy.config.locality import LocalityGroup, effective_setting, locality_matches, place_groups
from proxy.config.node import NodeConfig
from tests.conformance.istio_conversion import expect, read
from tests.conformance.runner import Mismatch


def run_locality(case: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """A match of a locality, the effective setting, or the placement of groups or endpoints."""
    if "match" in case:
        match = case["match"]
        expect(case["out"], locality_matches(Locality.parse(match["locality"]), match["rule"]), "match")
    elif "effective" in case:
        _effective(case)
    elif "groups" in case:
        _groups(case, document)
    else:
        _endpoints(case, document)


def _effective(case: Mapping[str, Any]) -> None:
    given = case["effective"]
    setting = effective_setting(
        read(LocalityLbSetting, given.get("rule")),
        read(ZoneAwareLbSetting, given.get("rule_zone")),
        read(LocalityLbSetting, given.get("mesh")),
        read(ZoneAwareLbSetting, given.get("mesh_zone")),
        given.get("service", ""),
    )
    if case["out"] is None or setting is None:
        expect(case["out"], setting, "setting")
        return
    expect(read(LocalityLbSetting, case["out"].get("locality")), setting.locality, "locality")
    expect(read(ZoneAwareLbSetting, case["out"].get("zone")), setting.zone_aware, "zone")
    expect(case["out"]["force"], setting.force, "force")


def _place(case: Mapping[str, Any], groups: Sequence[LocalityGroup]) -> list[LocalityGroup]:
    proxy = case["proxy"]
    node = NodeConfig(locality=Locality.parse(proxy.get("locality", "")), labels=proxy.get("labels", {}))
    setting = effective_setting(
        read(LocalityLbSetting, case.get("setting")),
        read(ZoneAwareLbSetting, case.get("zone_aware")),
        read(LocalityLbSetting, case.get("mesh", {})),
        None,
    )
    return place_groups(groups, setting, node, outlier=case.get("outlier", False))


def _locality(text: str | None) -> Locality | None:
    return None if text is None else Locality.parse(text)


def _groups(case: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    given = case["groups"]
    if given == "full7":
        given = [{"l": text} for text in document["groups_full7"]]
    groups = [
        LocalityGroup(
            locality=_locality(group["l"]), endpoints=(Endpoint(address=f"10.0.0.{index}:80"),), weight=group.get("w")
        )
        for index, group in enumerate(given)
    ]
    placed = _place(case, groups)
    out = case["out"]
    if "priorities" in out:
        expect(out["priorities"], [group.priority for group in placed], "priorities")
    if "weights" in out:
        expect(out["weights"], [group.weight or 0 for group in placed], "weights")
    if "emptied" in out:
        expect(out["emptied"], [index for index, group in enumerate(placed) if not group.endpoints], "emptied")


def _endpoints(case: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    groups = []
    for group in document[f"endpoints_{case['endpoints']}"]:
        locality = Locality.parse(group["locality"])
        extra: dict[str, str] = {}
        if case.get("extra_labels") == "locality":
            extra = {"region": locality.region, "zone": locality.zone}
        endpoints = tuple(
            Endpoint(address=endpoint["ip"], locality=locality, labels=endpoint["labels"] | extra)
            for endpoint in group["eps"]
        )
        groups.append(LocalityGroup(locality=locality, endpoints=endpoints, weight=len(endpoints)))
    placed = _place(case, groups)
    if len(placed) != len(case["out"]):
        raise Mismatch(case["out"], placed, "number of groups")
    for expected, group in zip(case["out"], placed, strict=True):
        expect(expected["eps"], [endpoint.address for endpoint in group.endpoints], "eps")
        expect(expected["priority"], group.priority, f"priority of {expected['eps']}")
        if "weight" in expected:
            expect(expected["weight"], group.weight, f"weight of {expected['eps']}")
