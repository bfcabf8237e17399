"""The client's socket: reading stops for several reasons at once, closing waits for a client that still sends."""

import asyncio
from collections.abc import Callable

from proxy.deadlines import Deadlines

# Envoy's delayed_close_timeout: after a reply to a request that was not read to its end, an immediate close could reset
# the connection before the client has read the reply.
DELAYED_CLOSE_MS = 1_000


class ClientSocket:
    """One accepted connection's transport."""

    __slots__ = ("_deadlines", "_read_disabled", "abort", "transport", "write")

    def __init__(self, transport: asyncio.Transport, deadlines: Deadlines) -> None:
        self.transport = transport
        self.write: Callable[[bytes], None] = transport.write
        self.abort: Callable[[], None] = transport.abort
        self._deadlines = deadlines
        self._read_disabled = 0

    @property
    def remote_address(self) -> str:
        """The client's `ip:port`; empty for a unix socket."""
        return _address_text(self.transport.get_extra_info("peername"))

    @property
    def local_address(self) -> str:
        """The `ip:port` that the client has connected to; empty for a unix socket."""
        return _address_text(self.transport.get_extra_info("sockname"))

    @property
    def can_half_close(self) -> bool:
        """Whether one direction may end before the other; in TLS it may not."""
        return self.transport.can_write_eof()

    def disable_read(self, reason: int) -> None:
        """Stop reading; `reason` is a bit."""
        if not self._read_disabled:
            self.transport.pause_reading()
        self._read_disabled |= reason

    def enable_read(self, reason: int) -> None:
        """Read again, unless another reason holds."""
        if self._read_disabled:
            self._read_disabled &= ~reason
            if not self._read_disabled:
                self.transport.resume_reading()

    def close(self) -> None:
        """Close behind what was written."""
        self.transport.close()

    def close_gently(self) -> None:
        """End our side behind what was written, and close once the client has had time to read it."""
        if self._read_disabled:
            self._read_disabled = 0
            self.transport.resume_reading()
        if self.can_half_close:
            self.transport.write_eof()
        else:
            self.transport.close()  # TLS says goodbye, and waits for the client's
        self._deadlines.set(self.abort, DELAYED_CLOSE_MS)

    def on_lost(self) -> None:
        """The connection is gone."""
        self._deadlines.clear(self.abort, DELAYED_CLOSE_MS)


def _address_text(name: object) -> str:
    """Return a socket name as `ip:port` or `[v6]:port`."""
    if not isinstance(name, tuple):
        return ""
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
