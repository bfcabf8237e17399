"""Opening a connection to an upstream address, in any of its forms."""

import asyncio
from collections.abc import Callable

from proxy.config.address import UNIX_PREFIX


async def connect(loop: asyncio.AbstractEventLoop, protocol: Callable[[], asyncio.BaseProtocol], address: str) -> None:
    """Connect `protocol` to `host:port`, `[v6]:port` or `unix://path`.

    Raises:
        OSError: No connection can be had.
    """
    if address.startswith(UNIX_PREFIX):
        await loop.create_unix_connection(protocol, address.removeprefix(UNIX_PREFIX))
    else:
        host, _, port = address.rpartition(":")
        await loop.create_connection(protocol, host.strip("[]"), int(port))
