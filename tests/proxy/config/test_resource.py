import json

import pytest

from proxy.config.issue import Severity
from proxy.config.resource import read_resources

RULES = "istio/networking/v1alpha3/destinationrules"
TYPE_URL = "type.googleapis.com/istio.networking.v1alpha3.DestinationRule"
RULE = """\
apiVersion: networking.istio.io/{version}
kind: DestinationRule
metadata: {{name: reviews, namespace: shop, resourceVersion: "7", creationTimestamp: "2019-03-19T14:00:00Z"}}
spec: {{host: reviews}}
"""


def mcp(name="shop/reviews", host="reviews", **metadata):
    return {"metadata": {"name": name, **metadata}, "body": {"@type": TYPE_URL, "host": host}}


def resources(*resources_, **fields):
    return {"collection": RULES, "resources": list(resources_), **fields}


def read(*documents):
    return read_resources("\n---\n".join(d if isinstance(d, str) else json.dumps(d) for d in documents), "a.yaml")


def messages(contents):
    return [str(issue) for issue in contents.issues]


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha3"])
def test_kubernetes_shape(version):
    contents = read(RULE.format(version=version))

    (resource,) = contents.resources.values()
    assert contents.issues == ()
    assert resource.key == (RULES, "shop", "reviews")
    assert (resource.version, resource.created_ms, resource.body.host) == ("7", 1_553_004_000_000, "reviews")
    assert (resource.source, resource.line) == ("a.yaml", 1)


def test_the_mcp_shape_gives_the_same_resource():
    (one,) = read(RULE.format(version="v1")).resources.values()
    (other,) = read(mcp(version="7", createTime="2019-03-19T14:00:00Z")).resources.values()

    assert one == other


def test_a_list_of_kubernetes_resources():
    contents = read({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "x/v1", "kind": "Pod"}, 3]})

    assert [issue.path for issue in contents.issues] == [("items", 0, "kind"), ("items", 1)]


def test_namespace_default_is_meant_when_none_is_given():
    contents = read("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}")

    assert list(contents.resources) == [(RULES, "default", "a")]


def test_a_full_state_message_replaces_what_earlier_ones_of_the_text_brought():
    contents = read(resources(mcp("a/one"), mcp("a/two")), resources(mcp("a/two", "other")))

    assert {key[2]: resource.body.host for key, resource in contents.resources.items()} == {"two": "other"}


def test_an_incremental_message_adds_and_removes():
    contents = read(
        resources(mcp("a/one"), mcp("a/two")),
        resources(mcp("a/three"), incremental=True, removedResources=["a/one", "a/elsewhere"]),
    )

    assert [key[2] for key in contents.resources] == ["two", "three"]
    assert {key[2] for key in contents.removed} == {"one", "elsewhere"}


def test_removed_and_added_again_is_there():
    contents = read(resources(incremental=True, removedResources=["a/one"]), resources(mcp("a/one"), incremental=True))

    assert contents.removed == frozenset()
    assert [key[2] for key in contents.resources] == ["one"]


def kubernetes(**fields):
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": "a"},
        "spec": {"host": "a"},
    } | fields


@pytest.mark.parametrize(
    ("document", "path", "rule"),
    [
        ({"metadata": {"name": "x"}, "body": {"host": "a"}}, ("body", "@type"), "must be type.googleapis.com"),
        (resources(mcp() | {"body": {"@type": "x"}}), ("resources", 0, "body", "@type"), f"must be {TYPE_URL}"),
        ({"metadata": {}, "body": {"@type": TYPE_URL, "host": "a"}}, ("metadata", "name"), "must be namespace/name"),
        (mcp(createTime="yesterday"), ("metadata", "createTime"), "must be a time"),
        (kubernetes(apiVersion="v1"), ("apiVersion",), "must be networking.istio.io/v1"),
        (kubernetes(metadata={}), ("metadata", "name"), "must be a non-empty string"),
        (kubernetes(metadata=None), ("metadata", "name"), "must be a non-empty string"),
        (kubernetes(spec=None), ("spec", "host"), "must not be empty"),
        (kubernetes(spec=[]), ("spec",), "must be an object"),
        ({"spec": {}}, (), "is neither"),
        ([1], (), "a document must be"),
        (resources(3), ("resources", 0), "must be an object"),
    ],
)
def test_what_cannot_be_used_is_an_error_at_its_path(document, path, rule):
    contents = read(document)

    (error,) = contents.errors
    assert error.path == path
    assert rule in error.rule
    assert contents.resources == {}


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"collection": "istio/networking/v1alpha3/gateways", "resources": [mcp()]},
    ],
)
def test_kinds_the_sidecar_does_not_use_are_ignored_with_a_warning(document):
    contents = read(document)

    assert contents.resources == {}
    assert [issue.severity for issue in contents.issues] == [Severity.WARNING]


def test_a_bad_resource_is_rejected_and_its_neighbours_are_not():
    contents = read(mcp("a/bad", "-"), mcp("a/good"))

    assert [key[2] for key in contents.resources] == ["good"]
    assert [key[2] for key in contents.rejected] == ["bad"]
    assert messages(contents) == [
        (
            "a.yaml: body.host = -; '-' is no DNS label (letters, digits and inner hyphens, at most 63)"
            " (DestinationRule a/bad, line 1)"
        )
    ]


def test_an_unreadable_text_brings_nothing_and_says_so():
    contents = read("a: [")

    assert not contents.readable
    assert contents.errors[0].line is not None


def test_the_same_name_twice_in_one_text_counts_once_with_a_warning():
    contents = read(mcp("a/b", "one"), mcp("a/b", "two"))

    assert [resource.body.host for resource in contents.resources.values()] == ["two"]
    assert "is defined again" in contents.issues[0].rule


def test_the_schema_of_the_kubernetes_api_does_not_guard_mcp():
    body = {"host": "a", "trafficPolicy": {"retryBudget": {"percent": 101}}}

    assert len(read(kubernetes(spec=body)).errors) == 1
    assert read({"metadata": {"name": "a/a"}, "body": {"@type": TYPE_URL, **body}}).errors == ()


def test_a_field_that_cannot_be_read_is_reported_once():
    contents = read({"metadata": {"name": "a/a"}, "body": {"@type": TYPE_URL, "host": 5}})

    assert [issue.rule for issue in contents.errors] == ["must be a string; quote it in YAML"]


def test_a_resource_that_only_moved_is_equal():
    (one,) = read(RULE.format(version="v1")).resources.values()
    (other,) = read("# moved\n" + RULE.format(version="v1")).resources.values()

    assert one == other
    assert one.line != other.line
