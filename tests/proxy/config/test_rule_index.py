"""Rules for one host; the vectors of `select` cover Istio's own cases."""

import pytest

from proxy.config.rule_index import RuleIndex, choose_rule
from tests.proxy.config.resources import rule

HOST = "a.default.svc.cluster.local"


@pytest.fixture
def index():
    return RuleIndex(domain="cluster.local", root_namespace="istio-system")


def subsets(entries):
    return [[merged.subset.name for merged in entry.subsets] for entry in entries]


def named(*names):
    return [{"name": name} for name in names]


def test_a_change_of_host_touches_the_old_one_and_the_new_one(index):
    old, new = rule("r", {"host": "a"}), rule("r", {"host": "b"})
    index.update(None, old)

    touched = index.update(old, new)

    assert touched == ["a.default.svc.cluster.local", "b.default.svc.cluster.local"]
    assert index.lookup("default", "default", HOST) == ()


def test_a_removed_rule_leaves_the_merger(index):
    one = rule("one", {"host": "a", "subsets": named("x")})
    two = rule("two", {"host": "a", "subsets": named("y")})
    index.update(None, one)
    index.update(None, two)

    index.update(one, None)

    assert subsets(index.lookup("default", "default", HOST)) == [["y"]]


def test_the_policy_of_a_later_rule_counts_when_the_first_has_none(index):
    first = rule("a", {"host": "a", "subsets": named("x")})
    second = rule("b", {"host": "a", "trafficPolicy": {"loadBalancer": {"simple": "RANDOM"}}})
    for resource in (first, second):
        index.update(None, resource)

    (entry,) = index.lookup("default", "default", HOST)

    assert entry.policy_from is second
    assert entry.name == "a"


def test_private_export_equal_to_a_selector_rules_is_swallowed_by_it(index):
    """Istio: a rule without selector and with exportTo `.` is merged into the selector's entry and not kept."""
    index.update(None, rule("s", {"host": "a", "workloadSelector": {"matchLabels": {"app": "x"}}}))
    index.update(None, rule("p", {"host": "a", "exportTo": ["."], "subsets": named("x")}))

    entries = index.lookup("default", "default", HOST)

    assert [entry.name for entry in entries] == ["s"]
    assert choose_rule(entries, "default", {}) is None


def test_a_superset_without_selectors_is_merged_and_not_kept_for_the_other_namespaces(index):
    index.update(None, rule("a", {"host": "a", "exportTo": ["one"]}))
    index.update(None, rule("b", {"host": "a", "exportTo": ["one", "two"], "subsets": named("x")}))

    assert subsets(index.lookup("one", "default", HOST)) == [["x"]]
    assert index.lookup("two", "default", HOST) == ()


def test_a_rule_without_selector_kept_apart_loses_to_a_later_one(index):
    index.update(None, rule("a", {"host": "a", "exportTo": [".", "x"]}, created_ms=1))
    index.update(None, rule("b", {"host": "a", "exportTo": [".", "y"]}, created_ms=2))

    entries = index.lookup("default", "default", HOST)

    assert [entry.name for entry in entries] == ["a", "b"]
    assert choose_rule(entries, "default", {}).name == "b"


def test_selectors_hold_in_their_own_namespace_only(index):
    index.update(
        None, rule("s", {"host": "*.example", "workloadSelector": {"matchLabels": {"app": "x"}}}, "istio-system")
    )

    assert index.lookup("default", "default", "a.example") == ()


def test_a_rule_of_the_root_namespace_is_a_default_for_all(index):
    index.update(None, rule("r", {"host": "*.cluster.local"}, "istio-system"))

    assert [entry.name for entry in index.lookup("default", "default", HOST)] == ["r"]


def test_private_by_mesh_default():
    index = RuleIndex(domain="cluster.local", root_namespace="istio-system", default_export_to=".")
    index.update(None, rule("r", {"host": "a"}))

    assert len(index.lookup("default", "default", HOST)) == 1
    assert index.lookup("other", "default", HOST) == ()
