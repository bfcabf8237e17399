"""Orders and values are what Envoy 1.40 sent for the same operations."""

from types import SimpleNamespace

import pytest

from proxy.codec.http1_response import ResponseHead
from proxy.config.route_config import NO_OPERATIONS, HeaderOperations
from proxy.response_flags import ResponseFlag
from proxy.router.header_format import compile_format
from proxy.router.header_operations import compile_operations
from proxy.upstream.connection import DATE, SERVER, SERVICE_TIME
from tests.proxy.router.heads import lines, request_head, response_head
from tests.proxy.router.stream import stream


def changed_request(operations, *request_lines, path="/"):
    head = request_head(path, *request_lines)
    compile_operations(operations).apply_to_request(head, stream(head))
    return head


def changed_response(operations, head):
    compile_operations(operations).apply_to_response(head, stream(request_head()))
    return head


def formatted(text, head=None, response=None, **facts):
    made = compile_format(text)
    return made if isinstance(made, bytes) else made(stream(head or request_head(), **facts), response)


def test_nothing_to_do_is_none():
    assert compile_operations(NO_OPERATIONS, HeaderOperations()) is None


def test_removes_then_sets_then_adds():
    operations = HeaderOperations(
        add=(("x-add", "added-%REQ(x-set)%-%REQ(x-gone)%."), ("accept", "added"), ("x-both", "again"), ("X-New2", "2")),
        set=(("x-set", "new"), ("User-Agent", "ua"), ("x-pct", "100%%"), ("x-new1", "1"), ("x-new3", "3")),
        remove=("x-gone", "X-Both"),
    )

    head = changed_request(
        operations,
        *("x-set: 1", "x-1: a", "x-set: 2", "user-agent: curl", "x-gone: g", "x-both: b", "accept: a", "x-2: b"),
        *("x-add: a0", "x-3: c"),
    )

    assert lines(head.headers) == [
        "host: service",
        "x-1: a",
        "accept: a,added",
        "x-2: b",
        "x-add: a0",
        "x-3: c",
        "x-set: new",
        "user-agent: ua",
        "x-pct: 100%",
        "x-new1: 1",
        "x-new3: 3",
        "x-add: added-1-.",
        "x-both: again",
        "x-new2: 2",
    ]


def test_empty_value_changes_nothing():
    operations = HeaderOperations(set=(("x-a", ""), ("x-b", "%REQ(x-missing)%")), add=(("x-c", ""),))

    assert lines(changed_request(operations, "x-a: keep").headers) == ["host: service", "x-a: keep"]


def test_later_list_wins():
    edits = compile_operations(HeaderOperations(set=(("x-a", "cluster"),)), HeaderOperations(set=(("x-a", "route"),)))
    head = request_head()

    edits.apply_to_request(head, stream(head))

    assert lines(head.headers) == ["host: service", "x-a: route"]


@pytest.mark.parametrize("name", ["host", "content-length", "transfer-encoding", "connection", "Upgrade", "te"])
def test_what_frames_a_message_is_not_written(name):
    operations = HeaderOperations(set=((name, "1"),), add=((name, "2"),))

    assert lines(changed_request(operations).headers) == ["host: service"]


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b"])
def test_value_that_would_end_its_line_is_left_out(value):
    operations = HeaderOperations(set=(("x-a", value),), add=(("x-b", value),))

    assert lines(changed_request(operations).headers) == ["host: service"]


def test_host_is_not_removed():
    assert lines(changed_request(HeaderOperations(remove=("Host",))).headers) == ["host: service"]


def test_body_without_its_length_goes_in_chunks():
    operations = HeaderOperations(remove=("content-length",))

    head = request_head("/", "content-length: 3", method="POST")
    compile_operations(operations).apply_to_request(head, stream(head))
    response = ResponseHead(200, [(b"content-length", b"3")], 0)
    response.content_length = 3
    changed_response(operations, response)

    assert (head.content_length, lines(head.headers)) == (-1, ["host: service"])
    assert (response.content_length, response.headers) == (-1, [])


def test_length_that_is_not_stated_yet_is_not_removed():
    """A reply of our own gets its length behind the operations."""
    response = ResponseHead(503, [], 0)
    response.content_length = 3

    changed_response(HeaderOperations(remove=("content-length",)), response)

    assert response.content_length == 3


def test_response_marks_follow_the_headers():
    operations = HeaderOperations(
        set=(("server", "mine"),), add=(("x-envoy-upstream-service-time", "7"),), remove=("date",)
    )
    head = response_head("date: x", "x-a: 1")
    assert head.marks & DATE

    changed_response(operations, head)

    assert not head.marks & DATE
    assert head.marks & SERVER
    assert head.marks & SERVICE_TIME


def test_response_lines_join_where_envoy_keeps_one():
    operations = HeaderOperations(add=(("set-cookie", "a=b"), ("cache-control", "no-store")))
    head = response_head("cache-control: a", "set-cookie: c")

    changed_response(operations, head)

    assert lines(head.headers) == ["cache-control: a,no-store", "set-cookie: c", "set-cookie: a=b"]


def test_constant_value_needs_no_function():
    assert compile_format("100%% of it") == b"100% of it"


@pytest.mark.parametrize("text", ["50%", "%START_TIME%", "%PROTOCOL(x)%", "%REQ%", "a%b%c"])
def test_what_is_no_known_operator_stays_as_written(text):
    assert formatted(text) == text.encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%REQ(x-a?x-b)%|%REQ(x-a?x-b):2%|%REQ(X-B)%", b"bcde|bc|bcde"),
        ("%REQ(:AUTHORITY)%|%REQ(:METHOD)%|%REQ(:PATH)%|%REQ(:SCHEME)%|%REQ(host)%", b"Aa:80|GET|/x?q=1|http|Aa:80"),
        ("%REQ(accept)%", b"1,2"),
        ("%RESP(x-backend)%", b""),
        ("%PROTOCOL%", b"HTTP/1.1"),
        ("%DOWNSTREAM_REMOTE_ADDRESS%|%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", b"10.0.0.1:4711|10.0.0.1:4711"),
        ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%|%DOWNSTREAM_REMOTE_PORT%", b"10.0.0.1|4711"),
        ("%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%|%DOWNSTREAM_LOCAL_PORT%", b"127.0.0.1|80"),
        ("%UPSTREAM_HOST%|%UPSTREAM_CLUSTER%", b"|"),
        ("%RESPONSE_CODE%|%RESPONSE_FLAGS%|%RESPONSE_CODE_DETAILS%", b"0|-|"),
        ("%UPSTREAM_REQUEST_ATTEMPT_COUNT%", b"1"),
    ],
)
def test_operators_of_a_request(text, expected):
    head = request_head("/x?q=1", "x-b: bcde", "x-b: 2", "accept: 1", "accept: 2", authority="Aa:80")

    assert formatted(text, head) == expected


def test_protocol_is_the_clients():
    head = request_head()
    head.http2 = True

    assert formatted("%PROTOCOL%", head) == b"HTTP/2"


def test_operators_of_a_response():
    made = formatted(
        "%RESP(x-backend)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %UPSTREAM_HOST% "
        "%UPSTREAM_CLUSTER% %REQ(x-set)% %UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        request_head("/", "x-set: new"),
        response_head("x-backend: 1", status=503),
        cluster=SimpleNamespace(name="a"),
        host=SimpleNamespace(address="127.0.0.1:21911"),
        attempts=2,
        flags=(ResponseFlag.UPSTREAM_RETRY_LIMIT_EXCEEDED,),
        details="via_upstream",
    )

    assert made == b"1 503 URX via_upstream 127.0.0.1:21911 a new 2"


def test_ipv6_address_without_its_port():
    connection = SimpleNamespace(remote_address="[::1]:80", local_address="")

    assert formatted("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", encoder=connection) == b"::1"
