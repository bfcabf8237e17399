"""Long streams pass through; they are not collected."""

import pytest

from tests.proxy.grpc.streaming import stream_all

STREAM_MEBIBYTES = 64
# What windows and sockets may hold; a sidecar that collected a stream would take all of it.
ALLOWED_GROWTH_BYTES = 24_000_000


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_memory_does_not_grow_with_the_length_of_a_stream():
    for passed in await stream_all(STREAM_MEBIBYTES):
        assert passed.growth_bytes < ALLOWED_GROWTH_BYTES, passed
