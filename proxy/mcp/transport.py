"""Streams over gRPC, for both protocols; the one file that knows it.

A stream carries bytes and both protocols are one two-way method, so a path is all that tells them apart.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

# Read when the library loads: what it would print about peers is in our own log, once.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
import grpc.aio

from proxy.config.source_options import ConnectionOptions
from proxy.errors import ListenError, ProxyError
from proxy.mcp.messages import Code, StreamRefusedError
from proxy.mcp.stream import Stream, StreamError

MCP_SOURCE_PATH = "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream"
MCP_SINK_PATH = "/istio.mcp.v1alpha1.ResourceSink/EstablishResourceStream"
_ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService"
XDS_PATH = f"{_ADS}/StreamAggregatedResources"
XDS_DELTA_PATH = f"{_ADS}/DeltaAggregatedResources"

_UNLIMITED = -1
_MIN_PING_INTERVAL_MS = 5_000  # of clients; grpc's own 5 minutes would end connections that probe more often
_STOP_WAIT_S = 1.0
_SETTLE_TURNS = 10

Handler = Callable[[Stream, str], Awaitable[None]]
"""Serves a stream of the peer with that address; returns, or raises StreamRefusedError, to end it."""

_EOF: Any = vars(grpc.aio)["EOF"]  # left out of the stubs


class TlsFileError(ProxyError):
    """Raised when a TLS file cannot be read.

    Attributes:
        path: The file.
        reason: What the operating system says.
    """

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def _read(path: Any) -> bytes | None:
    if path is None:
        return None
    try:
        return bytes(path.read_bytes())
    except OSError as exc:
        raise TlsFileError(path, exc.strerror or str(exc)) from exc


def _options(options: ConnectionOptions) -> list[tuple[str, Any]]:
    answer_ms = max(options.keepalive_ms // 3, 1)
    return [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", _UNLIMITED),
        ("grpc.keepalive_time_ms", options.keepalive_ms),
        ("grpc.keepalive_timeout_ms", answer_ms),
        ("grpc.http2.ping_timeout_ms", answer_ms),  # of any probe; a minute by default, whatever the option above says
        # A stream is open all the time; a connection without one is not worth a probe. A server that finds the probes
        # too many says so, and grpc then doubles the interval.
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_pings_without_data", 0),
    ]


class _ClientStream:
    """A stream that this side opened, and the channel made for it."""

    def __init__(self, channel: grpc.aio.Channel, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
        self._channel = channel
        self._call = call

    async def send(self, data: bytes) -> None:
        try:
            await self._call.write(data)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as exc:
            raise await self._error() from exc

    async def receive(self) -> bytes | None:
        try:
            data = await self._call.read()
        except grpc.aio.AioRpcError as exc:
            raise _stream_error(exc) from exc
        if data is _EOF:
            if await self._call.code() is grpc.StatusCode.OK:
                return None
            raise await self._error()
        assert isinstance(data, bytes)
        return data

    def cancel(self) -> None:
        self._call.cancel()

    async def wait_closed(self) -> None:
        self._call.cancel()
        await self._channel.close(None)
        await _settle()

    async def _error(self) -> StreamError:
        code = await self._call.code()
        return StreamError(code.value[0], f"{code.name}: {await self._call.details()}")


def _stream_error(exc: grpc.aio.AioRpcError) -> StreamError:
    return StreamError(exc.code().value[0], f"{exc.code().name}: {exc.details()}")


async def dial(address: str, path: str, options: ConnectionOptions) -> Stream:
    """Return a stream to a peer, once the peer is reached.

    Args:
        address: `host:port`, or `unix:///path`.
        path: The method.
        options: How.

    Raises:
        StreamError: It cannot be reached, or a file of the TLS options cannot be read (yet).
    """
    # Each connection is one of its own: a shared one would share its fate, and outlive its options.
    channel_options = [*_options(options), ("grpc.use_local_subchannel_pool", 1)]
    if options.tls is None:
        channel = grpc.aio.insecure_channel(address, channel_options)
    else:
        if options.tls.server_name:
            channel_options.append(("grpc.ssl_target_name_override", options.tls.server_name))
        try:
            files = [_read(path) for path in (options.tls.ca, options.tls.key, options.tls.certificate)]
        except TlsFileError as exc:
            raise StreamError(Code.UNAVAILABLE, str(exc)) from exc
        credentials = grpc.ssl_channel_credentials(*files)
        channel = grpc.aio.secure_channel(address, credentials, channel_options)
    try:
        await _wait_ready(channel, address)
        call = channel.stream_stream(path, request_serializer=None, response_deserializer=None)(None)
    except BaseException:
        await channel.close(None)
        raise
    return _ClientStream(channel, call)


async def _wait_ready(channel: grpc.aio.Channel, address: str) -> None:
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in {grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN}:
            raise StreamError(Code.UNAVAILABLE, f"{address} cannot be connected to")
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


class _ServerStream:
    """A stream that a peer opened."""

    def __init__(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        self._context = context
        self._cancelled = False
        self._reading: asyncio.Future[Any] | None = None

    async def send(self, data: bytes) -> None:
        try:
            await self._context.write(data)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as exc:
            raise StreamError(Code.CANCELLED, f"the peer has gone: {exc}") from exc

    async def receive(self) -> bytes | None:
        self._reading = asyncio.ensure_future(self._context.read())
        if self._cancelled:
            self._reading.cancel()
        try:
            data = await self._reading
        except grpc.aio.AioRpcError as exc:
            raise _stream_error(exc) from exc
        except asyncio.CancelledError:
            if self._cancelled:  # the reading was cancelled, not the one who waits for it
                raise StreamError(Code.CANCELLED, "ended by this side") from None
            raise
        if data is _EOF:
            return None
        assert isinstance(data, bytes)
        return data

    def cancel(self) -> None:
        self._cancelled = True
        if self._reading is not None:
            self._reading.cancel()

    async def wait_closed(self) -> None:
        self.cancel()


class Server:
    """Listens, and hands each stream to the handler of its path.

    Args:
        handlers: Path -> what serves its streams.
        options: How; TLS with a `ca` demands a certificate of each client.
    """

    def __init__(self, handlers: Mapping[str, Handler], options: ConnectionOptions) -> None:
        self._tls = options.tls
        self._streams: dict[asyncio.Task[Any], _ServerStream] = {}
        self._server = grpc.aio.server(
            options=[
                *_options(options),
                ("grpc.http2.min_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
                ("grpc.so_reuseport", 0),
            ]
        )
        self._server.add_generic_rpc_handlers((_Handlers(handlers, self._streams),))

    async def start(self, address: str) -> str:
        """Listen on `host:port`, `[v6]:port` or `unix:///path`; return the address with the port it really has.

        Raises:
            ListenError: The address cannot be listened on.
            TlsFileError: A file of the TLS options cannot be read.
        """
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(address)
            else:
                pair = (_read(self._tls.key) or b"", _read(self._tls.certificate) or b"")
                authority = _read(self._tls.ca)
                credentials = grpc.ssl_server_credentials([pair], authority, authority is not None)
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as exc:
            raise ListenError(address, "cannot be listened on") from exc
        await self._server.start()
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    async def stop(self) -> None:
        """End every stream and stop listening."""
        for stream in self._streams.values():
            stream.cancel()
        if self._streams:  # grpc reports a handler that it has to cancel itself as a failure
            await asyncio.wait(self._streams, timeout=_STOP_WAIT_S)
        await self._server.stop(_STOP_WAIT_S)
        await _settle()


async def _settle() -> None:
    """Let grpc's own tasks see that their call is over: a loop that ends before prints them as failures."""
    for _ in range(_SETTLE_TURNS):
        await asyncio.sleep(0)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, handlers: Mapping[str, Handler], streams: dict[asyncio.Task[Any], _ServerStream]) -> None:
        self._handlers = handlers
        self._streams = streams

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        handler = self._handlers.get(handler_call_details.method)
        if handler is None:
            return None

        async def serve(_requests: AsyncIterator[bytes], context: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            stream = self._streams[task] = _ServerStream(context)
            try:
                with contextlib.suppress(StreamError):
                    await handler(stream, context.peer())
            except StreamRefusedError as exc:
                code = next(code for code in grpc.StatusCode if code.value[0] == exc.status.code)
                await context.abort(code, exc.status.message)
            finally:
                del self._streams[task]

        return grpc.stream_stream_rpc_method_handler(serve)
