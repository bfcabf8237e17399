"""Two HTTP/2 sessions face to face, and frames by hand."""

import struct
from collections.abc import Sequence

from proxy.codec.headers import FRAMING_HEADERS, HeaderList, HeaderTable
from proxy.codec.http2_events import Http2Event
from proxy.codec.http2_frames import PREFACE
from proxy.codec.http2_options import Http2Options, Http2Stats
from proxy.codec.http2_session import Http2Session

TABLE = HeaderTable(FRAMING_HEADERS)
GET: HeaderList = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/")]
POST: HeaderList = [(b":method", b"POST"), *GET[1:]]
OK: HeaderList = [(b":status", b"200")]


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BHBBL", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream_id) + payload


def frames(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return `(kind, flags, stream id, payload)` of each frame; a preface is skipped."""
    data = data.removeprefix(PREFACE)
    found = []
    while data:
        high, low, kind, flags, stream_id = struct.unpack_from(">BHBBL", data)
        end = 9 + (high << 16 | low)
        found.append((kind, flags, stream_id, data[9:end]))
        data = data[end:]
    return found


def session(*, client: bool = False, stats: Http2Stats | None = None, **options: int) -> Http2Session:
    return Http2Session(client=client, options=Http2Options(table=TABLE, **options), stats=stats or Http2Stats())


def server_fed(*data: bytes, stats: Http2Stats | None = None, **options: int) -> tuple[Http2Session, list[Http2Event]]:
    """Return a server that has been greeted and fed, and the events; what it greets with has been taken."""
    server = session(stats=stats, **options)
    server.start()
    server.feed(PREFACE + frame(4, 0, 0))
    server.take_output()
    return server, server.feed(b"".join(data))


class Pair:
    """A client and a server; `client_events` and `server_events` are what each has heard."""

    def __init__(self, **options: int) -> None:
        self.client_stats = Http2Stats()
        self.server_stats = Http2Stats()
        self.client = session(client=True, stats=self.client_stats, **options)
        self.server = session(stats=self.server_stats, **options)
        self.client_events: list[Http2Event] = []
        self.server_events: list[Http2Event] = []
        self.client.start()
        self.server.start()
        self.exchange()
        self.client_events.clear()
        self.server_events.clear()

    def exchange(self) -> None:
        """Carry everything across that is to be carried."""
        while True:
            to_server = self.client.take_output()
            to_client = self.server.take_output()
            if not to_server and not to_client:
                return
            self.client.on_written()
            self.server.on_written()
            if to_server:
                self.server_events += self.server.feed(to_server)
            if to_client:
                self.client_events += self.client.feed(to_client)

    def open(self, lines: Sequence[tuple[bytes, bytes]] = GET, *, end_stream: bool = False) -> int:
        """Open a stream with a request and carry it across."""
        stream_id = self.client.open_stream()
        self.client.send_headers(stream_id, list(lines), end_stream=end_stream)
        self.exchange()
        return stream_id
