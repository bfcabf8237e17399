"""Every test of the transport runs on asyncio's own loop and, where it is installed, on uvloop."""

import asyncio
from collections.abc import Callable, Mapping

from tests.proxy.http.black_hole import black_hole

__all__ = ["black_hole"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> Mapping[str, LoopFactory]:
    factories: dict[str, LoopFactory] = {"asyncio": asyncio.SelectorEventLoop}
    try:
        import uvloop
    except ImportError:
        return factories
    return factories | {"uvloop": uvloop.new_event_loop}
