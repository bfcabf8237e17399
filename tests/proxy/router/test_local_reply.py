"""The texts of replies to lost attempts, as Envoy 1.40 sends them."""

import pytest

from proxy.response_flags import ResponseFlag, flags_text
from proxy.router.local_reply import LocalReply, reset_after_start, upstream_reset
from proxy.upstream.stream import ResetReason

FIRST = b"upstream connect error or disconnect/reset before headers. reset reason: "
LAST = b"upstream connect error or disconnect/reset before headers. retried and the latest reset reason: "

REASONS = [
    (ResetReason.CONNECTION_FAILURE, 503, b"remote connection failure", "UF", "remote_connection_failure"),
    (ResetReason.CONNECTION_TIMEOUT, 503, b"connection timeout", "UF", "connection_timeout"),
    (ResetReason.CONNECTION_TERMINATION, 503, b"connection termination", "UC", "connection_termination"),
    (ResetReason.PROTOCOL_ERROR, 502, b"protocol error", "UPE", "protocol_error"),
    (ResetReason.OVERFLOW, 503, b"overflow", "UO", "overflow"),
]


@pytest.mark.parametrize(("reason", "status", "text", "flag", "details"), REASONS)
@pytest.mark.parametrize(("retried", "prefix"), [(False, FIRST), (True, LAST)])
def test_reply_to_a_lost_attempt(reason, status, text, flag, details, retried, prefix):
    reply = upstream_reset(reason, retried=retried)

    assert (reply.status, reply.body, reply.flag.value) == (status, prefix + text, flag)
    assert reply.details == f"upstream_reset_before_response_started{{{details}}}"
    assert reply.overloaded is (reason is ResetReason.OVERFLOW)


def test_words_of_the_operating_system_are_in_the_details_only():
    reply = upstream_reset(
        ResetReason.CONNECTION_FAILURE, transport_failure="delayed_connect_error: Connection refused"
    )

    assert b"refused" not in reply.body
    assert reply.details == (
        "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"
    )


@pytest.mark.parametrize("reason", [reason for reason, *_ in REASONS if reason is not ResetReason.CONNECTION_FAILURE])
def test_only_a_failed_connect_tells_them(reason):
    assert "|" not in upstream_reset(reason, transport_failure="something").details


@pytest.mark.parametrize(("reason", "flag", "details"), [(each[0], *each[3:]) for each in REASONS])
def test_response_that_was_cut_off(reason, flag, details):
    found, text = reset_after_start(reason)

    assert (found.value, text) == (flag, f"upstream_reset_after_response_started{{{details}}}")


@pytest.mark.parametrize(
    ("body", "overloaded", "head_request", "names", "end_stream"),
    [
        (b"", False, False, [], True),
        (b"why", False, False, ["content-length", "content-type"], False),
        (b"why", False, True, ["content-length", "content-type"], True),
        (b"why", True, False, ["x-envoy-overloaded", "content-length", "content-type"], False),
    ],
)
def test_head_of_a_reply(body, overloaded, head_request, names, end_stream):
    head = LocalReply(503, body, None, "d", overloaded).head(head_request=head_request)

    assert [name.decode() for name, _ in head.headers] == names
    assert (head.end_stream, head.content_length) == (end_stream, len(body) or -1)


def test_heads_of_one_reply_are_not_shared():
    reply = LocalReply(503, b"why", None, "d")
    reply.head(head_request=False).headers.clear()

    assert len(reply.head(head_request=False).headers) == 2


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "-"),
        ((ResponseFlag.UPSTREAM_REQUEST_TIMEOUT,), "UT"),
        ((ResponseFlag.UPSTREAM_RETRY_LIMIT_EXCEEDED, ResponseFlag.UPSTREAM_REQUEST_TIMEOUT), "URX,UT"),
    ],
)
def test_flags_are_joined_by_commas(flags, text):
    assert flags_text(flags) == text
