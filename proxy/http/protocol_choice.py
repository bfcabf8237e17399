"""Which HTTP a new client speaks: what TLS has agreed on, or what its first bytes say.

An asyncio protocol until that is known, then gone: a request passes through none of this.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from proxy.codec.http2_frames import PREFACE
from proxy.http.connection_timers import REQUEST_HEAD_TIMEOUT_MS
from proxy.http.downstream import DownstreamConnection
from proxy.http.http2_connection import Http2Connection

if TYPE_CHECKING:
    from proxy.http.listener import Listener

ALPN_PROTOCOLS = ["h2", "http/1.1"]


class ProtocolChoice(asyncio.Protocol):
    """A client that has sent nothing, or a part of HTTP/2's preface; until it has, it is served as HTTP/1.1."""

    __slots__ = ("_connection", "_listener", "_received", "_transport")

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._connection = DownstreamConnection(listener)
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        tls = transport.get_extra_info("ssl_object")
        agreed = tls.selected_alpn_protocol() if tls is not None else None
        self._connection.connection_made(transport)
        if agreed == "h2":
            self._speak_http2(b"")
        elif agreed is not None:
            self._transport.set_protocol(self._connection)

    def data_received(self, data: bytes) -> None:
        """Compare the first bytes with HTTP/2's."""
        received = self._received + data
        if not PREFACE.startswith(received[: len(PREFACE)]):
            self._speak_http1(received)
        elif len(received) >= len(PREFACE):
            self._speak_http2(received)
        else:
            if not self._received:
                self._listener.router.deadlines.set(self._give_up, REQUEST_HEAD_TIMEOUT_MS)
            self._received = received

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._forget_deadline()
        self._connection.connection_lost(exc)

    def _give_up(self) -> None:
        """The rest of the preface does not come: let HTTP/1.1 wait for the rest of a head."""
        if not self._transport.is_closing():
            self._speak_http1(self._received)

    def _speak_http1(self, received: bytes) -> None:
        self._forget_deadline()
        self._transport.set_protocol(self._connection)
        self._connection.data_received(received)

    def _speak_http2(self, received: bytes) -> None:
        self._forget_deadline()
        if self._connection.closing:
            return
        connection = Http2Connection(self._listener, self._transport)
        self._listener.replace(self._connection, connection)
        self._connection.connection_lost(None)
        self._transport.set_protocol(connection)
        connection.start()
        if received:
            connection.data_received(received)

    def _forget_deadline(self) -> None:
        self._listener.router.deadlines.clear(self._give_up, REQUEST_HEAD_TIMEOUT_MS)
