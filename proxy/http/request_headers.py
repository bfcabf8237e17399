"""What the connection manager does to a request's headers before it is routed.

The rules of an Envoy listener with `use_remote_address: false`, as Istio's outbound listeners are: every caller
counts as external, so the `x-envoy-*` control headers of a client are removed, and addresses in `x-forwarded-for` are
left alone. Ports `ConnectionManagerUtility::mutateRequestHeaders` (Envoy,
source/common/http/conn_manager_utility.cc).
"""

from outlier import RandomGenerator
from proxy.codec.grpc_headers import CONTENT_TYPE, GRPC_TIMEOUT
from proxy.codec.headers import DROP, FRAMING_HEADERS, NOTED_FIRST, HeaderTable, get_header, replace_header
from proxy.codec.http1_request import RequestHead
from proxy.codec.joined_headers import JOINED_REQUEST_HEADERS

REQUEST_ID = NOTED_FIRST
FORWARDED_PROTO = NOTED_FIRST << 1

_CONTROL_HEADERS = (
    b"x-envoy-expected-rq-timeout-ms",
    b"x-envoy-force-trace",
    b"x-envoy-hedge-on-per-try-timeout",
    b"x-envoy-internal",
    b"x-envoy-ip-tags",
    b"x-envoy-max-retries",
    b"x-envoy-original-url",
    b"x-envoy-retriable-header-names",
    b"x-envoy-retriable-status-codes",
    b"x-envoy-retry-grpc-on",
    b"x-envoy-retry-on",
    b"x-envoy-upstream-alt-stat-name",
    b"x-envoy-upstream-rq-per-try-timeout-ms",
    b"x-envoy-upstream-rq-timeout-alt-response",
    b"x-envoy-upstream-rq-timeout-ms",
    b"x-envoy-upstream-stream-duration-ms",
)

REQUEST_HEADERS = HeaderTable(
    FRAMING_HEADERS
    | {
        **dict.fromkeys(_CONTROL_HEADERS, DROP),
        b"x-request-id": REQUEST_ID,
        b"x-forwarded-proto": FORWARDED_PROTO,
        b"content-type": CONTENT_TYPE,
        b"grpc-timeout": GRPC_TIMEOUT,
    },
    JOINED_REQUEST_HEADERS,
)


def prepare_request(head: RequestHead, scheme: bytes, random: RandomGenerator) -> None:
    """Add what an upstream may expect and the client did not send: `x-forwarded-proto`, `x-request-id`."""
    marks = head.marks
    if not marks & FORWARDED_PROTO:
        head.headers.append((b"x-forwarded-proto", scheme))
    if not marks & REQUEST_ID:
        head.headers.append((b"x-request-id", uuid4(random)))
    elif not get_header(head.headers, b"x-request-id"):
        replace_header(head.headers, b"x-request-id", uuid4(random))


def uuid4(random: RandomGenerator) -> bytes:
    """Return a random UUID, version 4, as text."""
    digits = f"{random.random():016x}{random.random():016x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}".encode()
