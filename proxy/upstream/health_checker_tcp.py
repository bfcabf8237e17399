"""Checks over TCP: can the host be connected to, and does it say what it should.

Ports `TcpActiveHealthCheckSession` (Envoy, source/extensions/health_checkers/tcp/health_checker_impl.cc) and
`PayloadMatcher` (source/common/upstream/health_checker_impl.cc).
"""

import asyncio
from collections.abc import Iterable

from proxy.config.health_check import TcpHealthCheck
from proxy.upstream.connecting import Connect, connect
from proxy.upstream.health_checker_probe import CheckResult, ProbeConnection, Report
from proxy.upstream.health_checker_session import Failure
from proxy.upstream.host import Host


def matches(blocks: Iterable[bytes], data: bytes) -> bool:
    """Whether all `blocks` are in `data`, in this order and without overlap; other bytes may stand between.

    >>> matches([b"PO", b"NG"], b"+PO..NG"), matches([b"NG", b"PO"], b"PONG")
    (True, False)
    """
    position = 0
    for block in blocks:
        found = data.find(block, position)
        if found < 0:
            return False
        position = found + len(block)
    return True


class TcpProbe:
    """A `Probe` that connects and, if something is to be received, talks.

    Args:
        host: The host.
        check: What is sent, and what has to come back.
        reuse_connection: Whether the next check may go over the same connection; without `receive` none does.
        loop: The event loop.
        report: Takes the results.
        connect: Opens connections.

    As in Envoy, a connection that the host closes between two checks is a failure too.
    """

    def __init__(
        self,
        host: Host,
        check: TcpHealthCheck,
        *,
        reuse_connection: bool,
        loop: asyncio.AbstractEventLoop,
        report: Report,
        connect: Connect = connect,
    ) -> None:
        self._address = host.address
        self._reuse_connection = reuse_connection
        self._loop = loop
        self._connect = connect
        self._report = report
        self._connection: _TcpConnection | None = None
        self.check = check

    def start(self) -> None:
        """Connect if need be, and send."""
        connection = self._connection
        if connection is None or connection.closed:
            connection = self._connection = _TcpConnection(self, self._address, self._loop, self._connect)
        if self.check.receive:
            connection.write(b"".join(self.check.send))

    def abandon(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    # Called by the connection

    def on_pass(self) -> None:
        """The host has done what it should."""
        if not (self.check.receive and self._reuse_connection):
            self.abandon()
        self._report(CheckResult())

    def on_reset(self) -> None:
        """The connection is gone."""
        self._report(CheckResult(Failure.NETWORK))


class _TcpConnection(ProbeConnection):
    """Collects what the host sends."""

    def __init__(self, probe: TcpProbe, address: str, loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
        super().__init__(address, loop, connect)
        self._probe = probe
        self._received = b""

    def on_open(self) -> None:
        """If nothing is to be received, this was the check."""
        if not self._probe.check.receive:
            self._probe.on_pass()

    def data_received(self, data: bytes) -> None:
        """Look for the blocks."""
        self._received += data
        if matches(self._probe.check.receive, self._received):
            self._received = b""
            self._probe.on_pass()

    def on_gone(self) -> None:
        """Tell."""
        self._probe.on_reset()
