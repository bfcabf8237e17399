"""MCP over xDS beyond the vectors: client against server, whole and incrementally."""

import pytest

from proxy.config.feed_mode import FeedMode
from proxy.mcp.bodies import UndecodableError, decode_resource
from proxy.mcp.messages import (
    Code,
    DeltaRequest,
    DiscoveryRequest,
    DiscoveryResponse,
    Packed,
    Status,
    StreamRefusedError,
)
from proxy.mcp.served import ServedCollections
from proxy.mcp.source import CollectionSnapshot
from proxy.mcp.wire import pack_envelope
from proxy.mcp.xds_client import XdsClient
from proxy.mcp.xds_delta_client import XdsDeltaClient
from proxy.mcp.xds_server import XdsDeltaServerStream, XdsServerStats, XdsServerStream
from proxy.mcp.xds_types import type_url_of
from tests.proxy.mcp.builders import RULE, RULES, Receiver, garbage, rule

TYPE = type_url_of(RULE)


class Client(Receiver):
    """A client with its store."""

    def __init__(self, client, mode=FeedMode.SPEC):
        super().__init__(None, mode)
        self.client = client

    def receive(self, response):
        unpacked = self.client.unpack(response)
        outcomes = {}
        for envelope in self.client.fresh(response, unpacked):
            self.decoded += 1
            try:
                outcomes[envelope.name] = decode_resource(envelope, RULE, "peer")
            except UndecodableError as exc:
                outcomes[envelope.name] = exc
        answer = self.client.receive(response, unpacked, outcomes)
        self.put(answer.changes)
        return answer.request


def response(*resources, nonce="n1", type_url=TYPE):
    return DiscoveryResponse(
        type_url=type_url,
        version_info="v",
        nonce=nonce,
        resources=tuple(one if isinstance(one, Packed) else pack_envelope(one) for one in resources),
    )


@pytest.fixture
def client():
    return Client(XdsClient((RULE,), node_id="me"))


def test_the_first_request_says_who_asks_and_carries_no_nonce(client):
    assert client.client.open() == [DiscoveryRequest(type_url=TYPE, node_id="me")]


def test_a_bad_rule_keeps_its_last_good_version_and_the_rest_is_taken(client):
    client.receive(response(rule("ns/a"), rule("ns/b")))
    request = client.receive(response(rule("ns/a", "2", max_ejection_percent=150), rule("ns/b", "2"), nonce="n2"))

    assert client.versions() == {"ns/a": "1", "ns/b": "2"}
    assert request.error_detail.code == Code.INVALID_ARGUMENT
    assert "DestinationRule ns/a: body.trafficPolicy.outlierDetection.maxEjectionPercent = 150" in (
        request.error_detail.message
    )


@pytest.mark.parametrize(
    "item",
    [garbage("ns/a", "2"), rule("only-a-name"), Packed("type.googleapis.com/other", b""), Packed("", b"\xff")],
    ids=["undecodable body", "name without namespace", "no envelope", "nothing"],
)
def test_an_item_that_is_no_rule_is_refused_and_the_others_are_taken(client, item):
    client.receive(response(rule("ns/a"), rule("ns/b")))
    others = () if getattr(item, "name", "") == "ns/a" else (rule("ns/a"),)
    request = client.receive(response(item, rule("ns/b", "2"), *others, nonce="n2"))

    assert request.error_detail is not None
    assert client.versions() == {"ns/a": "1", "ns/b": "2"}
    assert len(client.errors()) == 1


def test_pilot_deletes_what_it_cannot_decode():
    client = Client(XdsClient((RULE,), node_id="me", mode=FeedMode.PILOT), FeedMode.PILOT)
    client.receive(response(rule("ns/a")))
    request = client.receive(response(garbage("ns/a", "2"), nonce="n2"))

    assert request.error_detail is None
    assert client.versions() == {}


def test_strict_takes_nothing_of_a_response_with_a_bad_rule():
    client = Client(XdsClient((RULE,), node_id="me", mode=FeedMode.STRICT), FeedMode.STRICT)
    client.receive(response(rule("ns/a"), rule("ns/b")))
    client.receive(response(rule("ns/a", "2", max_ejection_percent=150), rule("ns/b", "2"), nonce="n2"))

    assert client.versions() == {"ns/a": "1", "ns/b": "1"}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha3"])
def test_the_three_versions_of_a_type_are_one(client, version):
    type_url = f"networking.istio.io/{version}/DestinationRule"
    request = client.receive(response(rule("ns/a"), type_url=type_url))

    assert request.type_url == type_url
    assert client.versions() == {"ns/a": "1"}


def test_a_type_that_was_not_asked_for_is_acknowledged_and_left(client):
    request = client.receive(response(rule("ns/a"), type_url="networking.istio.io/v1/Gateway"))

    assert (request.response_nonce, request.error_detail) == ("n1", None)
    assert client.versions() == {}


class Served:
    """Collections that can be changed, and both kinds of stream to them."""

    def __init__(self):
        self.snapshots = {RULES: None}
        self.content = ServedCollections(self.snapshots)
        self.stats = XdsServerStats()

    def put(self, version, *rules):
        self.snapshots[RULES] = CollectionSnapshot(version, {one.name: one for one in rules})


@pytest.fixture
def served():
    served = Served()
    served.put("v1", rule("ns/a"), rule("ns/b"))
    return served


def converse(client, server, requests):
    """Carry messages to and fro until nobody has anything to say."""
    while requests:
        requests = [client.receive(answer) for request in requests for answer in server.receive(request)]


def publish(client, server):
    converse(client, server, [client.receive(answer) for answer in server.publish(TYPE)])


@pytest.mark.parametrize(
    ("make_client", "make_server"),
    [(XdsClient, XdsServerStream), (XdsDeltaClient, XdsDeltaServerStream)],
    ids=["state of the world", "delta"],
)
class TestClientAgainstServer:
    def test_the_client_follows_every_change(self, served, make_client, make_server):
        client = Client(make_client((RULE,), node_id="me"))
        server = make_server(served.content, served.stats)
        converse(client, server, client.client.open())
        assert client.versions() == {"ns/a": "1", "ns/b": "1"}
        served.put("v2", rule("ns/a", "2"), rule("ns/c"))
        publish(client, server)

        assert client.versions() == {"ns/a": "2", "ns/c": "1"}
        assert client.client.synced == {"DestinationRule"}
        assert served.stats.pilot_xds_pushes == {TYPE: 2}

    def test_an_empty_collection_counts_as_an_answer(self, served, make_client, make_server):
        served.put("v1")
        client = Client(make_client((RULE,), node_id="me"))
        converse(client, make_server(served.content, served.stats), client.client.open())

        assert client.client.synced == {"DestinationRule"}

    def test_what_was_refused_is_not_sent_again(self, served, make_client, make_server):
        served.put("v1", rule("ns/a", max_ejection_percent=150))
        client = Client(make_client((RULE,), node_id="me"))
        server = make_server(served.content, served.stats)
        converse(client, server, client.client.open())

        assert server.publish(TYPE) == []
        assert served.stats.pilot_total_xds_rejects == {(TYPE, Code.INVALID_ARGUMENT): 1}

    def test_what_changes_before_the_answer_goes_out_with_it(self, served, make_client, make_server):
        client = Client(make_client((RULE,), node_id="me"))
        server = make_server(served.content, served.stats)
        [first] = server.receive(client.client.open()[0])
        served.put("v2", rule("ns/a", "2"))
        assert server.publish(TYPE) == []
        converse(client, server, [client.receive(first)])

        assert client.versions() == {"ns/a": "2"}

    def test_a_client_that_comes_back_ends_with_the_same(self, served, make_client, make_server):
        client = Client(make_client((RULE,), node_id="me"))
        converse(client, make_server(served.content, served.stats), client.client.open())
        served.put("v2", rule("ns/b"), rule("ns/c"))
        client.decoded = 0
        converse(client, make_server(served.content, served.stats), client.client.open())

        assert client.versions() == {"ns/b": "1", "ns/c": "1"}
        assert client.decoded == 1

    def test_a_first_request_without_node_ends_the_stream(self, served, make_client, make_server):
        request = DeltaRequest if make_server is XdsDeltaServerStream else DiscoveryRequest
        with pytest.raises(StreamRefusedError, match="node"):
            make_server(served.content, served.stats).receive(request(type_url=TYPE))


def test_a_delta_holds_what_changed_only(served):
    client = Client(XdsDeltaClient((RULE,), node_id="me"))
    server = XdsDeltaServerStream(served.content, served.stats)
    converse(client, server, client.client.open())
    served.put("v2", rule("ns/a", "2"))

    [sent] = server.publish(TYPE)

    assert ([one.name for one in sent.resources], sent.removed_resources) == (["ns/a"], ("ns/b",))


def test_a_delta_client_says_what_it_has_when_it_comes_back(served):
    client = Client(XdsDeltaClient((RULE,), node_id="me"))
    converse(client, XdsDeltaServerStream(served.content, served.stats), client.client.open())

    assert client.client.open()[0].initial_resource_versions == {"ns/a": "1", "ns/b": "1"}


def test_a_stale_delta_nonce_is_counted_and_ignored(served):
    server = XdsDeltaServerStream(served.content, served.stats)
    server.receive(DeltaRequest(type_url=TYPE, node_id="me"))

    assert server.receive(DeltaRequest(type_url=TYPE, response_nonce="old")) == []
    assert served.stats.pilot_xds_expired_nonce == {TYPE: 1}


def test_a_refusal_with_a_stale_nonce_does_not_free_the_way(served):
    server = XdsServerStream(served.content, served.stats)
    server.receive(DiscoveryRequest(type_url=TYPE, node_id="me"))
    served.put("v2")

    stale = DiscoveryRequest(type_url=TYPE, response_nonce="old", error_detail=Status(3))
    assert server.receive(stale) == []
