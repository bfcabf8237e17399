"""MCP over xDS vectors: what a client asks, answers and keeps, and which requests a server answers."""

from collections.abc import Mapping
from typing import Any

from proxy.config.feed_mode import FeedMode
from proxy.config.store import Store
from proxy.mcp.messages import DiscoveryRequest, DiscoveryResponse, Packed, Status, StreamRefusedError
from proxy.mcp.served import ServedCollections
from proxy.mcp.source import CollectionSnapshot
from proxy.mcp.wire import pack_envelope
from proxy.mcp.xds_client import XdsClient
from proxy.mcp.xds_server import ENDPOINT_TYPE, VersionedResource, XdsServerStats, XdsServerStream
from proxy.mcp.xds_types import type_url_of
from tests.conformance.mcp_bodies import envelope, expect_same, in_store, kind_named, mark, modes, outcomes, put
from tests.conformance.mcp_start import run_start
from tests.conformance.runner import Mismatch


def run_mcp_xds(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Run a case in each of its modes."""
    for mode in modes(case):
        if "start" in case:
            run_start(case, mode, "xds")
        elif case["role"] == "client":
            _client(case, mode)
        else:
            _server(case, mode)


def _type_url(letters: str) -> str:
    if letters in {"T", "SE"}:
        return type_url_of(kind_named(letters))
    return ENDPOINT_TYPE if letters == "EDS" else letters


def _client(case: Mapping[str, Any], mode: FeedMode) -> None:
    kinds = tuple(map(kind_named, case["types"]))
    client = XdsClient(kinds, node_id="node", mode=mode, revision=case.get("revision", ""))
    store = Store()
    initial = client.open()
    for step in case["steps"]:
        if "sends_in_order" in step:
            for expected, request in zip(step["sends_in_order"], initial, strict=True):
                _expect_request(expected, request)
            continue
        message = step["recv"]
        kind = kind_named(message["type_url"])
        response = DiscoveryResponse(
            type_url=_type_url(message["type_url"]),
            version_info=message["version_info"],
            nonce=message["nonce"],
            resources=tuple(pack_envelope(envelope(one, kind)) for one in message["resources"]),
        )
        unpacked = client.unpack(response)
        answer = client.receive(response, unpacked, outcomes(client.fresh(response, unpacked), kind, mode))
        put(store, answer.changes)
        request = DiscoveryRequest(type_url=response.type_url, **step["ack"])
        expect_same(request, answer.request, response.nonce)
        found = {name: mark(resource) for name, resource in in_store(store, kind).items()}
        expect_same(step["store"], found, response.nonce)
        if "synced" in step:
            expect_same({kind_named(letters).name for letters in step["synced"]}, set(client.synced), "synced")


def _expect_request(expected: Mapping[str, Any], request: DiscoveryRequest) -> None:
    for name, value in expected.items():
        if name == "type_url":
            expect_same(_type_url(value), request.type_url, name)
        elif name == "node":
            expect_same(value, request.node_id is not None, name)
        elif value == "?":
            expect_same(True, bool(getattr(request, name)), name)
        else:
            expect_same(value, getattr(request, name), name)


class _Content:
    """The served collections, and one resource of every other type."""

    def __init__(self, mode: FeedMode) -> None:
        rules = kind_named("T")
        one = {"name": "ns/a", "version": "1"}
        self._served = ServedCollections(
            {rules.collection: CollectionSnapshot("v1", {"ns/a": envelope(one, rules)})}, mode
        )

    def version(self, type_url: str) -> str:
        return "v1"

    def resources(self, type_url: str, names: frozenset[str]) -> Mapping[str, VersionedResource]:
        if type_url == ENDPOINT_TYPE:
            return {"a": VersionedResource("1", Packed(type_url, b""))}
        return self._served.resources(type_url, names)


def _server(case: Mapping[str, Any], mode: FeedMode) -> None:
    message = case["request"]
    type_url = _type_url(message["type_url"])
    stats = XdsServerStats()
    stream = XdsServerStream(_Content(mode), stats)
    nonces: dict[str, str] = {}
    if case.get("subscribed"):
        names = tuple(case.get("names", ()))
        [response] = stream.receive(DiscoveryRequest(type_url=type_url, node_id="node", resource_names=names))
        nonces[case["sent_nonce"]] = response.nonce
    detail = message.get("error_detail")
    nonce = message.get("response_nonce", "")
    request = DiscoveryRequest(
        type_url=type_url,
        version_info=message.get("version_info", ""),
        response_nonce=nonces.get(nonce, nonce),
        resource_names=tuple(message.get("resource_names", ())),
        node_id="node" if message.get("node") else None,
        error_detail=Status(detail["code"], detail["message"]) if detail else None,
    )
    try:
        sent = stream.receive(request)
    except StreamRefusedError as exc:
        expect_same(case.get("stream_error"), exc.status.code, "stream_error")
        return
    if "stream_error" in case:
        raise Mismatch(case["stream_error"], sent, "stream_error")
    expect_same(case["respond"], bool(sent), "respond")
    if "resources" in case:
        expect_same(len(case["resources"]), len(sent[0].resources), "resources")
    for name in ("pilot_xds_expired_nonce", "pilot_total_xds_rejects"):
        expect_same(int(case.get("counter") == name), getattr(stats, name).total(), name)
    if "acked" in case:
        expect_same(case["acked"], stream.acked_nonce(type_url), "acked")
    if "subscribed_after" in case:
        expect_same(case["subscribed_after"], stream.names(type_url) is not None, "subscribed_after")
