"""Header values with something of the request or the response in them: Envoy's `%...%` command operators.

Made ready once per route. Known are those of `_OPERATORS` and `%REQ(name?other):length%`, `%RESP(...)%`; `%%` is a
percent sign. What is not there is empty. Anything else between percent signs stays as it is written, where Envoy would
refuse the configuration. Ports the substitution formatter as `HeaderParser` uses it (Envoy,
source/common/formatter, source/common/router/header_parser.cc).
"""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from proxy.cluster.cluster import Cluster
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.codec.joined_headers import JOINED_REQUEST_HEADERS, JOINED_RESPONSE_HEADERS, header_values
from proxy.response_flags import ResponseFlag, flags_text
from proxy.router.route_match import request_scheme
from proxy.upstream.host import Host


class ClientConnection(Protocol):
    """Both ends of the client's connection, `ip:port`; empty for a unix socket."""

    @property
    def remote_address(self) -> str:
        """The client's."""

    @property
    def local_address(self) -> str:
        """Ours."""


class StreamInfo(Protocol):
    """What operators can say of one request; an `Exchange` is one."""

    @property
    def head(self) -> RequestHead:
        """The request."""

    @property
    def encoder(self) -> ClientConnection:
        """The way to the client."""

    @property
    def cluster(self) -> Cluster | None:
        """Where it goes."""

    @property
    def host(self) -> Host | None:
        """The host tried last."""

    @property
    def attempts(self) -> int:
        """How many hosts were tried."""

    @property
    def flags(self) -> tuple[ResponseFlag, ...]:
        """Why it ended as it did."""

    @property
    def details(self) -> str:
        """The same, in words."""


HeaderFormat = Callable[[StreamInfo, ResponseHead | None], bytes]

_COMMAND = re.compile(r"%(?:%|([A-Z_]+)(?:\(([^)]*)\))?(?::([0-9]+))?%)")


def compile_format(text: str) -> bytes | HeaderFormat:
    """Return the value itself if it is always the same, otherwise the function that makes it.

    The function takes the request and the response, None when there is none yet.
    """
    parts: list[bytes | HeaderFormat] = []
    literal = ""
    position = 0
    for command in _COMMAND.finditer(text):
        literal += text[position : command.start()]
        position = command.end()
        operator = None if command[0] == "%%" else _operator(command)
        if operator is None:
            literal += "%" if command[0] == "%%" else command[0]
            continue
        parts += [literal.encode(), operator]
        literal = ""
    literal += text[position:]
    if not parts:
        return literal.encode()
    parts.append(literal.encode())
    return lambda stream, response: b"".join(
        [part if isinstance(part, bytes) else part(stream, response) for part in parts]
    )


def _operator(command: re.Match[str]) -> HeaderFormat | None:
    name, argument, length = command.groups()
    if name in {"REQ", "RESP"} and argument:
        of_header = _request_header if name == "REQ" else _response_header
        names = [part.lower().encode() for part in argument.split("?", 1)]
        limit = None if length is None else int(length)
        return lambda stream, response: next(filter(None, (of_header(n, stream, response) for n in names)), b"")[:limit]
    of_stream = _OPERATORS.get(name)
    return None if of_stream is None or argument or length else of_stream


def _request_header(name: bytes, stream: StreamInfo, _: ResponseHead | None) -> bytes:
    head = stream.head
    match name:
        case b":method":
            return head.method
        case b":path":
            return head.path
        case b":authority":
            return head.authority
        case b":scheme":
            return request_scheme(head)
    values = header_values(head.headers, name, JOINED_REQUEST_HEADERS)
    return values[0] if values else b""


def _response_header(name: bytes, _: StreamInfo, response: ResponseHead | None) -> bytes:
    values = header_values(response.headers, name, JOINED_RESPONSE_HEADERS) if response is not None else []
    return values[0] if values else b""


def _ip(address: str) -> bytes:
    return address.rpartition(":")[0].strip("[]").encode()


def _port(address: str) -> bytes:
    return address.rpartition(":")[2].encode()


def _cluster(stream: StreamInfo, _: ResponseHead | None) -> bytes:
    return stream.cluster.name.encode() if stream.cluster is not None else b""


def _host(stream: StreamInfo, _: ResponseHead | None) -> bytes:
    return stream.host.address.encode() if stream.host is not None else b""


def _attempts(stream: StreamInfo, response: ResponseHead | None) -> bytes:
    return b"%d" % (stream.attempts if response is not None else max(1, stream.attempts))  # about to be made


def _status(_: StreamInfo, response: ResponseHead | None) -> bytes:
    return b"%d" % (response.status if response is not None else 0)


_OPERATORS: Mapping[str, HeaderFormat] = {
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS": lambda stream, _: stream.encoder.remote_address.encode(),
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": lambda stream, _: _ip(stream.encoder.remote_address),
    "DOWNSTREAM_LOCAL_ADDRESS": lambda stream, _: stream.encoder.local_address.encode(),
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": lambda stream, _: _ip(stream.encoder.local_address),
    "DOWNSTREAM_LOCAL_PORT": lambda stream, _: _port(stream.encoder.local_address),
    "DOWNSTREAM_REMOTE_ADDRESS": lambda stream, _: stream.encoder.remote_address.encode(),
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": lambda stream, _: _ip(stream.encoder.remote_address),
    "DOWNSTREAM_REMOTE_PORT": lambda stream, _: _port(stream.encoder.remote_address),
    "PROTOCOL": lambda stream, _: b"HTTP/2" if stream.head.http2 else b"HTTP/1.1",
    "RESPONSE_CODE": _status,
    "RESPONSE_CODE_DETAILS": lambda stream, _: stream.details.encode(),
    "RESPONSE_FLAGS": lambda stream, _: flags_text(stream.flags).encode(),
    "UPSTREAM_CLUSTER": _cluster,
    "UPSTREAM_HOST": _host,
    "UPSTREAM_REQUEST_ATTEMPT_COUNT": _attempts,
}
