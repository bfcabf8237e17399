"""MCP vectors: what a sink asks and answers, and what a source sends."""

from collections.abc import Mapping
from typing import Any

from proxy.config.feed_mode import FeedMode
from proxy.config.resource import KINDS_BY_COLLECTION
from proxy.config.store import Store
from proxy.mcp.bodies import UndecodableError, split_name
from proxy.mcp.messages import RequestResources, Resources, Status, StreamRefusedError
from proxy.mcp.sink import Sink
from proxy.mcp.source import CollectionSnapshot, SourceStream
from tests.conformance.mcp_bodies import (
    BY_LETTERS,
    COLLECTIONS,
    as_vector,
    envelope,
    expect_same,
    from_vector,
    in_store,
    kind_named,
    modes,
    outcomes,
    put,
)
from tests.conformance.mcp_start import run_start
from tests.conformance.runner import Mismatch


def run_mcp(case: Mapping[str, Any], _document: Mapping[str, Any]) -> None:
    """Run the steps of a case in each of its modes."""
    for mode in modes(case):
        if "names" in case:
            for name, expected in case["names"].items():
                expect_same(expected, list(split_name(name, mode)), name)
        elif "start" in case:
            run_start(case, mode, "mcp")
        else:
            peer = _SinkCase(case, mode) if case["role"] == "sink" else _SourceCase(case, mode)
            for number, step in enumerate(case["steps"]):
                peer.step(step, f"{mode.value}, step {number}")
            peer.expect_nothing_sent(f"{mode.value}, after the last step")


def _collection(letters: str) -> str:
    return BY_LETTERS[letters].collection if letters in BY_LETTERS else letters


class _Peer:
    """What the two roles share: what was sent and not yet looked at."""

    def __init__(self) -> None:
        self.sent: list[RequestResources | Resources] = []

    def step(self, step: Mapping[str, Any], where: str) -> None:
        if "send" in step:
            self._expect_sent([step["send"]], where)
        elif "sends" in step:
            self._expect_sent(step["sends"], where)
        elif "none" in step:
            self.expect_nothing_sent(where)
        else:
            self.own_step(step, where)

    def own_step(self, step: Mapping[str, Any], where: str) -> None:
        raise NotImplementedError

    def _expect_sent(self, messages: list[Mapping[str, Any]], where: str) -> None:
        taken, self.sent = self.sent[: len(messages)], self.sent[len(messages) :]
        by_text = lambda message: sorted(map(str, message.items()))  # noqa: E731 - any order will do
        expected = sorted(map(from_vector, messages), key=by_text)
        expect_same(expected, sorted((as_vector(one, kinds=COLLECTIONS) for one in taken), key=by_text), where)

    def expect_nothing_sent(self, where: str) -> None:
        expect_same([], self.sent, where)


class _SinkCase(_Peer):
    def __init__(self, case: Mapping[str, Any], mode: FeedMode) -> None:
        super().__init__()
        self._mode = mode
        self._store = Store()
        wanted = {_collection(name): settings["incremental"] for name, settings in case["collections"].items()}
        self._sink = Sink(wanted, mode)

    def own_step(self, step: Mapping[str, Any], where: str) -> None:
        if step.get("event") == "stream_up":
            self.sent += self._sink.open()
        elif step.get("event") == "stream_down":
            self.expect_nothing_sent(where)
        elif "recv" in step:
            self._receive(step["recv"])
        elif "store" in step:
            for letters, versions in step["store"].items():
                found = in_store(self._store, BY_LETTERS[letters])
                expect_same(versions, {name: resource.version for name, resource in found.items()}, where)
        elif "versions" in step:
            for letters, versions in step["versions"].items():
                expect_same(versions, self._sink.versions(_collection(letters)), where)
        elif "synced" in step:
            expect_same(set(map(_collection, step["synced"])), set(self._sink.synced), where)
        else:
            raise Mismatch("a known step", step, where)

    def _receive(self, message: Mapping[str, Any]) -> None:
        kind = kind_named(message["c"])
        resources = Resources(
            collection=_collection(message["c"]),
            nonce=message["nonce"],
            system_version_info=message.get("system_version_info", ""),
            resources=tuple(envelope(one, kind) for one in message.get("resources", ())),
            removed_resources=tuple(message.get("removed_resources", ())),
            incremental=message.get("incremental", False),
        )
        decoded = outcomes(self._sink.fresh(resources), kind, self._mode)
        bad = next((one for one in decoded.values() if isinstance(one, UndecodableError)), None)
        good = {name: one for name, one in decoded.items() if not isinstance(one, UndecodableError)}
        answer = self._sink.receive(resources, bad or good)
        put(self._store, answer.changes)
        self.sent.append(answer.request)


class _SourceCase(_Peer):
    def __init__(self, case: Mapping[str, Any], mode: FeedMode) -> None:
        super().__init__()
        self._snapshots: dict[str, CollectionSnapshot | None] = {
            _collection(name): None for name in case["collections"]
        }
        self._stream = SourceStream(self._snapshots, mode)
        self._error: int | None = None

    def own_step(self, step: Mapping[str, Any], where: str) -> None:
        event = step.get("event")
        if "recv" in step:
            self._receive(step["recv"])
        elif event == "stream_up":
            self.sent += self._stream.dialled()
        elif event == "snapshot":
            collection = _collection(step["c"])
            kind = KINDS_BY_COLLECTION[collection]
            resources = {one["name"]: envelope(one, kind) for one in step["resources"]}
            self._snapshots[collection] = CollectionSnapshot(step["version"], resources)
            self.sent += self._stream.publish(collection)
        elif event == "stream_error":
            expect_same(step["code"], self._error, where)
        else:
            raise Mismatch("a known step", step, where)

    def _receive(self, message: Mapping[str, Any]) -> None:
        detail = message.get("error_detail")
        request = RequestResources(
            collection=_collection(message["c"]),
            response_nonce=message.get("response_nonce", ""),
            incremental=message.get("incremental", False),
            initial_resource_versions=message.get("initial_resource_versions", {}),
            error_detail=Status(detail["code"]) if detail else None,
        )
        try:
            self.sent += self._stream.receive(request)
        except StreamRefusedError as exc:
            self._error = exc.status.code
