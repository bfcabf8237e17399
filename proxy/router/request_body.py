"""What has been received of a request's body: for a connection that is not there yet, and for a retry."""

from proxy.codec.headers import HeaderList
from proxy.upstream.stream import RequestEncoder

# Body that waits for a connection; above it the client is not read.
BUFFER_HIGH_WATER_BYTES = 256 * 1024

# Body that is kept so that a retry can send it again (Envoy's per-request buffer limit); above it there are no retries.
REPLAY_LIMIT_BYTES = 1024 * 1024


class RequestBody:
    """Pieces in order, and the trailers once the request is complete. `size` is in bytes."""

    __slots__ = ("_pieces", "_trailers", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._trailers: HeaderList = []
        self.size = 0

    def add(self, data: bytes) -> None:
        """Keep one more piece."""
        self._pieces.append(data)
        self.size += len(data)

    def end(self, trailers: HeaderList) -> None:
        """Keep the trailers."""
        self._trailers = trailers

    def discard(self) -> None:
        """Forget the pieces; they have been sent and are not needed again."""
        self._pieces = []
        self.size = 0

    def send(self, encoder: RequestEncoder, *, complete: bool) -> None:
        """Send all of it, and the end if the request is complete."""
        for data in self._pieces:
            encoder.encode_data(data)
        if complete:
            encoder.encode_end(self._trailers)
        else:
            encoder.flush()
