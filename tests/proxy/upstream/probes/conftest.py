"""Probes run on asyncio's own loop and on uvloop."""

from tests.proxy.http.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
