"""How servers of configuration are reached, whatever protocol they speak."""

from pathlib import Path

import attrs

DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # gRPC's own 4 MiB ends at some two hundred big rules
DEFAULT_KEEPALIVE_MS = 30_000


@attrs.frozen(kw_only=True)
class SourceTls:
    """TLS files, PEM. `ca` None trusts the system's authorities; `certificate` and `key` are for mutual TLS.

    `server_name` is what the peer's certificate must be for when that is not the host of its URL.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""


@attrs.frozen(kw_only=True)
class ConnectionOptions:
    """A connection to a server, or for its clients.

    `max_message_bytes` bounds what is received. `keepalive_ms` is how long a connection may be silent before it is
    probed; a peer that does not answer within a third of it is lost. `tls` None is plain text.
    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    keepalive_ms: int = DEFAULT_KEEPALIVE_MS
    tls: SourceTls | None = None
