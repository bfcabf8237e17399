"""The base of every error that `proxy` raises on purpose."""


class ProxyError(Exception):
    """Base class; subclasses say what a caller can do about it."""


class ListenError(ProxyError):
    """Raised when an address cannot be listened on; `address` names it."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address}; {reason}")
        self.address = address
