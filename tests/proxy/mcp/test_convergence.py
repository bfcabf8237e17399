"""Whatever happens between a source and its sink, in the end the sink has what the source has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.feed_mode import FeedMode
from proxy.mcp.sink import Sink
from proxy.mcp.source import CollectionSnapshot, SourceStream
from tests.proxy.mcp.builders import RULES, Receiver, rule

pytestmark = pytest.mark.slow

NAMES = ("ns/a", "ns/b", "ns/c")
# A content: for each name there is one of, its version (0..2); version 2 is not valid.
contents = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=3)
RULE_CACHE = {
    (name, version): rule(name, str(version), max_ejection_percent=150 if version == 2 else 50)
    for name in NAMES
    for version in range(3)
}


class Conversation:
    """Source and sink with messages that are under way between them."""

    def __init__(self, mode: FeedMode, *, incremental: bool) -> None:
        self.receiver = Receiver(Sink({RULES: incremental}, mode), mode)
        self._mode = mode
        self._snapshots: dict[str, CollectionSnapshot | None] = {RULES: None}
        self._count = 0
        self.change({})
        self.reconnect()

    def change(self, content: dict[str, int]) -> None:
        self._count += 1
        resources = {name: RULE_CACHE[name, version] for name, version in content.items()}
        self._snapshots[RULES] = CollectionSnapshot(str(self._count), resources)

    def publish(self) -> None:
        self._to_sink += self._stream.publish(RULES)

    def deliver(self) -> None:
        """Let one message arrive, requests first."""
        if self._to_source:
            self._to_sink += self._stream.receive(self._to_source.pop(0))
        elif self._to_sink:
            self._to_source.append(self.receiver.receive(self._to_sink.pop(0)))

    def reconnect(self) -> None:
        self._stream = SourceStream(self._snapshots, self._mode)
        self._to_source = self.receiver.sink.open()
        self._to_sink = []

    def finish(self) -> None:
        self.publish()
        while self._to_source or self._to_sink:
            self.deliver()


operations = st.lists(st.one_of(contents, st.sampled_from(["publish", "deliver", "deliver", "reconnect"])), max_size=25)


def run(mode: FeedMode, *, incremental: bool, steps: list) -> tuple[Conversation, dict[str, int]]:
    conversation, content = Conversation(mode, incremental=incremental), {}
    for step in steps:
        if isinstance(step, dict):
            content = step
            conversation.change(step)
        else:
            getattr(conversation, step)()
    conversation.finish()
    return conversation, content


@given(steps=operations, incremental=st.booleans())
def test_every_valid_rule_arrives_and_nothing_else_stays(steps, incremental):
    conversation, content = run(FeedMode.SPEC, incremental=incremental, steps=steps)
    versions = conversation.receiver.versions()

    assert {name for name, version in content.items() if version != 2} <= versions.keys() <= content.keys()
    for name, version in versions.items():
        assert version == str(content[name]) or content[name] == 2
        assert version != "2"


@given(steps=operations)
def test_pilot_has_the_valid_rules_exactly(steps):
    conversation, content = run(FeedMode.PILOT, incremental=False, steps=steps)

    expected = {name: str(version) for name, version in content.items() if version != 2}
    assert conversation.receiver.versions() == expected
