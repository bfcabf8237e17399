"""`/config_dump`: Envoy's messages in Envoy's order, and what may be selected."""

import attrs
import pytest

from proxy.admin.config_dump import config_dumps
from proxy.config.address import Address
from proxy.config.cluster_config import ClusterConfig, ClusterType
from proxy.config.route_config import RouteConfiguration
from proxy.config.snapshot import ConfigSnapshot


@pytest.fixture
def snapshot(sidecar):
    names = ("outbound|80||a.default.svc.cluster.local", "outbound|80||b.default.svc.cluster.local")
    clusters = {
        name: ClusterConfig(name=name, service_host=name.split("|")[3], port=80, type=ClusterType.STATIC)
        for name in names
    }
    sidecar.snapshot = ConfigSnapshot(version="7", clusters=clusters, routes=RouteConfiguration())
    return sidecar.snapshot


async def dump(admin, query=""):
    return (await (await admin.get(f"/config_dump{query}")).json())["configs"]


async def test_messages_come_in_envoys_order(admin, snapshot):
    assert [message["@type"].rpartition(".")[2] for message in await dump(admin)] == [
        "BootstrapConfigDump",
        "ClustersConfigDump",
        "ListenersConfigDump",
        "ScopedRoutesConfigDump",
        "RoutesConfigDump",
        "SecretsConfigDump",
    ]


async def test_resources_carry_their_types_and_the_version(sidecar, admin, snapshot):
    sidecar.time.advance(5_000)
    sidecar.events.publish("config", version="7")

    bootstrap, clusters, listeners, _, routes, _ = await dump(admin)

    assert bootstrap["bootstrap"]["node"]["id"] == "n1"
    assert "static_resources" not in bootstrap["bootstrap"]
    assert bootstrap["last_updated"] == "1970-01-01T00:00:00Z"
    first = clusters["dynamic_active_clusters"][0]
    assert (first["version_info"], first["last_updated"]) == ("7", "1970-01-01T00:00:05Z")
    assert first["cluster"]["@type"] == "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    assert first["cluster"]["name"] == "outbound|80||a.default.svc.cluster.local"
    listener = listeners["static_listeners"][0]["listener"]
    assert listener["@type"] == "type.googleapis.com/envoy.config.listener.v3.Listener"
    assert listener["address"]["socket_address"]["port_value"] == 15_001
    route = routes["dynamic_route_configs"][0]["route_config"]
    assert route["@type"] == "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"


async def test_listener_shows_the_port_it_got(sidecar, admin, snapshot):
    sidecar.bootstrap = attrs.evolve(sidecar.bootstrap, listen=Address("127.0.0.1", 0))

    _, _, listeners, *_ = await config_dumps(sidecar.context(), lambda name: True)
    address = listeners["static_listeners"][0]["listener"]["address"]
    assert address["socket_address"]["port_value"] == 15_001


async def test_one_resource_stands_alone(admin, snapshot):
    found = await dump(admin, "?resource=dynamic_active_clusters")

    assert len(found) == 2
    assert {message["@type"] for message in found} == {
        "type.googleapis.com/envoy.admin.v3.ClustersConfigDump.DynamicCluster"
    }


async def test_names_are_selected(admin, snapshot):
    found = await dump(admin, r"?resource=dynamic_active_clusters&name_regex=\|b\.")

    assert [message["cluster"]["name"] for message in found] == ["outbound|80||b.default.svc.cluster.local"]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?resource=nope", 404, "nope not found in config dump"),
        ("?resource=version_info", 404, "version_info not found in config dump"),
        ("?name_regex=(", 400, "Error while parsing name_regex from the query string"),
    ],
)
async def test_bad_selection_is_refused(admin, snapshot, query, status, message):
    response = await admin.get(f"/config_dump{query}")

    assert (response.status, await response.text()) == (status, message)
