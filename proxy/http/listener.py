"""One listening address: which service its requests are for, and the connections it has accepted.

The outbound listener lets the authority choose; a listener of one service sends everything there.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from outlier import RandomGenerator
from proxy.config.address import Address
from proxy.config.listener_options import ListenerOptions
from proxy.errors import ListenError
from proxy.http.client import ClientConnection, ClientRequest
from proxy.http.client_socket import DELAYED_CLOSE_MS
from proxy.http.date import DateProvider
from proxy.http.protocol_choice import ProtocolChoice
from proxy.http.stats import HttpStats
from proxy.http.tls import ListenerTls
from proxy.router.exchange import Exchange
from proxy.router.route import ReadyVirtualHost
from proxy.router.route_table import Routes
from proxy.router.router import Router

# How long TLS may take to say goodbye: as long as a client without TLS has to read the last reply.
_TLS_SHUTDOWN_TIMEOUT_S = DELAYED_CLOSE_MS / 1000

OnExchangeEnd = Callable[[ClientRequest, Exchange], None]


_DEFAULT_OPTIONS = ListenerOptions()


class Listener:
    """Accepts clients on one address.

    Args:
        address: Where; port 0 picks one.
        router: What the exchanges share.
        routes: The route table in force.
        service: Host and port of the one service it is for; None lets the authority choose.
        stats: Shared by the listeners of a sidecar.
        random: For request ids.
        on_exchange_end: Told of each exchange that has ended; None costs nothing.
        options: What clients are allowed.
        tls: None speaks plain text.
    """

    def __init__(
        self,
        address: Address,
        router: Router,
        routes: Routes,
        *,
        service: tuple[str, int | None] | None = None,
        stats: HttpStats,
        random: RandomGenerator,
        on_exchange_end: OnExchangeEnd | None = None,
        options: ListenerOptions = _DEFAULT_OPTIONS,
        tls: ListenerTls | None = None,
    ) -> None:
        self.address = address
        self.options = options
        self.scheme = b"http" if tls is None else b"https"
        self.router = router
        self.stats = stats
        self.random = random
        self.date = DateProvider()
        self.draining = False
        self._on_exchange_end = on_exchange_end
        self._routes = routes
        self._tls = tls
        self._connections: set[ClientConnection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._server: asyncio.Server | None = None
        self._service = service

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def accepting(self) -> bool:
        """Whether new clients are taken."""
        return self._server is not None

    def virtual_host(self, authority: bytes) -> ReadyVirtualHost | None:
        """Return the virtual host for a request, None when there is none."""
        if self._service is None:
            return self._routes.table.find(authority)
        return self._routes.table.find_service(*self._service)

    async def start(self) -> None:
        """Listen; afterwards `address` has the port in use.

        Raises:
            ListenError: The address cannot be had, or a TLS file is missing or not fit.
        """
        loop = self.router.loop
        address = self.address
        accept = partial(ProtocolChoice, self)
        secured: dict[str, Any] = {}
        try:
            if self._tls is not None:
                secured = {"ssl": self._tls.context(), "ssl_shutdown_timeout": _TLS_SHUTDOWN_TIMEOUT_S}
            if address.path:
                self._server = await loop.create_unix_server(accept, address.path, **secured)
            else:
                self._server = await loop.create_server(accept, address.host, address.port, backlog=4096, **secured)
        except OSError as exc:
            raise ListenError(str(address), exc.strerror or str(exc)) from exc
        if not address.path and not address.port:
            port = self._server.sockets[0].getsockname()[1]
            self.address = Address(address.host, port)

    def drain(self) -> None:
        """Ask every client to go: idle ones now, busy ones with their response."""
        self.draining = True
        for connection in tuple(self._connections):
            connection.close_when_idle()

    async def wait_empty(self) -> None:
        """Return once no client is connected."""
        await self._empty.wait()

    def stop_accepting(self) -> None:
        """Take no new clients."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        """Stop at once; responses under way are cut off."""
        self.stop_accepting()
        for connection in tuple(self._connections):
            connection.abort()

    # Called by connections

    def admit(self, connection: ClientConnection) -> bool:
        """Count a client in; or return False, since there are too many.

        Envoy closes such a connection without a word as well: a reply would cost what the limit is to save.
        """
        limit = self.options.max_connections
        if limit and len(self._connections) >= limit:
            self.stats.downstream_cx_overflow += 1
            return False
        self._connections.add(connection)
        self._empty.clear()
        self.stats.downstream_cx_total += 1
        self.stats.downstream_cx_active += 1
        if self._tls is not None:
            self.stats.downstream_cx_ssl_total += 1
            self.stats.downstream_cx_ssl_active += 1
        return True

    def replace(self, connection: ClientConnection, successor: ClientConnection) -> None:
        """Let a client be served by another connection from now on: it speaks another protocol."""
        self._connections.remove(connection)
        self._connections.add(successor)

    def log(self, request: ClientRequest, exchange: Exchange) -> None:
        """Tell whoever wants to know that an exchange has ended."""
        if self._on_exchange_end is not None:
            self._on_exchange_end(request, exchange)

    def on_disconnected(self, connection: ClientConnection) -> None:
        """Count a client out, if it was in."""
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self.stats.downstream_cx_active -= 1
        if self._tls is not None:
            self.stats.downstream_cx_ssl_active -= 1
        if not self._connections:
            self._empty.set()
