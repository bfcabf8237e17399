import pytest

from proxy.config.feed_mode import FeedMode
from proxy.mcp.messages import Code
from proxy.mcp.sink import Sink
from tests.proxy.mcp.builders import RULES, Receiver, delta, garbage, rule, whole


def receiver(mode=FeedMode.SPEC, *, incremental=True):
    return Receiver(Sink({RULES: incremental}, mode), mode)


def test_one_bad_rule_is_refused_by_name_and_the_others_are_taken():
    """CASES MCP-02: collection, name, field, value and rule are named; the old version of that one stays."""
    sink = receiver()
    sink.receive(whole(rule("ns/a"), rule("ns/b"), rule("ns/c")))

    request = sink.receive(
        whole(rule("ns/a", "2"), rule("ns/b", "2", max_ejection_percent=150), rule("ns/c", "2"), nonce="2")
    )

    assert sink.versions() == {"ns/a": "2", "ns/b": "1", "ns/c": "2"}
    assert request.error_detail.code == Code.INVALID_ARGUMENT
    assert request.error_detail.message.startswith(
        f"{RULES}: DestinationRule ns/b: body.trafficPolicy.outlierDetection.maxEjectionPercent = 150; "
    )
    assert sink.errors() == ["DestinationRule ns/b"]
    assert sink.sink.versions(RULES) == {"ns/a": "2", "ns/b": "1", "ns/c": "2"}


def test_a_bad_rule_without_a_good_version_is_not_in_force_and_not_known():
    sink = receiver()
    sink.receive(whole(rule("ns/a", max_ejection_percent=150)))

    assert sink.versions() == {}
    assert sink.sink.versions(RULES) == {}
    assert sink.sink.synced == {RULES}


def test_a_bad_rule_that_is_put_right_is_taken():
    sink = receiver()
    sink.receive(whole(rule("ns/a", "1", max_ejection_percent=150)))
    request = sink.receive(whole(rule("ns/a", "2"), nonce="2"))

    assert request.error_detail is None
    assert sink.versions() == {"ns/a": "2"}
    assert sink.errors() == []


def test_a_bad_rule_that_is_removed_is_gone_with_its_last_good_version():
    sink = receiver()
    sink.receive(whole(rule("ns/a")))
    sink.receive(whole(rule("ns/a", "2", max_ejection_percent=150), nonce="2"))
    sink.receive(whole(nonce="3"))

    assert sink.versions() == {}
    assert sink.errors() == []


def test_a_repeated_payload_is_refused_again_and_decoded_once():
    sink = receiver()
    message = whole(rule("ns/a", max_ejection_percent=150), rule("ns/b"))
    requests = [sink.receive(message) for _ in range(100)]

    assert {request.error_detail.code for request in requests} == {Code.INVALID_ARGUMENT}
    assert sink.decoded == 2


def test_strict_takes_nothing_of_a_message_with_a_bad_rule():
    sink = receiver(FeedMode.STRICT)
    sink.receive(whole(rule("ns/a"), rule("ns/b")))
    request = sink.receive(whole(rule("ns/a", "2"), rule("ns/b", "2", max_ejection_percent=150), nonce="2"))

    assert request.error_detail.code == Code.INVALID_ARGUMENT
    assert sink.versions() == {"ns/a": "1", "ns/b": "1"}
    assert sink.errors() == ["DestinationRule ns/b"]


def test_strict_is_not_synced_by_what_it_refuses():
    sink = receiver(FeedMode.STRICT)
    sink.receive(whole(rule("ns/a", max_ejection_percent=150)))

    assert sink.sink.synced == frozenset()


def test_pilot_drops_a_bad_rule_with_its_old_version_and_acknowledges():
    sink = receiver(FeedMode.PILOT)
    sink.receive(whole(rule("ns/a"), rule("ns/b")))
    request = sink.receive(whole(rule("ns/a", "2", max_ejection_percent=150), rule("ns/b", "2"), nonce="2"))

    assert request.error_detail is None
    assert sink.versions() == {"ns/b": "2"}
    assert sink.errors() == ["DestinationRule ns/a"]


@pytest.mark.parametrize("mode", list(FeedMode))
def test_nothing_is_taken_of_a_message_with_an_undecodable_body(mode):
    sink = receiver(mode)
    sink.receive(whole(rule("ns/a")))
    request = sink.receive(whole(rule("ns/a", "2"), garbage("ns/b"), nonce="2"))

    assert request.error_detail.code == Code.UNKNOWN
    assert sink.versions() == {"ns/a": "1"}
    assert sink.errors() == ["ns/b"]


def test_an_undecodable_body_is_forgotten_with_the_next_message():
    sink = receiver()
    sink.receive(whole(rule("ns/a")))
    sink.receive(whole(garbage("ns/a", "2"), garbage("ns/b"), nonce="2"))
    sink.receive(whole(rule("ns/a"), nonce="3"))

    assert sink.versions() == {"ns/a": "1"}
    assert sink.errors() == []


def test_a_delta_that_nobody_asked_for_is_taken_as_one():
    """A delta that is taken for the whole would delete the rest."""
    sink = receiver(incremental=False)
    sink.receive(whole(rule("ns/a"), rule("ns/b")))
    request = sink.receive(delta(rule("ns/c"), removed=("ns/b",), nonce="2"))

    assert sink.versions() == {"ns/a": "1", "ns/c": "1"}
    assert not request.incremental


def test_pilot_takes_every_message_for_the_whole():
    sink = receiver(FeedMode.PILOT)
    sink.receive(whole(rule("ns/a"), rule("ns/b")))
    sink.receive(delta(rule("ns/c"), nonce="2"))

    assert sink.versions() == {"ns/c": "1"}


def test_a_name_both_removed_and_sent_is_there():
    sink = receiver()
    sink.receive(delta(rule("ns/a")))
    sink.receive(delta(rule("ns/a", "2"), removed=("ns/a",), nonce="2"))

    assert sink.versions() == {"ns/a": "2"}


def test_a_refusal_names_ten_rules_and_counts_the_rest():
    sink = receiver()
    bad = [rule(f"ns/{number}", max_ejection_percent=150) for number in range(12)]

    message = sink.receive(whole(*bad)).error_detail.message

    assert message.count("maxEjectionPercent") == 10
    assert message.endswith("; and 2 more")
