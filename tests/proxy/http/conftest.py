"""Every test of the transport runs on asyncio's own loop and, where it is installed, on uvloop."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> Mapping[str, LoopFactory]:
    factories: dict[str, LoopFactory] = {"asyncio": asyncio.SelectorEventLoop}
    try:
        import uvloop
    except ImportError:
        return factories
    return factories | {"uvloop": uvloop.new_event_loop}


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
