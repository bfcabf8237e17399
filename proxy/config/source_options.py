"""Where configuration comes from, and how its servers are reached, whatever protocol they speak."""

import enum
from pathlib import Path

import attrs

from proxy.config.address import Address

DEFAULT_MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # gRPC's own 4 MiB ends at some two hundred big rules
DEFAULT_KEEPALIVE_MS = 30_000


class SourceScheme(enum.Enum):
    """How a source is fed from; MCP_LISTEN waits for sources that dial."""

    FILES = "fs"
    MCP = "mcp"
    MCP_LISTEN = "mcp-listen"
    XDS = "xds"
    XDS_DELTA = "xds-delta"


@attrs.frozen
class Source:
    """Where resources come from: `fs:///absolute/path`, or `SCHEME://host:port`."""

    scheme: SourceScheme
    target: str

    @classmethod
    def parse(cls, text: str) -> "Source":
        """Read a source URL.

        Raises:
            ValueError: The scheme is not known, or what follows is not of its kind; the message is the rule it breaks.
        """
        name, separator, target = text.partition("://")
        try:
            scheme = SourceScheme(name)
        except ValueError:
            separator = ""
        if not separator:
            schemes = ", ".join(f"{known.value}://" for known in SourceScheme)
            raise ValueError(f"must be one of {schemes} and what follows it")
        if scheme is SourceScheme.FILES:
            if not target.startswith("/"):
                raise ValueError("must be fs:// and an absolute path")
        elif Address.parse(target).path:
            raise ValueError(f"must be {name}:// and host:port")
        return cls(scheme, target)

    def __str__(self) -> str:
        return f"{self.scheme.value}://{self.target}"


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
