"""What asks a host whether it is well, whatever the protocol: one check at a time, on a connection of its own."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import attrs

from proxy.upstream.connecting import Connect
from proxy.upstream.health_checker_session import Failure


@attrs.frozen
class CheckResult:
    """How one check ended: passed if `failure` is None, then maybe `degraded`; else maybe `retriable`.

    `status` is that of the response, 0 without one.
    """

    failure: Failure | None = None
    degraded: bool = False
    retriable: bool = False
    status: int = 0


Report = Callable[[CheckResult], None]


class Probe(Protocol):
    """Checks one host and reports each result, never from within `start`."""

    def start(self) -> None:
        """Begin a check; the one before has been reported or abandoned."""

    def abandon(self) -> None:
        """Give up the check and the connection; nothing more is reported of them."""


class ProbeConnection(asyncio.Protocol):
    """One connection, being opened from the start; what is written meanwhile is sent when it is open.

    `connect` opens it, maybe inside TLS. `closed` is true once it is gone, whoever ended it.
    """

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._unsent = b""
        self._opening = loop.create_task(self._open(address, loop, connect))

    def write(self, data: bytes) -> None:
        """Send, now or once the connection is open."""
        if self._transport is not None:
            self._transport.write(data)
        else:
            self._unsent += data

    def abort(self) -> None:
        """Close at once; no callback follows."""
        self.closed = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    def on_open(self) -> None:
        """The connection is open and has sent what was written."""

    def on_gone(self) -> None:
        """The other side has ended the connection, or refused it."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what has waited."""
        self._transport = cast("asyncio.Transport", transport)
        if self.closed:
            self._transport.abort()
            return
        self._transport.write(self._unsent)
        self.on_open()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell, unless it was our doing."""
        self._end()

    async def _open(self, address: str, loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
        try:
            await connect(loop, lambda: self, address)
        except OSError:
            self._end()

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            self.on_gone()
