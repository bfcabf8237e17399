"""The surroundings of a connection without sockets: a transport, a clock, a host that answers at once."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any
from zlib import crc32

from proxy.codec.headers import HeaderList
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead
from proxy.config.route_config import RetryPolicy
from proxy.upstream.host import Host
from proxy.upstream.stream import PoolClient, ResetReason
from tests.proxy.http.sidecar import ManualClock, ManualTimer, Sidecar

MAX_TIMERS = 1_000
DATE = b"Mon, 30 Nov 2026 01:00:00 GMT"


class FuzzClock(ManualClock):
    """A clock that also keeps what is to be called soon, for `run_soon`."""

    def __init__(self) -> None:
        super().__init__()
        self._soon: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def call_at(self, when: float, callback: Callable[[], None]) -> ManualTimer:
        if len(self._timers) > MAX_TIMERS:  # time hardly passes, so cancelled ones would never be dropped
            self._timers = [entry for entry in self._timers if entry[2]._callback is not None]
            heapq.heapify(self._timers)
        return super().call_at(when, callback)

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._soon.append((callback, arguments))

    def run_soon(self) -> None:
        """Call what was to be called soon, and what that wants to be called."""
        while self._soon:
            callback, arguments = self._soon.popleft()
            callback(*arguments)


class FakeTransport(asyncio.Transport):
    """Keeps what is written; `reading` is false while the protocol wants nothing, `ended` once it sends no more."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.written: list[bytes] = []
        self.reading = True
        self.ended = False
        self.closed = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 4_000) if name in {"peername", "sockname"} else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def write(self, data: Any) -> None:
        assert type(data) is bytes, f"{type(data)} was written"
        assert data, "nothing was written"
        if not self.closed and not self.ended:
            self.written.append(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class InstantStream:
    """The host's side of one attempt: answers when the request is complete, as the request's path says.

    A tunnel sends back what it gets. Everything that the answer depends on is in the request, so that the same bytes
    have the same answers, however they were cut.
    """

    def __init__(self, pool: "InstantPool", client: PoolClient) -> None:
        self.host = pool.host
        self._pool = pool
        self._client = client
        self._body_bytes = 0
        self._digest = 0
        self._tunnel = False
        self._echo: list[bytes] = []
        self._given_up = False
        self.gone = False  # answered, or given up

    def encode_headers(self, head: RequestHead, headers: HeaderList, *, end_stream: bool) -> None:
        self._head = head
        own = [line for line in headers if line[0] not in {b"x-request-id", b"x-envoy-expected-rq-timeout-ms"}]
        self._request = (head.method, head.path, head.authority, own)
        if end_stream or head.upgrade:
            self._pool.due.append(self)

    def encode_data(self, data: bytes) -> None:
        assert data, "an empty piece of body"
        assert type(data) is bytes, f"a piece of body is {type(data)}"
        self._body_bytes += len(data)
        self._digest = crc32(data, self._digest)
        if self._tunnel:
            self._echo.append(data)
            self._pool.due.append(self)

    def encode_end(self, trailers: HeaderList) -> None:
        self._trailers = trailers
        if not self._tunnel:
            self._pool.due.append(self)

    def flush(self) -> None:
        return None

    def reset(self) -> None:
        self.gone = self._given_up = True

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None

    def answer(self) -> None:
        """Answer the request, or echo what has come through the tunnel."""
        if self.gone:
            return
        if self._tunnel:
            echo, self._echo = self._echo, []
            for data in echo:
                self._client.on_response_data(data)
            self._client.on_response_read_end()
            return
        self._pool.served.append((*self._request, self._body_bytes, self._digest))
        path = self._head.path
        kind = crc32(path) % 8
        if self._head.upgrade and kind % 2:
            self._tunnel = True
            head = ResponseHead(101, [(b"connection", b"upgrade"), (b"upgrade", self._head.upgrade)], 0)
            head.end_stream = False
            self._client.on_response_headers(head)
            self._client.on_response_read_end()
        elif kind == 1:
            self.gone = True
            self._client.on_response_reset(ResetReason.CONNECTION_TERMINATION, "")
        elif kind == 2:
            self._respond(503, b"unavailable")
        elif kind == 3:
            self._respond(204, b"")
        elif kind == 4:
            self._respond(200, b"%d %08x" % (self._body_bytes, self._digest), chunked=True)
        else:
            self._respond(200, b"%d %08x" % (self._body_bytes, self._digest))

    def _respond(self, status: int, body: bytes, *, chunked: bool = False) -> None:
        self.gone = True
        head = ResponseHead(status, [(b"x-kind", b"%d" % status)], 0)
        if not chunked and body:
            head.content_length = len(body)
            head.headers.append((b"content-length", b"%d" % len(body)))
        head.chunked = chunked
        head.end_stream = not body or self._head.method == b"HEAD"
        client = self._client
        client.on_response_headers(head)
        if not head.end_stream and not self._given_up:
            client.on_response_data(body[:3])
            client.on_response_data(body[3:])
            client.on_response_end([(b"x-sum", b"1")] if chunked else [])


class InstantPool:
    """A host's pool whose every stream is an `InstantStream`; `served` are the requests that were answered."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.due: deque[InstantStream] = deque()
        self.served: list[tuple[Any, ...]] = []
        self._streams: list[InstantStream] = []

    @property
    def under_way(self) -> int:
        """How many attempts nobody has ended."""
        return sum(not stream.gone for stream in self._streams)

    def forget(self) -> None:
        """Let go of the attempts."""
        self.due.clear()
        self._streams.clear()

    def new_stream(self, client: PoolClient) -> None:
        stream = InstantStream(self, client)
        self._streams.append(stream)
        client.on_pool_ready(stream)

    def cancel(self, client: PoolClient) -> None:
        raise AssertionError("nobody waits here")

    def answer_due(self) -> None:
        """Answer what is complete."""
        while self.due:
            self.due.popleft().answer()


class Scene:
    """One listener with its routes, and the host behind it; no loop may run when it is made."""

    def __init__(self) -> None:
        asyncio.run(self.renew())

    async def renew(self) -> None:
        """Begin anew, without what a broken connection has left."""
        self.clock = FuzzClock()
        policy = RetryPolicy(num_retries=1, retry_on="5xx", base_interval_ms=1)
        self.sidecar = Sidecar("127.0.0.1:1", clock=self.clock, route={"retry": policy, "timeout_ms": 60_000})
        router: Any = self.sidecar.router
        router.loop = self.clock
        self.listener: Any = self.sidecar.listener
        self.listener.date = FixedDate()
        host: Any = self.sidecar.cluster.hosts[0]
        self.pool = host.pool = InstantPool(host)
        self.sidecar.cluster.load_balancer.choose_host = lambda _: host

    def settle(self, *, answer: bool = True) -> None:
        """Let everything happen that can happen without further input or time; a back-off here takes none."""
        while True:
            self.clock.run_soon()
            self.clock.advance(0)
            if not self.pool.due or not answer:
                break
            self.pool.answer_due()


class FixedDate:
    """A date that never changes."""

    def now(self) -> bytes:
        return DATE
