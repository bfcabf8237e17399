"""Opening a connection to an upstream address, in any of its forms, in the clear or inside TLS."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aiohappyeyeballs import AddrInfoType, start_connection

from proxy.config.address import UNIX_PREFIX
from proxy.config.cluster_config import TcpKeepalive

# How long TLS may take to say goodbye to a host that does not answer; the connection is of no use by then.
_TLS_SHUTDOWN_TIMEOUT_S = 1.0

_NEXT_ADDRESS_AFTER_S = 0.3  # Envoy's `HappyEyeballsConnectionImpl`


Connect = Callable[[asyncio.AbstractEventLoop, Callable[[], asyncio.BaseProtocol], str], Coroutine[Any, Any, None]]


async def connect(
    loop: asyncio.AbstractEventLoop,
    protocol: Callable[[], asyncio.BaseProtocol],
    address: str,
    *,
    alternates: Sequence[str] = (),
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
    keepalive: TcpKeepalive | None = None,
    timeout_ms: int = 0,
) -> None:
    """Connect `protocol` to `host:port`, `[v6]:port` or `unix://path`.

    Args:
        loop: The event loop.
        protocol: Makes the protocol, which hears of the connection once it can carry data.
        address: Where to.
        alternates: Where else, not unix sockets; tried in turn while what was tried before has not answered.
        tls: None speaks plain text.
        server_name: Name to ask for by SNI; empty asks for none.
        keepalive: Probing of idle connections by the operating system; None leaves it off.
        timeout_ms: When the caller gives up; TLS does not give up before that.

    Raises:
        OSError: No connection can be had, or (`ssl.SSLError`) the handshake fails.
    """
    options: dict[str, Any] = {}
    if tls is not None:
        options = {
            "ssl": tls,
            "server_hostname": server_name,
            "ssl_handshake_timeout": timeout_ms / 1000 + 1,
            "ssl_shutdown_timeout": _TLS_SHUTDOWN_TIMEOUT_S,
        }
    if address.startswith(UNIX_PREFIX):
        await loop.create_unix_connection(protocol, address.removeprefix(UNIX_PREFIX), **options)
        return
    host, port = _host_and_port(address)
    if alternates:
        sock = await start_connection(
            [_address_info(*_host_and_port(text)) for text in (address, *alternates)],
            happy_eyeballs_delay=_NEXT_ADDRESS_AFTER_S,
            interleave=1,
            loop=loop,
        )
        transport, _ = await loop.create_connection(protocol, sock=sock, **options)
    else:
        transport, _ = await loop.create_connection(protocol, host, port, **options)
    if keepalive is not None and (sock := transport.get_extra_info("socket")) is not None:
        _keep_alive(sock, keepalive)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _address_info(host: str, port: int) -> AddrInfoType:
    """Return an IP address as `getaddrinfo` has it."""
    if ":" in host:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)


def _keep_alive(sock: socket.socket, keepalive: TcpKeepalive) -> None:
    """Have an idle connection probed; what is not set is the operating system's to choose."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPCNT", keepalive.probes),
        ("TCP_KEEPIDLE", keepalive.time_s),
        ("TCP_KEEPINTVL", keepalive.interval_s),
    ):
        option = getattr(socket, name, None)  # the names are not those of every system
        if value and option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
