"""An address that does not answer, without any route that loses packets."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address that takes no further connection and refuses none: its queue of unaccepted ones is full."""
    with socket.socket() as listener, ExitStack() as queue:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        yield f"127.0.0.1:{address[1]}"
