"""Addresses a listener or an upstream can have: `host:port`, `[v6]:port`, `unix:///path`."""

import attrs

UNIX_PREFIX = "unix://"


@attrs.frozen
class Address:
    """A TCP address, or a unix socket when `path` is set (then `host` is empty and `port` 0).

    `port` is 0..65535; a listener on port 0 picks a free one.
    """

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read one of the three forms.

        Raises:
            ValueError: The text is none of them; the message is the rule it breaks.

        >>> Address.parse("[::1]:80")
        Address(host='::1', port=80, path='')
        """
        if text.startswith(UNIX_PREFIX):
            path = text.removeprefix(UNIX_PREFIX)
            if not path.startswith("/"):
                raise ValueError("must be unix:// and an absolute path")
            return cls(path=path)
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not host or (":" in host and not bracketed):
            raise ValueError("must be host:port, [v6]:port or unix:///path")
        if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise ValueError("must have a port in 0..65535")
        return cls(host[1:-1] if bracketed else host, int(port))

    def __str__(self) -> str:
        if self.path:
            return UNIX_PREFIX + self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
