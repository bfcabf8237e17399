"""A sidecar's memory while long streams pass: `python -m tests.proxy.grpc.streaming --mebibytes 1024`.

The sidecar is a process of its own, as users run it. Prints the resident memory before, at most while a stream
passes, and the rate, for each direction and for a client that reads slowly.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import attrs
import grpc

from tests.oracle.service import Service
from tests.oracle.sidecar import Sidecar
from tests.proxy.grpc.backend import SERVICE, Backend

MEBIBYTE = 1024 * 1024
SAMPLE_S = 0.02
_PAUSE_S = 0.005  # after each mebibyte, of a client that is slow


@attrs.frozen(kw_only=True)
class Passed:
    """One stream: what the sidecar's memory was, in bytes, and how long it took."""

    what: str
    before_bytes: int
    most_bytes: int
    seconds: float

    @property
    def growth_bytes(self) -> int:
        """What it took more at its most."""
        return self.most_bytes - self.before_bytes


async def stream_all(mebibytes: int, *, warm_up_mebibytes: int = 16) -> list[Passed]:
    """Send that much through a sidecar in each way, after a little to warm it up."""
    async with Backend() as backend:
        service = Service(
            host="stream.test", addresses=[backend.address], outlier_detection=None, timeout_ms=0, http2=True
        )
        async with Sidecar([service]) as sidecar:
            options = (("grpc.default_authority", service.host), ("grpc.max_receive_message_length", -1))
            async with grpc.aio.insecure_channel("{}:{}".format(*sidecar.listen), options=options) as channel:
                for way in _WAYS.values():
                    await way(channel, warm_up_mebibytes)
                return [await _watched(what, way(channel, mebibytes), sidecar.pid) for what, way in _WAYS.items()]


async def _watched(what: str, stream: Awaitable[None], pid: int) -> Passed:
    before = most = _resident_bytes(pid)
    start = time.monotonic()
    task = asyncio.ensure_future(stream)
    while not task.done():
        await asyncio.wait((task,), timeout=SAMPLE_S)
        most = max(most, _resident_bytes(pid))
    await task
    return Passed(what=what, before_bytes=before, most_bytes=most, seconds=time.monotonic() - start)


async def _download(channel: grpc.aio.Channel, mebibytes: int, *, pause_s: float = 0.0) -> None:
    received = 0
    async for message in channel.unary_stream(f"/{SERVICE}/Count")(b"%d %d" % (mebibytes, MEBIBYTE)):
        received += len(message)
        if pause_s:
            await asyncio.sleep(pause_s)
    assert received == mebibytes * MEBIBYTE


async def _download_slowly(channel: grpc.aio.Channel, mebibytes: int) -> None:
    await _download(channel, mebibytes, pause_s=_PAUSE_S)


async def _upload(channel: grpc.aio.Channel, mebibytes: int) -> None:
    message = os.urandom(MEBIBYTE)

    async def messages() -> AsyncIterator[bytes]:
        for _ in range(mebibytes):
            yield message

    assert int(await channel.stream_unary(f"/{SERVICE}/Collect")(messages())) == mebibytes * MEBIBYTE


_WAYS: dict[str, Callable[[grpc.aio.Channel, int], Awaitable[None]]] = {
    "to the client": _download,
    "to a client that is slow": _download_slowly,
    "to the host": _upload,
}


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.proxy.grpc.streaming", description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024, help="length of each stream (default %(default)s)")
    options = parser.parse_args(arguments)
    for passed in asyncio.run(stream_all(options.mebibytes)):
        before_mb, most_mb = passed.before_bytes / 1e6, passed.most_bytes / 1e6
        rate = options.mebibytes / passed.seconds
        sys.stdout.write(f"{passed.what}: {before_mb:.1f} MB before, {most_mb:.1f} at most, {rate:.0f} MiB/s\n")


if __name__ == "__main__":
    main()
