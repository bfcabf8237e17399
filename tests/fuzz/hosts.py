"""Hosts' bytes: into the connections of a pool, as answers to requests that were sent.

The first byte of an input says what was asked, and when who has asked gives up.
"""

import asyncio
import random
from typing import Any, cast

from proxy.codec.headers import HeaderList
from proxy.codec.http1_request import RequestHead
from proxy.codec.http1_response import ResponseHead, ResponseParser
from proxy.codec.http2_options import Http2Options, Http2Stats
from proxy.codec.http2_session import Http2Session
from proxy.config.cluster_config import ClusterConfig, Endpoint
from proxy.deadlines import Deadlines
from proxy.upstream.connection import RESPONSE_HEADERS, UpstreamConnection
from proxy.upstream.host import Host
from proxy.upstream.http2_connection import Http2Connection
from proxy.upstream.http2_stream import UpstreamStream
from proxy.upstream.stats import ClusterStats
from proxy.upstream.stream import RequestEncoder, ResetReason
from tests.fuzz import http1_grammar, http2_grammar
from tests.fuzz.scene import FakeTransport, FuzzClock
from tests.fuzz.sessions import tell_events
from tests.fuzz.target import FindingError, Outcome, take_manners

METHODS = (b"GET", b"HEAD", b"POST", b"GET")
_GIVES_UP_AT_HEAD = 4
_GIVES_UP_AT_DATA = 8


class FakePool:
    """What a connection tells its pool; `requests` are under way, `closed` counts the ends it was told of."""

    def __init__(self) -> None:
        self.loop = FuzzClock()
        self.deadlines = Deadlines(cast("asyncio.AbstractEventLoop", self.loop))
        self.host = Host(Endpoint(address="192.0.2.1:80"))
        self.config = ClusterConfig(name="c", service_host="s", port=80)
        self.stats = ClusterStats()
        self.http2_stats = Http2Stats()
        self.max_concurrent_streams = 100
        self.requests = 0
        self.closed = 0

    def new_keepalive(self, *_: Any) -> None:
        return None

    def on_connected(self, *_: Any) -> None:
        return None

    def on_attached(self, *_: Any) -> None:
        return None

    def on_capacity(self, *_: Any) -> None:
        return None

    def on_stream_closed(self, *_: Any) -> None:
        self.requests -= 1

    def on_request_done(self) -> None:
        self.requests -= 1

    def on_connection_free(self, *_: Any) -> None:
        return None

    def on_connection_closed(self, *_: Any, **__: Any) -> None:
        self.closed += 1


class Listener:
    """A `ResponseDecoder` that insists on the order of its calls; `told` is what it has heard.

    It gives up inside a call when its manners say so; `encoder` is the request's.
    """

    encoder: RequestEncoder

    def __init__(self, name: str, manners: int) -> None:
        self.name = name
        self._manners = manners
        self.told: list[Any] = []
        self.headed = False
        self.ended = False

    def on_response_headers(self, head: ResponseHead) -> None:
        self._expect(not self.headed, "a head behind the final one")
        self.headed = head.status >= 200 or head.status == 101
        self.ended = self.headed and head.end_stream
        self.told.append((head.status, list(head.headers), head.content_length, head.end_stream))
        self._give_up(_GIVES_UP_AT_HEAD)

    def on_response_data(self, data: bytes) -> None:
        self._expect(self.headed, "body before the head")
        self._expect(type(data) is bytes and data != b"", f"a piece of body is {data!r}")
        if self.told and isinstance(self.told[-1], bytes):
            self.told[-1] += data
        else:
            self.told.append(data)
        self._give_up(_GIVES_UP_AT_DATA)

    def on_response_read_end(self) -> None:
        self._expect(True, "")

    def on_response_end(self, trailers: HeaderList) -> None:
        self._expect(self.headed, "an end before the head")
        self.ended = True
        self.told.append(("end", list(trailers)))

    def on_response_reset(self, reason: ResetReason, detail: str) -> None:
        self._expect(True, "")
        self.ended = True
        self.told.append(("reset", reason.name))

    def on_request_writable(self, *, writable: bool) -> None:
        return None

    def _give_up(self, manner: int) -> None:
        if self._manners & manner and not self.ended:
            self.ended = True
            self.encoder.reset()

    def _expect(self, condition: bool, otherwise: str) -> None:
        if self.ended:
            raise FindingError(f"{self.name} hears more when all is over")
        if not condition:
            raise FindingError(f"{self.name} hears {otherwise}")


class Http1Hosts:
    """Responses of HTTP/1.1."""

    name = "http1-hosts"

    def make_input(self, chance: random.Random) -> bytes:
        return _manners(chance) + http1_grammar.responses(chance)

    def recover(self) -> None:
        return None

    def alive(self) -> tuple[type, ...]:
        return UpstreamConnection, ResponseParser, Listener

    def run(self, pieces: list[bytes]) -> Outcome:
        manners, pieces = take_manners(pieces)
        pool: Any = FakePool()
        connection = UpstreamConnection(pool, pool)
        connection.connection_made(FakeTransport())
        listener = _ask(connection.attach, pool, manners % 4, manners)
        for piece in pieces:
            if connection.closed:
                break
            connection.data_received(piece)
        if not connection.closed:
            connection.eof_received()
        connection.connection_lost(None)
        _expect_rest(pool, [listener])
        # How much has come when it gives up depends on the cut.
        told = None if manners & _GIVES_UP_AT_DATA else listener.told
        return Outcome(told, _kinds([listener]))


class Http2Hosts:
    """Responses of HTTP/2, to three requests. What a cut changes of them is told by a session alone."""

    name = "http2-hosts"

    def make_input(self, chance: random.Random) -> bytes:
        return _manners(chance) + http2_grammar.server_bytes(chance)

    def recover(self) -> None:
        return None

    def alive(self) -> tuple[type, ...]:
        return Http2Connection, UpstreamStream, Listener

    def run(self, pieces: list[bytes]) -> Outcome:
        manners, pieces = take_manners(pieces)
        pool: Any = FakePool()
        connection = Http2Connection(pool, pool)
        transport = FakeTransport()
        connection.connection_made(transport)
        listeners = [_ask(connection.attach, pool, number, manners) for number in range(3)]
        for piece in pieces:
            if connection.closed:
                break
            connection.data_received(piece)
            pool.loop.run_soon()
        connection.connection_lost(None)
        pool.loop.run_soon()
        _expect_rest(pool, listeners)
        session = Http2Session(client=True, options=Http2Options(table=RESPONSE_HEADERS), stats=Http2Stats())
        session.start()
        for number in range(3):
            lines = [(b":method", METHODS[number]), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]
            session.send_headers(session.open_stream(), lines, end_stream=True)
        told = tell_events(session, pieces)
        return Outcome(told, [*_kinds(listeners), *(f"session: {event[0]}" for event in told)])


def _manners(chance: random.Random) -> bytes:
    asked = chance.randrange(4)
    return bytes((asked | chance.choice((0, 0, 0, _GIVES_UP_AT_HEAD, _GIVES_UP_AT_DATA)),))


def _ask(attach: Any, pool: Any, number: int, manners: int) -> Listener:
    """Send the request of that number: a GET, a HEAD, a POST, one for a WebSocket."""
    listener = Listener(f"request {number}", manners)
    head = RequestHead(METHODS[number], b"/", b"a", [(b"host", b"a")], 0)
    head.end_stream = number < 2
    if number == 2:
        head.content_length = 2
        head.headers.append((b"content-length", b"2"))
    if number == 3:
        head.upgrade = b"websocket"
    encoder = listener.encoder = attach(listener)
    pool.requests += 1
    encoder.encode_headers(head, head.headers, end_stream=head.end_stream)
    if number == 2:
        encoder.encode_data(b"hi")
        encoder.encode_end([])
    encoder.flush()
    return listener


def _expect_rest(pool: FakePool, listeners: list[Listener]) -> None:
    """Nothing is left of a connection that has ended.

    Raises:
        FindingError: Something is.
    """
    for listener in listeners:
        if not listener.ended:
            raise FindingError(f"{listener.name} never hears the end")
    if pool.closed != 1 or pool.requests:
        raise FindingError(f"the pool was told of {pool.closed} ends, and {pool.requests} requests are under way")


def _kinds(listeners: list[Listener]) -> list[str]:
    last = (listener.told[-1] if listener.told else () for listener in listeners)
    return [" ".join(map(str, end[:2])) if end and end[0] == "reset" else "response" for end in last]
