import pytest

from proxy.config.feed_mode import FeedMode
from proxy.mcp.messages import RequestResources, Status, StreamRefusedError
from proxy.mcp.source import TRIGGER_COLLECTION, CollectionSnapshot, SourceStream
from tests.proxy.mcp.builders import RULES, SERVICES, rule


def snapshot(version, *rules):
    return CollectionSnapshot(version, {envelope.name: envelope for envelope in rules})


def names(response):
    return [envelope.name for envelope in response.resources]


def ask(nonce="", *, incremental=True, error=None, known=None):
    return RequestResources(
        collection=RULES,
        response_nonce=nonce,
        incremental=incremental,
        error_detail=error,
        initial_resource_versions=known or {},
    )


@pytest.fixture
def snapshots():
    return {RULES: snapshot("v1", rule("ns/a"), rule("ns/b")), SERVICES: None}


@pytest.fixture
def stream(snapshots):
    return SourceStream(snapshots)


def test_a_sink_that_comes_back_gets_what_it_lacks(stream):
    [response] = stream.receive(ask(known={"ns/a": "1", "ns/b": "0", "ns/gone": "1"}))

    assert (names(response), response.removed_resources) == (["ns/b"], ("ns/gone",))


def test_pilot_sends_everything_to_a_sink_that_comes_back(snapshots):
    [response] = SourceStream(snapshots, FeedMode.PILOT).receive(ask(known={"ns/a": "1"}))

    assert names(response) == ["ns/a", "ns/b"]


def test_a_sink_that_lacks_nothing_is_answered_all_the_same(stream):
    [response] = stream.receive(ask(known={"ns/a": "1", "ns/b": "1"}))

    assert (names(response), response.removed_resources) == ([], ())


@pytest.mark.parametrize("nonce", ["0", "2", "nonsense"])
def test_a_stale_nonce_is_ignored(stream, snapshots, nonce):
    stream.receive(ask())
    snapshots[RULES] = snapshot("v2")

    assert stream.receive(ask(nonce)) == []
    assert stream.publish(RULES) == []
    assert len(stream.receive(ask("1"))) == 1


def test_a_repeated_answer_is_stale(stream):
    stream.receive(ask())
    stream.receive(ask("1"))

    assert stream.receive(ask("1")) == []


def test_what_was_refused_is_sent_again_only_when_it_changes(stream, snapshots):
    stream.receive(ask())
    assert stream.receive(ask("1", error=Status(3))) == []
    assert stream.publish(RULES) == []
    snapshots[RULES] = snapshot("v2", rule("ns/a", "2"))

    [response] = stream.publish(RULES)

    assert names(response) == ["ns/a"]


def test_a_second_first_request_waits_for_the_answer_to_the_first(stream, snapshots):
    """By the protocol's text it acknowledges nothing; what is under way answers it too."""
    stream.receive(ask())
    assert stream.receive(ask()) == []
    snapshots[RULES] = snapshot("v2", rule("ns/a"), rule("ns/b"), rule("ns/c"))

    [response] = stream.receive(ask("1"))

    assert names(response) == ["ns/c"]


def test_a_collection_without_content_yet_is_answered_once_it_has_some(stream, snapshots):
    request = RequestResources(collection=SERVICES)
    assert stream.receive(request) == []
    snapshots[SERVICES] = snapshot("v1")

    assert len(stream.publish(SERVICES)) == 1


def test_an_unknown_collection_ends_the_stream(stream):
    with pytest.raises(StreamRefusedError, match="unsupported collection 'nope'"):
        stream.receive(RequestResources(collection="nope"))


def test_the_trigger_is_sent_as_istio_does_only(snapshots):
    assert SourceStream(snapshots).dialled() == []
    assert [one.collection for one in SourceStream(snapshots, FeedMode.PILOT).dialled()] == [TRIGGER_COLLECTION]
