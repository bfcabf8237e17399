"""Clients' bytes: through the choice of the protocol, the connection, the router and back.

The first byte of an input is the manners of the two sides, bit by bit.
"""

import asyncio
import random
import re
from typing import Any

from proxy.codec.http1_request import RequestParser
from proxy.codec.http2_options import Http2Options, Http2Stats
from proxy.codec.http2_session import Http2Session
from proxy.http.downstream import DownstreamConnection
from proxy.http.http2_connection import Http2Connection
from proxy.http.http2_stream import DownstreamStream
from proxy.http.protocol_choice import ProtocolChoice
from proxy.http.request_headers import REQUEST_HEADERS
from proxy.router.exchange import Exchange
from proxy.router.upstream_request import UpstreamRequest
from tests.fuzz import http1_grammar, http2_grammar
from tests.fuzz.scene import FakeTransport, Scene
from tests.fuzz.sessions import tell_events
from tests.fuzz.target import FindingError, Outcome, take_manners

_LEAVES = 1  # the client goes without a word, whatever is under way
_TAKES_NOTHING = 2  # the client's socket is full until the sidecar reads no more
_SLOW_HOST = 4  # the host answers only then

_CHANGING = re.compile(rb"(x-envoy-upstream-service-time: )\d+")
_LOGGED = ("method", "path", "authority", "response_code", "response_flags", "response_code_details", "attempt")
_BODILESS = frozenset((204, 304))
_REFUSALS = frozenset((400, 426, 431, 501))


class Http1Clients:
    """Pipelines of HTTP/1.1."""

    name = "http1-clients"

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def make_input(self, chance: random.Random) -> bytes:
        return _manners(chance) + http1_grammar.requests(chance)

    def recover(self) -> None:
        asyncio.run(self._scene.renew())

    def alive(self) -> tuple[type, ...]:
        return ProtocolChoice, DownstreamConnection, RequestParser, Exchange, UpstreamRequest

    def run(self, pieces: list[bytes]) -> Outcome:
        manners, pieces = take_manners(pieces)
        transport = converse(self._scene, manners, pieces)
        lines = [{name: line[name] for name in _LOGGED} for line in self._scene.sidecar.log]
        output = _CHANGING.sub(rb"\1<ms>", b"".join(transport.written))
        if not output.startswith(b"\x00"):  # not HTTP/2, which mutation may have made of it
            check_http1_output(output, lines)
        kinds = _kinds(lines)
        if lines and lines[-1]["response_flags"] == "DPE" and lines[-1]["response_code"] in _REFUSALS:
            # Of several reasons to refuse the same bytes the one that is found first depends on the cut.
            lines[-1] = {"refused": True}
            output = output[: output.rindex(b"HTTP/1.1 ")]
        # How much is served before a client goes depends on the time.
        told = None if manners & _LEAVES else (output, lines, self._scene.pool.served.copy())
        return Outcome(told, kinds)


class Http2Clients:
    """Connections of HTTP/2. What a cut changes of them is told by a session alone: answers depend on the time."""

    name = "http2-clients"

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def make_input(self, chance: random.Random) -> bytes:
        return _manners(chance) + http2_grammar.client_bytes(chance)

    def recover(self) -> None:
        asyncio.run(self._scene.renew())

    def alive(self) -> tuple[type, ...]:
        return ProtocolChoice, DownstreamConnection, Http2Connection, DownstreamStream, Exchange, UpstreamRequest

    def run(self, pieces: list[bytes]) -> Outcome:
        manners, pieces = take_manners(pieces)
        converse(self._scene, manners, pieces)
        session = Http2Session(client=False, options=Http2Options(table=REQUEST_HEADERS), stats=Http2Stats())
        session.start()
        told = tell_events(session, pieces)
        return Outcome(told, [*_kinds(self._scene.sidecar.log), *(f"session: {event[0]}" for event in told)])


def converse(scene: Scene, manners: int, pieces: list[bytes]) -> FakeTransport:
    """Let a client send the pieces and leave.

    Raises:
        FindingError: The connection reads no more though nothing is under way, or something is left of it.
    """
    scene.sidecar.log.clear()
    scene.pool.served.clear()
    transport = FakeTransport()
    transport.protocol = ProtocolChoice(scene.listener)
    transport.protocol.connection_made(transport)
    scene.settle()
    full = bool(manners & _TAKES_NOTHING)
    for number, piece in enumerate(pieces):
        if not transport.closed and not transport.reading:
            if full:
                full = False
                transport.protocol.resume_writing()
            scene.settle()
        if transport.closed:
            break
        if not transport.reading:
            raise FindingError("stuck: everything is answered, and the client is not read")
        transport.protocol.data_received(piece)
        if full and not number:
            transport.protocol.pause_writing()
        scene.settle(answer=not manners & _SLOW_HOST)
    if not manners & _LEAVES:
        if full and pieces and not transport.closed:
            transport.protocol.resume_writing()
        scene.settle()
        if not transport.closed:
            transport.protocol.eof_received()
            scene.settle()
    transport.closed = True
    transport.protocol.connection_lost(None)
    scene.settle()
    transport.protocol = None
    left = {
        "connections": scene.listener.connections,
        "requests": scene.sidecar.http_stats.downstream_rq_active,
        "retries": scene.sidecar.cluster.resources.retries,
        "deadlines": len(scene.sidecar.deadlines),
        "attempts": scene.pool.under_way,
    }
    scene.pool.forget()
    if any(left.values()):
        raise FindingError(f"left behind: {left}")
    return transport


def check_http1_output(output: bytes, lines: list[dict[str, Any]]) -> None:
    """Find each logged exchange's response in the output, in order.

    Raises:
        FindingError: One is not there, is malformed, or there are more than were asked for.
    """
    for number, line in enumerate(lines):
        status, last = line["response_code"], number == len(lines) - 1
        if not status:
            break  # the client was gone before
        while output.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
            output = output.partition(b"\r\n\r\n")[2]
        head, blank, output = output.partition(b"\r\n\r\n")
        if not blank or not head.startswith(b"HTTP/1.1 %d " % status):
            raise FindingError(f"response {number} should be {status} and is {head[:60]!r}")
        headers = [field.partition(b": ")[::2] for field in head.split(b"\r\n")[1:]]
        if any(b"\r" in value or b"\n" in value or not name for name, value in headers):
            raise FindingError(f"a malformed line in {head!r}")
        framing = [(name, value) for name, value in headers if name in {b"content-length", b"transfer-encoding"}]
        if len(framing) > 1:
            raise FindingError(f"two framings in {head!r}")
        if status == 101:
            return  # the rest is the tunnel's
        if line["method"] == "HEAD" or status in _BODILESS:
            continue
        rest = _skip_body(output, dict(framing))
        if rest is None:
            if not last:
                raise FindingError(f"response {number} is cut off, and others follow")
            return
        output = rest
    while output.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
        output = output.partition(b"\r\n\r\n")[2]
    if output:
        raise FindingError(f"a response that nobody asked for: {output[:60]!r}")


def _skip_body(data: bytes, framing: dict[bytes, bytes]) -> bytes | None:
    """Return what follows a body; None if it is not complete."""
    if b"content-length" in framing:
        size = int(framing[b"content-length"])
        return data[size:] if len(data) >= size else None
    if b"transfer-encoding" not in framing:
        raise FindingError("a response without framing")
    while True:
        size_text, line_end, data = data.partition(b"\r\n")
        if not line_end:
            return None
        size = int(size_text, 16)
        if not size:
            break
        if data[size : size + 2] != b"\r\n":
            return None
        data = data[size + 2 :]
    while not data.startswith(b"\r\n"):
        _, line_end, data = data.partition(b"\r\n")
        if not line_end:
            return None
    return data[2:]


def _manners(chance: random.Random) -> bytes:
    return bytes((chance.choice((0, 0, 0, 0, _LEAVES, _TAKES_NOTHING, _SLOW_HOST, chance.randrange(8))),))


def _kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [f"{line['response_code']} {line['response_code_details'].partition('{')[0]}" for line in lines]
