"""Every client on both event loops of the sidecar."""

from tests.proxy.http.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
