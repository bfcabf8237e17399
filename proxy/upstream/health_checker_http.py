"""Checks over HTTP/1.1: one request, and what its response says of the host.

It speaks through the data plane's own codec: the bytes are Envoy's, no client library adds headers, retries or pools.
Ports `HttpActiveHealthCheckSession` (Envoy, source/extensions/health_checkers/http/health_checker_impl.cc).
"""

import asyncio

from proxy.codec.http1_encode import encode_request_head
from proxy.codec.http1_parser import End, ProtocolError
from proxy.codec.http1_response import ResponseHead, ResponseParser
from proxy.config.health_check import CheckMethod, HttpHealthCheck
from proxy.upstream.connecting import Connect, connect
from proxy.upstream.connection import DEGRADED, IMMEDIATE_HEALTH_CHECK_FAIL, RESPONSE_HEADERS
from proxy.upstream.health_checker_probe import CheckResult, ProbeConnection, Report
from proxy.upstream.health_checker_session import Failure
from proxy.upstream.host import HealthFlag, Host


class HttpProbe:
    """A `Probe` that sends one request a check.

    Args:
        host: The host; it is marked as excluded where a failure says so by header.
        check: The request, and what is expected.
        authority: Of the request, where the check names none.
        reuse_connection: Whether the next check may go over the same connection.
        loop: The event loop.
        report: Takes the results.
        connect: Opens connections.
    """

    def __init__(
        self,
        host: Host,
        check: HttpHealthCheck,
        *,
        authority: str,
        reuse_connection: bool,
        loop: asyncio.AbstractEventLoop,
        report: Report,
        connect: Connect = connect,
    ) -> None:
        self._host = host
        self._check = check
        self._reuse_connection = reuse_connection
        self._loop = loop
        self._connect = connect
        self._report = report
        self._request = _encode(check, authority)
        self._connection: _HttpConnection | None = None

    def start(self) -> None:
        """Send the request, on a new connection if need be."""
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = _HttpConnection(self, self._host.address, self._loop, self._connect)
        connection.send(self._request, head_request=self._check.method is CheckMethod.HEAD)

    def abandon(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    # Called by the connection

    def on_response(self, head: ResponseHead, *, reusable: bool) -> None:
        """Judge a response."""
        if not (reusable and self._reuse_connection):
            self.abandon()
        self._report(self._judge(head))

    def on_reset(self) -> None:
        """There will be no response."""
        self._report(CheckResult(Failure.NETWORK))

    def _judge(self, head: ResponseHead) -> CheckResult:
        check, status = self._check, head.status
        if check.expects(status):
            return CheckResult(degraded=head.marks & DEGRADED != 0, status=status)
        if head.marks & IMMEDIATE_HEALTH_CHECK_FAIL:
            self._host.set_flag(HealthFlag.EXCLUDED_VIA_IMMEDIATE_HC_FAIL)
        return CheckResult(Failure.ACTIVE, retriable=check.retries(status), status=status)


class _HttpConnection(ProbeConnection):
    """Carries one request at a time."""

    def __init__(self, probe: HttpProbe, address: str, loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
        super().__init__(address, loop, connect)
        self._probe = probe
        self._parser = ResponseParser(RESPONSE_HEADERS)
        self._busy = False
        self._head: ResponseHead | None = None

    def send(self, request: bytes, *, head_request: bool) -> None:
        """Send a request."""
        self._busy = True
        self._head = None
        self._parser.expect(head_request=head_request)
        self.write(request)

    def data_received(self, data: bytes) -> None:
        """Look for the end of the response; its body does not matter."""
        if not self._busy:
            self.abort()  # bytes that nobody asked for
            return
        events = self._parser.feed(data)
        for event in events:
            if isinstance(event, ProtocolError):
                self.abort()
                self.on_gone()
                return
            if isinstance(event, ResponseHead):
                if event.status < 200:
                    continue
                self._head = event
            if isinstance(event, End) or (isinstance(event, ResponseHead) and event.end_stream):
                self._complete(reusable=event is events[-1] and self._parser.keep_alive)
                return

    def eof_received(self) -> None:
        """A body of unstated length ends here."""
        if self._busy and self._parser.end_of_stream():
            self._complete(reusable=False)

    def on_gone(self) -> None:
        """Without a request under way nobody minds."""
        if self._busy:
            self._busy = False
            self._probe.on_reset()

    def _complete(self, *, reusable: bool) -> None:
        assert self._head is not None
        self._busy = False
        self._probe.on_response(self._head, reusable=reusable)


def _encode(check: HttpHealthCheck, authority: str) -> bytes:
    headers = [
        (b"host", (check.host or authority).encode()),
        (b"user-agent", b"Envoy/HC"),
        *((name.encode(), value.encode()) for name, value in check.request_headers_to_add),
    ]
    data, _ = encode_request_head(
        check.method.value.encode(), check.path.encode(), headers, content_length=-1, end_stream=True
    )
    return data
