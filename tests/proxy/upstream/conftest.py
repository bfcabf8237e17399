"""Fixtures and loops shared with the tests of the transport."""

from tests.proxy.http.black_hole import black_hole
from tests.proxy.http.conftest import pytest_asyncio_loop_factories

__all__ = ["black_hole", "pytest_asyncio_loop_factories"]
