"""A backend, a sidecar before it, and a client's channel to the sidecar."""

from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from proxy.config.cluster_config import Http2Options
from tests.proxy.grpc.backend import Backend
from tests.proxy.http.sidecar import Sidecar

OpenChannel = Callable[..., grpc.aio.Channel]


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with Backend() as backend:
        yield backend


@pytest.fixture
async def sidecar(backend: Backend) -> AsyncIterator[Sidecar]:
    async with Sidecar(backend.address, h2_upstream=Http2Options()) as sidecar:
        yield sidecar


@pytest.fixture
async def open_channel() -> AsyncIterator[OpenChannel]:
    """Return what opens a channel to a sidecar, with a connection of its own."""
    channels = []

    def channel(sidecar: Sidecar, **options: object) -> grpc.aio.Channel:
        fixed = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            ("grpc.default_authority", "service"),
        ]
        compression = options.pop("compression", None)
        named = [(f"grpc.{name}", value) for name, value in options.items()]
        channels.append(
            grpc.aio.insecure_channel(str(sidecar.listener.address), options=fixed + named, compression=compression)
        )
        return channels[-1]

    yield channel
    for each in channels:
        await each.close()


@pytest.fixture
async def channel(sidecar: Sidecar, open_channel: OpenChannel) -> grpc.aio.Channel:
    return open_channel(sidecar)
