import pytest

from proxy.config.node import NodeConfig
from proxy.config.resource import read_resources
from proxy.mcp.xds_server import CLUSTER_TYPE, ENDPOINT_TYPE
from proxy.push.envoy_content import EnvoyContent
from proxy.push.pipeline import ConfigPipeline
from proxy.push.source_content import SourceContent
from tests.proxy.mcp.builders import RULES, SERVICES
from tests.proxy.push.feed_rig import rule, service

CLUSTER = "outbound|80||a.default.svc.cluster.local"


def parts(**texts):
    return {name: read_resources(text, name) for name, text in texts.items()}


@pytest.fixture
def content():
    return SourceContent()


def names(content, collection):
    return sorted(content.snapshots[collection].resources)


def test_the_first_files_make_every_collection_known(content):
    assert set(content.snapshots.values()) == {None}
    touched = content.update(parts(a=service("a")))

    assert set(touched) == set(content.snapshots)
    assert names(content, SERVICES) == ["default/a"]
    assert names(content, RULES) == []


def test_a_change_touches_its_collection_only(content):
    content.update(parts(a=service("a"), rule=rule("a", 30)))

    assert content.update(parts(rule=rule("a", 40))) == [RULES]


def test_equal_content_has_an_equal_version_wherever_it_is_read(content):
    content.update(parts(a=service("a")))
    other = SourceContent()
    other.update(parts(b=service("b"), elsewhere=service("a")))
    other.update({}, ["b"])

    assert other.snapshots[SERVICES].version == content.snapshots[SERVICES].version
    assert content.update(parts(a=service("a"))) == []


def test_a_change_changes_the_version_of_resource_and_collection(content):
    content.update(parts(a=service("a")))
    before = content.snapshots[SERVICES]
    content.update(parts(a=service("a", "10.0.0.2")))
    after = content.snapshots[SERVICES]

    assert before.version != after.version
    assert before.resources["default/a"].version != after.resources["default/a"].version


def test_a_bad_file_keeps_its_last_good_version(content):
    content.update(parts(rule=rule("a", 30)))
    before = content.snapshots[RULES]

    assert content.update(parts(rule=rule("a", 150))) == []
    assert content.snapshots[RULES] is before


def test_a_removed_file_takes_its_resources_along(content):
    content.update(parts(a=service("a"), b=service("b")))
    content.update({}, ["a"])

    assert names(content, SERVICES) == ["default/b"]


class Served:
    """What Envoys get of files."""

    def __init__(self):
        self.content = EnvoyContent()
        self.pipeline = ConfigPipeline(NodeConfig(), apply=self.content.apply)

    def put(self, **texts):
        self.pipeline.update("test", parts(**texts))

    def versions(self):
        return self.content.version(CLUSTER_TYPE), self.content.version(ENDPOINT_TYPE)


def test_envoys_get_clusters_and_the_endpoints_they_ask_for():
    served = Served()
    served.put(a=service("a"), b=service("b"))

    assert sorted(served.content.resources(CLUSTER_TYPE, frozenset())) == [CLUSTER, CLUSTER.replace("|a.", "|b.")]
    assert list(served.content.resources(ENDPOINT_TYPE, frozenset({CLUSTER, "unknown"}))) == [CLUSTER]
    assert served.content.resources("type.googleapis.com/other", frozenset()) == {}


def test_a_change_of_endpoints_leaves_clusters_as_they_are():
    served = Served()
    served.put(a=service("a"))
    clusters, endpoints = served.versions()
    served.put(a=service("a", "10.0.0.2"))

    assert served.versions()[0] == clusters
    assert served.versions()[1] != endpoints


def test_a_change_of_a_cluster_sends_its_endpoints_again():
    """An Envoy that gets a cluster anew waits for them."""
    served = Served()
    served.put(a=service("a"))
    clusters, endpoints = served.versions()
    served.put(rule=rule("a", 30))

    assert served.versions()[0] != clusters
    assert served.versions()[1] != endpoints


def test_a_removed_service_is_served_no_more():
    served = Served()
    served.put(a=service("a"))
    served.pipeline.update("test", {}, ["a"])

    assert served.content.resources(CLUSTER_TYPE, frozenset()) == {}
    assert served.content.resources(ENDPOINT_TYPE, frozenset({CLUSTER})) == {}
