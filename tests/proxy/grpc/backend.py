"""A real gRPC server with methods of bytes, so that no message has to be compiled."""

import asyncio
from collections.abc import AsyncIterator
from typing import Self

import grpc

SERVICE = "test.Echo"
_SERVING = b"\x08\x01"  # grpc.health.v1.HealthCheckResponse with status SERVING
# Loopback connections of one process would share a port, and a restarted server its predecessor's clients.
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.max_metadata_size", 256 * 1024))


class Backend:
    """A server of `SERVICE` and of the health service; an async context manager.

    `calls` counts calls that have reached it. `fail_with` makes `Unary` end with that status; `hold` lets `Wait` go on.
    `left` is set when a call of `Wait` was cancelled; `received` has the metadata of the last call.
    """

    def __init__(self, *, port: int = 0) -> None:
        self.calls = 0
        self.fail_with: grpc.StatusCode | None = None
        self.hold = asyncio.Event()
        self.reached = asyncio.Event()
        self.left = asyncio.Event()
        self.received: list[tuple[str, str | bytes]] = []
        self.seconds_left: float | None = None
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "Unary": grpc.unary_unary_rpc_method_handler(self._unary),
                        "Collect": grpc.stream_unary_rpc_method_handler(self._collect),
                        "Count": grpc.unary_stream_rpc_method_handler(self._count),
                        "Echo": grpc.stream_stream_rpc_method_handler(self._echo),
                        "Wait": grpc.unary_unary_rpc_method_handler(self._wait),
                        "Status": grpc.unary_unary_rpc_method_handler(self._status),
                    },
                ),
                grpc.method_handlers_generic_handler(
                    "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(self._check)}
                ),
            )
        )
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")

    @property
    def address(self) -> str:
        """Its `ip:port`."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self, grace_s: float | None = None) -> None:
        """Go away: refuse new calls, and end those under way when `grace_s` is over."""
        await self._server.stop(grace_s)

    def _arrived(self, context: grpc.aio.ServicerContext) -> None:
        self.calls += 1
        self.received = list(context.invocation_metadata() or ())
        self.seconds_left = context.time_remaining()
        self.reached.set()

    async def _unary(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        self._arrived(context)
        if self.fail_with is not None:
            await context.abort(self.fail_with, "as asked for")
        sent_back = [(key, value) for key, value in self.received if key.startswith("m-")]
        await context.send_initial_metadata(sent_back)
        context.set_trailing_metadata([(f"trailing-{key}", value) for key, value in sent_back])
        return request

    async def _collect(self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        """Return how many bytes were sent."""
        self._arrived(context)
        return str(sum([len(request) async for request in requests])).encode()

    async def _count(self, request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        """Send as many messages as asked for: `count size`, each with its number in front."""
        self._arrived(context)
        count, size = map(int, request.split())
        for number in range(count):
            yield str(number).encode().ljust(size, b".")

    async def _echo(self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        self._arrived(context)
        async for request in requests:
            yield request

    async def _wait(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        self._arrived(context)
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        return request

    async def _status(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        """End with the status of this number, a message beyond ASCII and details of all bytes."""
        self._arrived(context)
        code = next(code for code in grpc.StatusCode if code.value[0] == int(request))
        context.set_trailing_metadata((("grpc-status-details-bin", bytes(range(256))),))
        await context.abort(code, "größer als 100 %")
        raise AssertionError

    async def _check(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return _SERVING
