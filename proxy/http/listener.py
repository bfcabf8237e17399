"""One listening address: which service its requests are for, and the connections it has accepted.

The outbound listener lets the authority choose; a listener of one service sends everything there.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from outlier import RandomGenerator
from proxy.config.address import Address
from proxy.errors import ListenError
from proxy.http.date import DateProvider
from proxy.http.downstream import DownstreamConnection
from proxy.http.stats import HttpStats
from proxy.router.exchange import Exchange
from proxy.router.route import ReadyVirtualHost
from proxy.router.route_table import EMPTY_ROUTE_TABLE, RouteTable
from proxy.router.router import Router

OnExchangeEnd = Callable[[DownstreamConnection, Exchange], None]


class Routes:
    """The route table in force; replaced as a whole by a new configuration."""

    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table: RouteTable = EMPTY_ROUTE_TABLE


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
    ) -> None:
        self.address = address
        self.router = router
        self.stats = stats
        self.random = random
        self.date = DateProvider()
        self.draining = False
        self.on_exchange_end = on_exchange_end
        self._routes = routes
        self._connections: set[DownstreamConnection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._server: asyncio.Server | None = None
        self._service = service

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def virtual_host(self, authority: bytes) -> ReadyVirtualHost | None:
        """Return the virtual host for a request, None when there is none."""
        if self._service is None:
            return self._routes.table.find(authority)
        return self._routes.table.find_service(*self._service)

    async def start(self) -> None:
        """Listen; afterwards `address` has the port in use.

        Raises:
            ListenError: The address cannot be had.
        """
        loop = self.router.loop
        address = self.address
        try:
            if address.path:
                self._server = await loop.create_unix_server(partial(DownstreamConnection, self), address.path)
            else:
                self._server = await loop.create_server(
                    partial(DownstreamConnection, self), address.host, address.port, backlog=4096
                )
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

    def on_connected(self, connection: DownstreamConnection) -> None:
        """Count a client in."""
        self._connections.add(connection)
        self._empty.clear()
        self.stats.downstream_cx_total += 1
        self.stats.downstream_cx_active += 1

    def on_disconnected(self, connection: DownstreamConnection) -> None:
        """Count a client out."""
        self._connections.discard(connection)
        self.stats.downstream_cx_active -= 1
        if not self._connections:
            self._empty.set()
