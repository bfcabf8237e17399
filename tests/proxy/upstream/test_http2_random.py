"""Any mix of requests over any windows and limits: everybody gets what is theirs, and nothing is left behind."""

import asyncio
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.config.cluster_config import Http2Options
from proxy.upstream.http2_connection import STREAM_WINDOW_BYTES
from tests.proxy.http.client import Response
from tests.proxy.http.sidecar import Sidecar, until
from tests.proxy.upstream.http2_upstream import (
    CANCEL,
    INITIAL_WINDOW_SIZE,
    INTERNAL_ERROR,
    MAX_CONCURRENT_STREAMS,
    REFUSED_STREAM,
    Http2Connection,
    Http2Request,
    Http2Upstream,
)

pytestmark = pytest.mark.slow

OWN_LIMIT = 3


@attrs.frozen
class Exchange:
    """One request, and what the host makes of it; `reset` is the code of the host's reset, before or after a piece."""

    request_bytes: int
    response_bytes: int
    piece_bytes: int
    chunked: bool
    trailers: bool
    reset: int | None
    reset_late: bool


@attrs.frozen
class Plan:
    """All requests at once; `leaves_after` is how many streams a connection serves before it says GOAWAY."""

    exchanges: Sequence[Exchange]
    host_window: int
    host_limit: int
    leaves_after: int | None


EXCHANGES = st.builds(
    Exchange,
    request_bytes=st.integers(0, 40_000) | st.just(400_000),
    response_bytes=st.integers(0, 40_000) | st.just(400_000),
    piece_bytes=st.integers(1_000, 16_384),
    chunked=st.booleans(),
    trailers=st.booleans(),
    reset=st.none() | st.none() | st.sampled_from([INTERNAL_ERROR, REFUSED_STREAM, CANCEL]),
    reset_late=st.booleans(),
)
PLANS = st.builds(
    Plan,
    exchanges=st.lists(EXCHANGES, min_size=1, max_size=8),
    host_window=st.integers(1_000, 70_000),
    host_limit=st.integers(1, 5) | st.just(1_000),
    leaves_after=st.none() | st.integers(1, 3),
)


def body(number: int, size: int) -> bytes:
    """Return bytes that no other request has."""
    return (b"%05d." % number * (size // 6 + 1))[:size]


class Host:
    """Answers as the plan says; `most` is how many streams a connection had open at once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._open: dict[Http2Connection, int] = {}
        self._left: set[Http2Connection] = set()
        self._answering: set[Http2Request] = set()
        self.most = 0

    def exchange(self, request: Http2Request) -> tuple[int, Exchange]:
        number = int(request.path[1:])
        return number, self._plan.exchanges[number]

    def on_head(self, request: Http2Request) -> None:
        open_now = self._open[request.connection] = self._open.get(request.connection, 0) + 1
        self.most = max(self.most, open_now)

    def answer(self, request: Http2Request) -> None:
        number, exchange = self.exchange(request)
        connection = request.connection
        assert request.body == body(number, exchange.request_bytes)
        leaves_after = self._plan.leaves_after
        if leaves_after is not None and len(connection.requests) >= leaves_after and connection not in self._left:
            self._left.add(connection)
            connection.go_away(2**31 - 1)  # those under way are served
        if exchange.reset is not None and not exchange.reset_late:
            self._close(request)
            request.reset(exchange.reset)
            return
        request.send_headers([(":status", "200"), ("x-number", str(number))])
        self._answering.add(request)
        self.go_on(request)

    def go_on(self, request: Http2Request) -> None:
        """Send what the window allows, or as much as goes before the reset."""
        if request not in self._answering:
            return
        number, exchange = self.exchange(request)
        whole = body(number, exchange.response_bytes)
        while request.sent < len(whole) and request.sent < STREAM_WINDOW_BYTES + request.granted:
            size = min(exchange.piece_bytes, STREAM_WINDOW_BYTES + request.granted - request.sent)
            request.send_data(whole[request.sent : request.sent + size])
            if exchange.reset is not None:
                break
        if exchange.reset is not None:
            self._close(request)
            request.reset(exchange.reset)
        elif request.sent == len(whole):
            self._close(request)
            if exchange.trailers:
                request.send_headers([("x-sum", str(number))], end_stream=True)
            else:
                request.send_data(b"", end_stream=True)

    def _close(self, request: Http2Request) -> None:
        self._open[request.connection] -= 1
        self._answering.discard(request)


async def exchanged(plan: Plan) -> tuple[Host, list[Response]]:
    host = Host(plan)
    upstream = Http2Upstream(
        host.answer,
        on_head=host.on_head,
        on_window=host.go_on,
        settings={INITIAL_WINDOW_SIZE: plan.host_window, MAX_CONCURRENT_STREAMS: plan.host_limit},
    )
    options = Http2Options(max_concurrent_streams=OWN_LIMIT)
    async with upstream, Sidecar(upstream.address, h2_upstream=options) as sidecar:
        clients = [await sidecar.client() for _ in plan.exchanges]
        for number, (client, exchange) in enumerate(zip(clients, plan.exchanges, strict=True)):
            data = body(number, exchange.request_bytes)
            head = b"POST /%d HTTP/1.1\r\nHost: a\r\n" % number
            if exchange.chunked and data:
                client.send(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
            else:
                client.send(head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
        responses = list(await asyncio.gather(*(client.response("POST") for client in clients)))
        await until(lambda: sidecar.stat("upstream_rq_active") == 0)
        assert sidecar.stat("http2.pending_send_bytes") == 0
        assert sidecar.stat("http2.streams_active") == 0
        assert sidecar.stat("upstream_rq_total") == len(plan.exchanges)
    return host, responses


@settings(max_examples=25, deadline=None)
@given(plan=PLANS)
def test_everybody_gets_what_is_theirs(plan):
    host, responses = asyncio.run(exchanged(plan))

    assert host.most <= OWN_LIMIT
    for number, (response, exchange) in enumerate(zip(responses, plan.exchanges, strict=True)):
        if exchange.reset is None:
            assert (response.status, response.complete) == (200, True)
            assert response.body == body(number, exchange.response_bytes)
            assert response.trailers == ([("x-sum", str(number))] if exchange.trailers else [])
        elif exchange.reset_late:
            assert (response.status, response.complete) == (200, False)
        else:
            assert response.status == 503
