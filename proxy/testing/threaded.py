"""Sidecar and upstreams for synchronous tests: each runs an event loop in a thread of its own.

Every call is carried out in that thread and waited for, so a test sees no state that is half changed.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from outlier import Verdict
from proxy.event_stream import StreamEvent
from proxy.testing.ejection_report import EjectedHosts, Endpoint
from proxy.testing.reply import Reply
from proxy.testing.request import RecordedRequest

if TYPE_CHECKING:
    from proxy.testing.faulty_upstream import FaultyUpstream
    from proxy.testing.sidecar import Sidecar

Result = TypeVar("Result")


class LoopThread:
    """An event loop that runs in a thread until it is closed."""

    def __init__(self, thread_name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=thread_name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Return what the coroutine returns in the loop; raise what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Return what the function returns in the loop's thread; raise what it raises."""

        async def called() -> Result:
            return function(*args, **kwargs)

        return self.run(called())

    def close(self) -> None:
        """End the loop and the thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@attrs.frozen(kw_only=True)
class ThreadedResponse:
    """A response, read whole. `headers` are in order, names as received."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    def json(self) -> Any:
        """Return the body read as JSON."""
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """Return the first value of that name, case-insensitively; None when absent."""
        name = name.lower()
        return next((value for key, value in self.headers if key.lower() == name), None)


class ThreadedFaultyUpstream:
    """A `FaultyUpstream` in a thread: the same methods, to be called without `await`."""

    def __init__(self, upstream: "FaultyUpstream") -> None:
        self._upstream = upstream
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return repr(self._upstream)

    def __enter__(self) -> Self:
        self._thread = LoopThread("faulty-upstream")
        try:
            self._thread.run(self._upstream.start())
        except OSError:
            self._thread.close()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread = self._running()
        thread.run(self._upstream.close())
        thread.close()
        self._thread = None

    @property
    def address(self) -> str:
        """`host:port`, or `[v6]:port`."""
        return self._upstream.address

    @property
    def port(self) -> int:
        """The port; kept while refusing."""
        return self._upstream.port

    @property
    def requests(self) -> list[RecordedRequest]:
        """What was received so far, in order of arrival."""
        return self._running().call(lambda: list(self._upstream.requests))

    @property
    def request_count(self) -> int:
        """How many requests have arrived."""
        return self._upstream.request_count

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return self._upstream.open_connections

    def set(self, reply: Reply | None = None, *, path: str | None = None, **fields: Any) -> None:
        """As `FaultyUpstream.set`."""
        self._running().call(self._upstream.set, reply, path=path, **fields)

    def for_next(self, count: int, reply: Reply | None = None, *, path: str | None = None, **fields: Any) -> None:
        """As `FaultyUpstream.for_next`."""
        self._running().call(self._upstream.for_next, count, reply, path=path, **fields)

    def sequence(self, replies: Iterable[Reply], *, path: str | None = None) -> None:
        """As `FaultyUpstream.sequence`."""
        self._running().call(self._upstream.sequence, tuple(replies), path=path)

    def accept(self) -> None:
        """As `FaultyUpstream.accept`."""
        self._running().run(self._upstream.accept())

    def refuse(self, *, reset: bool = False) -> None:
        """As `FaultyUpstream.refuse`."""
        self._running().run(self._upstream.refuse(reset=reset))

    def drop_connections(self, *, reset: bool = False) -> None:
        """As `FaultyUpstream.drop_connections`."""
        self._running().call(self._upstream.drop_connections, reset=reset)

    def wait_requests(self, count: int) -> None:
        """As `FaultyUpstream.wait_requests`."""
        self._running().run(self._upstream.wait_requests(count))

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("FaultyUpstream is not started; use `with`")
        return self._thread


class ThreadedSidecar:
    """A `Sidecar` in a thread: the same methods, to be called without `await`.

    Any HTTP client can use `url`; `get`, `post` and `request` are for tests that have none.
    """

    def __init__(self, sidecar: "Sidecar") -> None:
        self._sidecar = sidecar
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return repr(self._sidecar)

    def __enter__(self) -> Self:
        self._thread = LoopThread("sidecar")
        try:
            self._thread.run(self._sidecar.start())
        except BaseException:
            self._thread.run(self._sidecar.close())
            self._thread.close()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            exc.add_note(self.timeline())
        thread = self._running()
        thread.run(self._sidecar.close())
        thread.close()
        self._thread = None

    @property
    def url(self) -> str:
        """Where requests for the service go, without a slash at the end."""
        return self._sidecar.url

    @property
    def admin_url(self) -> str:
        """Where the admin listens."""
        return self._sidecar.admin_url

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The hosts of the service."""
        return self._sidecar.endpoints

    def get(self, path: str = "/", **options: Any) -> ThreadedResponse:
        """Send a GET through the proxy; see `request`."""
        return self.request("GET", path, **options)

    def post(self, path: str = "/", **options: Any) -> ThreadedResponse:
        """Send a POST through the proxy; see `request`."""
        return self.request("POST", path, **options)

    def request(self, method: str, path: str = "/", **options: Any) -> ThreadedResponse:
        """Send a request through the proxy and return the response; the arguments are those of `Sidecar.request`."""
        return self._running().run(self._request(method, path, options))

    def advance(self, *, seconds: float = 0, minutes: float = 0, ms: int = 0) -> None:
        """As `Sidecar.advance`."""
        self._running().call(self._sidecar.advance, seconds=seconds, minutes=minutes, ms=ms)

    def ejected(self) -> EjectedHosts:
        """As `Sidecar.ejected`; its explanations are asked for in this thread's own way."""
        return EjectedHosts(self._running().call(self._sidecar.ejected), self)

    def assert_ejected(self, *hosts: Endpoint) -> None:
        """As `Sidecar.assert_ejected`."""
        self._running().call(self._sidecar.assert_ejected, *hosts)

    def wait_ejected(self, *hosts: Endpoint, within_seconds: float = 5.0) -> None:
        """As `Sidecar.wait_ejected`."""
        self._running().run(self._sidecar.wait_ejected(*hosts, within_seconds=within_seconds))

    def wait_unejected(self, *hosts: Endpoint, within_seconds: float = 3600.0) -> None:
        """As `Sidecar.wait_unejected`."""
        self._running().run(self._sidecar.wait_unejected(*hosts, within_seconds=within_seconds))

    def verdict(self, endpoint: Endpoint) -> Verdict:
        """As `Sidecar.verdict`."""
        return self._running().call(self._sidecar.verdict, endpoint)

    def explain(self, endpoint: Endpoint) -> str:
        """As `Sidecar.explain`."""
        return self._running().call(self._sidecar.explain, endpoint)

    @property
    def events(self) -> Sequence[StreamEvent]:
        """As `Sidecar.events`."""
        return self._sidecar.events

    def timeline(self) -> str:
        """As `Sidecar.timeline`."""
        return self._sidecar.timeline()

    async def _request(self, method: str, path: str, options: Mapping[str, Any]) -> ThreadedResponse:
        response = await self._sidecar.request(method, path, **options)
        headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in response.raw_headers]
        return ThreadedResponse(status=response.status, headers=headers, body=await response.read())

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise RuntimeError("the sidecar is not running; use `with`")
        return self._thread
