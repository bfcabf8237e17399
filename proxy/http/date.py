"""The Date header's value, formatted at most once per second."""

import time
from email.utils import formatdate


class DateProvider:
    """Knows what time it is, as HTTP writes it."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = b""

    def now(self) -> bytes:
        """Return the present second: `Mon, 30 Nov 2026 01:00:00 GMT`."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True).encode()
        return self._text
